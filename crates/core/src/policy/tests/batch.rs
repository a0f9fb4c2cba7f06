use rstest::rstest;
use serde_json::json;

use super::policy;
use crate::node::{Node, NodeStatus};
use crate::policy::batch::BatchPolicySettings;
use crate::sample;

fn working(index: u32) -> Node {
    Node { status: NodeStatus::Active, ..sample::node(index) }
}

#[rstest]
#[case(5, 1, -1, &[4, 1])]
#[case(5, 2, -1, &[3, 2])]
#[case(5, 5, -1, &[3, 2])]
#[case(5, 1, 2, &[2, 2, 1])]
#[case(2, 4, -1, &[1, 1])]
#[case(1, 0, -1, &[1])]
#[case(0, 1, -1, &[])]
fn batches_leave_enough_nodes_at_work(
    #[case] total: u32,
    #[case] min_in_service: i64,
    #[case] max_batch_size: i64,
    #[case] sizes: &[usize],
) {
    let settings = BatchPolicySettings { min_in_service, max_batch_size, pause_time: 60 };
    let nodes: Vec<_> = (1..=total).map(working).collect();
    let plan = settings.plan(&nodes);
    assert_eq!(plan.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
}

#[test]
fn nodes_that_do_not_work_come_first() {
    let settings: BatchPolicySettings =
        policy("senlin.policy.batch-1.0", &json!({"max_batch_size": 1})).settings().unwrap();
    let mut nodes: Vec<_> = (1..=3).map(working).collect();
    nodes[2].status = NodeStatus::Error;
    assert_eq!(settings.plan(&nodes), [[nodes[2].id], [nodes[0].id], [nodes[1].id]]);
    assert_eq!(settings.pause_time, 60);
}

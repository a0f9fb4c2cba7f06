//! The names of what actions are about.

use muster_core::action::{ActionKind, ActionStatus, OnConflict, Target};
use muster_core::node::Node;
use muster_core::sample;
use muster_store::commands::{ActionEnd, Record};
use muster_store::reads::ActionNames;
use muster_testkit::database_test;

use crate::harness::{self, Harness, claim, living, record, request};

#[database_test]
async fn actions_have_the_names_of_their_clusters_and_nodes_while_these_exist(harness: Harness) {
    let store = &harness.store;
    let creation = harness.create(1).await;
    let cluster = harness::cluster(1);
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let node = Node { cluster_id: Some(cluster.id), ..sample::node(1) };
    let end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    let nodes = vec![node.clone()];
    store.record(Record { new_nodes: nodes, end: end.clone(), ..record(&claimed) }).await.unwrap();
    let mut check = request(2, ActionKind::NodeCheck, cluster.id, OnConflict::Queue);
    check.action.target = Target::Node(node.id);
    store.accept(check).await.unwrap();

    let names = async || {
        let found = store.action_names(&[creation.id, harness::action_id(2)]).await.unwrap();
        [creation.id, harness::action_id(2)].map(|id| {
            let ActionNames { target, cluster } = found.get(&id).cloned().unwrap_or_default();
            format!("{target} of {cluster}")
        })
    };
    let of_cluster = format!("{0} of {0}", cluster.name);
    assert_eq!(names().await, [of_cluster.clone(), format!("{} of {}", node.name, cluster.name)]);

    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    store.record(Record { gone_nodes: vec![node.id], end, ..record(&claimed) }).await.unwrap();
    assert_eq!(names().await, [of_cluster, format!(" of {}", cluster.name)], "the node is gone");
}

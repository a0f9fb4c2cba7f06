use rstest::rstest;

use super::Stored as _;
use crate::action::{Action, ActionKind, ActionStatus, Cause, Milestone};
use crate::cluster::{Cluster, ClusterStatus};
use crate::event::ObjectKind;
use crate::node::{Node, NodeRole, NodeStatus};
use crate::sample;
use crate::status::{self, HeadState};

#[test]
fn a_known_value_is_read_as_itself() {
    for status in ActionStatus::ALL {
        assert_eq!(ActionStatus::from_stored(status.as_str()), *status);
        assert_eq!(status.as_str().parse(), Ok(*status));
    }
}

#[test]
fn a_stored_value_of_a_newer_version_is_written_as_it_was_read() {
    let newer = ActionStatus::from_stored("POSTPONED");
    assert_eq!(newer.as_str(), "POSTPONED");
    assert_eq!(newer.to_string(), "POSTPONED");
    assert_eq!(serde_json::to_value(newer).unwrap(), "POSTPONED");
    assert_eq!(newer, ActionStatus::from_stored("POSTPONED"));
    assert_ne!(newer, ActionStatus::from_stored("DRAINING"));
    assert!(!ActionStatus::ALL.contains(&newer));
}

#[test]
fn a_request_with_an_unknown_value_is_refused_with_those_that_are_known() {
    let refused = "POSTPONED".parse::<Milestone>().unwrap_err();
    assert_eq!(refused.to_string(), "'POSTPONED' is not a milestone: must be accepted, applied or reached");
    let refused = "GATEWAY".parse::<NodeRole>().unwrap_err();
    assert_eq!(refused.to_string(), "'GATEWAY' is not a node role: must be head or worker");
    let refused = "SOMETIMES".parse::<ObjectKind>().unwrap_err().to_string();
    assert!(refused.starts_with("'SOMETIMES' is not an object kind: must be "), "{refused}");
    let refused = serde_json::from_str::<NodeRole>("\"GATEWAY\"").unwrap_err().to_string();
    assert!(refused.starts_with("unknown variant `GATEWAY`, expected `head` or `worker`"), "{refused}");
}

#[test]
fn an_action_of_an_unknown_status_has_not_ended_and_reached_nothing() {
    let cluster = sample::cluster(1, 0, None);
    let status = ActionStatus::from_stored("POSTPONED");
    let action = Action { status, ..sample::action(1, ActionKind::ClusterCheck, cluster.id) };
    assert!(!status.is_final());
    assert!(action.has_reached(Milestone::Accepted));
    assert!(!action.has_reached(Milestone::Applied) && !action.has_reached(Milestone::Reached));
}

#[test]
fn an_action_of_an_unknown_kind_changes_no_status_and_goes_before_none() {
    let kind = ActionKind::from_stored("CLUSTER_MIGRATE");
    assert_eq!((ClusterStatus::during(kind), ClusterStatus::reason_during(kind)), (None, None));
    assert_eq!(kind.priority(Cause::from_stored("A cause of a newer version")), 0);
    assert!(!kind.locks_cluster());
    let action = sample::action(1, kind, sample::cluster(1, 0, None).id);
    assert_eq!(action.name(), "cluster_migrate_00000000");
}

#[test]
fn a_cluster_of_an_unknown_status_is_not_busy() {
    assert!(!ClusterStatus::from_stored("MIGRATING").is_transitional());
}

#[test]
fn a_node_of_an_unknown_role_is_neither_head_nor_worker() {
    let node = Node { role: NodeRole::from_stored("gateway"), status: NodeStatus::Active, ..sample::node(1) };
    assert_eq!(crate::candidates::workers(&[node], None).count(), 0);
}

#[rstest]
#[case("DRAINING", HeadState::Up)]
#[case("ERROR", HeadState::Lost)]
fn a_head_of_an_unknown_status_is_not_lost(#[case] status: &str, #[case] expected: HeadState) {
    let cluster = Cluster { has_head: true, ..sample::cluster(1, 0, None) };
    let status = NodeStatus::from_stored(status);
    assert_eq!(status::head_by(&cluster, Some(status)), expected);
    assert!(status == NodeStatus::Error || !Node { status, ..sample::node(1) }.is_unhealthy());
}

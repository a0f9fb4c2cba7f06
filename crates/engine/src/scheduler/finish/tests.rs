use muster_core::node::Node;
use muster_core::sample;
use rstest::rstest;

use super::*;
use crate::ports::provider::{Membership, OperatorCapabilities};
use crate::run::sample::subject;

const NOW: Timestamp = Timestamp::from_micros(1_000_000);
const DELEGATED: Membership = Membership::Delegated(OperatorCapabilities {
    replaces_head: false,
    rolls: false,
    replaces_workers: false,
});

fn node(index: u32, status: NodeStatus) -> Node {
    Node { status, physical_id: Some(format!("p{index}")), ..sample::node(index) }
}

fn end(status: ActionStatus, reason: &str) -> ActionEnd {
    ActionEnd { status, reason: reason.to_owned() }
}

fn statuses(subject: &RunSubject) -> Vec<NodeStatus> {
    subject.nodes.iter().map(|node| node.status).collect()
}

#[rstest]
#[case::failed(ActionStatus::Failed, Membership::Individual, NodeStatus::Error)]
#[case::succeeded(ActionStatus::Succeeded, Membership::Individual, NodeStatus::Creating)]
#[case::delegated(ActionStatus::Failed, DELEGATED, NodeStatus::Creating)]
fn nodes_that_a_failed_action_did_not_finish_are_in_error(
    #[case] status: ActionStatus,
    #[case] membership: Membership,
    #[case] expected: NodeStatus,
) {
    let nodes = vec![node(1, NodeStatus::Active), node(2, NodeStatus::Creating)];
    let mut subject = subject(nodes, membership);
    settle_nodes(&mut subject, ActionKind::ClusterResize, &end(status, "no image"), NOW);
    assert_eq!(statuses(&subject), [NodeStatus::Active, expected]);
}

#[test]
fn an_action_that_shares_its_cluster_settles_only_its_target() {
    let nodes = vec![node(1, NodeStatus::Updating), node(2, NodeStatus::Updating)];
    let target = nodes.last().cloned();
    let mut subject = RunSubject { target, ..subject(nodes, Membership::Individual) };
    settle_nodes(&mut subject, ActionKind::NodeUpdate, &end(ActionStatus::Failed, "lost"), NOW);
    assert_eq!(statuses(&subject), [NodeStatus::Updating, NodeStatus::Error]);
}

#[test]
fn a_progress_message_is_replaced_by_the_reason_of_the_failure_and_an_error_is_not() {
    let progress = Node { status_reason: "Update in progress".to_owned(), ..node(1, NodeStatus::Updating) };
    let error = Node { status_reason: "no such image".to_owned(), ..node(2, NodeStatus::Creating) };
    let mut subject = subject(vec![progress, error], Membership::Individual);
    settle_nodes(&mut subject, ActionKind::ClusterUpdate, &end(ActionStatus::Failed, "TIMEOUT"), NOW);
    let reasons: Vec<&str> = subject.nodes.iter().map(|node| node.status_reason.as_str()).collect();
    assert_eq!(reasons, ["TIMEOUT", "no such image"]);
}

#[test]
fn a_cluster_whose_creation_failed_names_the_reason_and_that_it_is_not_healed() {
    let mut subject = subject(vec![node(1, NodeStatus::Error)], Membership::Individual);
    let action = sample::action(5, ActionKind::ClusterCreate, subject.cluster.id);
    settle_cluster(&mut subject, &action, false, &end(ActionStatus::Failed, "no image"), NOW);
    let cluster = &subject.cluster;
    assert_eq!(cluster.created_at, None);
    assert!(
        cluster.status_reason.contains("no image. Creation did not succeed, so nodes"),
        "{}",
        cluster.status_reason
    );
}

#[test]
fn obstacles_explain_a_cluster_that_is_not_active_after_a_success() {
    let mut subject = subject(vec![node(1, NodeStatus::Error)], DELEGATED);
    subject.obstacles = vec!["no capacity".to_owned()];
    let action = sample::action(5, ActionKind::ClusterResize, subject.cluster.id);
    settle_cluster(&mut subject, &action, false, &end(ActionStatus::Succeeded, "Resized."), NOW);
    assert!(subject.cluster.status_reason.ends_with("no capacity"), "{}", subject.cluster.status_reason);
    assert_ne!(subject.cluster.status, ClusterStatus::Active);
}

#[test]
fn a_deleted_cluster_is_history() {
    let mut subject = subject(Vec::new(), Membership::Individual);
    let action = sample::action(5, ActionKind::ClusterDelete, subject.cluster.id);
    settle_cluster(&mut subject, &action, true, &end(ActionStatus::Succeeded, "Deleted."), NOW);
    let cluster = &subject.cluster;
    assert_eq!((cluster.status, cluster.deleted_at), (ClusterStatus::Deleted, Some(NOW)));
    assert_eq!(cluster.status_reason, "Deleted.");
}

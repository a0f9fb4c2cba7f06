//! Child actions: each can be cancelled by itself, and otherwise follows its parent.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict, Target};
use muster_core::ids::{ActionId, ClusterId};
use muster_core::node::{Node, NodeStatus};
use muster_core::time::TimeSpan;
use muster_engine::ChangeRequest;
use muster_store::commands::SignalKind;
use muster_testkit::fake::Verb;
use muster_testkit::{ManualClock, database_test, read_change};

use crate::harness::{Harness, Kind, caller, exactly, setup};

async fn node_of(harness: &Harness, cluster: ClusterId, child: &Action) -> Node {
    let nodes = harness.nodes(cluster).await;
    nodes.into_iter().find(|node| Target::Node(node.id) == child.target).expect("its node is there")
}

async fn statuses(harness: &Harness, parent: ActionId) -> Vec<ActionStatus> {
    harness.children(parent).await.iter().map(|child| child.status).collect()
}

#[database_test]
async fn cancelling_a_child_leaves_its_node_out_and_the_others_continue(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.provider.begun(Verb::Start, 3).await;
    let [cancelled, other] = &harness.children(resize).await[..] else { panic!("two nodes are added") };
    harness.engine.signal(cancelled.id, SignalKind::Cancel, None).await.unwrap();
    harness.until(cancelled.id, ActionStatus::Cancelled).await;
    harness.provider.begun(Verb::Start, 4).await;
    assert_eq!(node_of(&harness, cluster.id, other).await.starts.len(), 1, "a start that was cut counts");
    harness.provider.release();
    let resize = harness.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let node = node_of(&harness, cluster.id, cancelled).await;
    assert_eq!(resize.status_reason, format!("{}: its action {} was cancelled", node.name, cancelled.id));
    assert_eq!(node.status, NodeStatus::Error);
    assert_eq!(harness.action(other.id).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running().len(), 2);
    assert_eq!(harness.resized(&cluster, 3).await.status, ActionStatus::Succeeded);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_node_that_was_left_out_stays_out_when_another_engine_continues(mut harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.applied(resize).await;
    let cancelled = harness.children(resize).await.remove(0);
    harness.engine.signal(cancelled.id, SignalKind::Cancel, None).await.unwrap();
    harness.until(cancelled.id, ActionStatus::Cancelled).await;
    harness.engine.stop().await;
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    let resize = harness.ended(resize).await;
    assert!(resize.status_reason.contains(&cancelled.id.to_string()), "{}", resize.status_reason);
    assert_eq!(harness.provider.running().len(), 2);
}

#[database_test]
async fn parts_are_suspended_resumed_and_cancelled_with_their_parent(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.applied(resize).await;
    harness.engine.signal(resize, SignalKind::Suspend, None).await.unwrap();
    harness.until(resize, ActionStatus::Suspended).await;
    assert_eq!(statuses(&harness, resize).await, [ActionStatus::Suspended; 2]);
    let begun = harness.provider.count(Verb::Start);
    harness.engine.signal(resize, SignalKind::Resume, None).await.unwrap();
    harness.provider.begun(Verb::Start, begun + 2).await;
    assert_eq!(statuses(&harness, resize).await, [ActionStatus::Running; 2]);
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    harness.ended(resize).await;
    assert_eq!(statuses(&harness, resize).await, [ActionStatus::Cancelled; 2]);
}

#[database_test]
async fn parts_end_with_a_parent_that_took_too_long(kind: Kind) {
    let clock = ManualClock::default();
    let Some(harness) = setup().clock(&clock).open(kind).await else { return };
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let change = ChangeRequest {
        change: read_change(ActionKind::ClusterResize, &exactly(3)),
        cluster: cluster.clone(),
        node: None,

        on_conflict: OnConflict::Queue,
        timeout: Some(TimeSpan::from_secs(1)),
    };
    let resize = harness.engine.submit(change, caller()).await.unwrap().action.id;
    harness.provider.begun(Verb::Start, 3).await;
    assert_eq!(statuses(&harness, resize).await, [ActionStatus::Running; 2]);
    clock.advance(TimeSpan::from_secs(1));
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Failed);
    assert_eq!(statuses(&harness, resize).await, [ActionStatus::Failed; 2]);
}

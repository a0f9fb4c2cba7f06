//! Recreated nodes, and old instances that do not stop.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict};
use muster_core::ids::ActionId;
use muster_core::node::{Node, NodeStatus};
use muster_core::time::TimeSpan;
use muster_engine::NodeChangeRequest;
use muster_engine::ports::provider::ProviderError;
use muster_testkit::fake::Verb;
use muster_testkit::{ManualClock, database_test, read_change};
use serde_json::{Value, json};

use crate::harness::{Harness, Kind, PATIENCE, caller, setup};
use crate::nodes::{orphan, row};

async fn recover(harness: &Harness, node: &Node, inputs: Value) -> ActionId {
    let (kind, node) = (ActionKind::NodeRecover, row(harness, node).await);
    let change = NodeChangeRequest {
        change: read_change(kind, &inputs),
        node,
        on_conflict: OnConflict::Reject,
        timeout: None,
    };
    harness.engine.submit_node(change, caller()).await.expect("accepted").action.id
}

/// Starts a recovery whose old node does not stop, and advances the clock beyond its `delete_timeout`.
async fn late(harness: &Harness, clock: &ManualClock, node: &Node, force: bool) -> ActionId {
    harness.provider.hold(Verb::Stop);
    let recovery = recover(harness, node, json!({"delete_timeout": 20, "force_recreate": force})).await;
    harness.provider.begun(Verb::Stop, 1).await;
    clock.advance(TimeSpan::from_secs(21));
    recovery
}

fn outcome(action: &Action) -> (ActionStatus, &str) {
    (action.status, &action.status_reason)
}

#[database_test]
async fn a_node_that_is_not_gone_in_time_is_not_recreated(kind: Kind) {
    let clock = ManualClock::default();
    let Some(harness) = setup().clock(&clock).open(kind).await else { return };
    let node = orphan(&harness).await;
    let recovery = late(&harness, &clock, &node, false).await;
    let ended = harness.ended(recovery).await;
    assert_eq!(
        outcome(&ended),
        (ActionStatus::Failed, "the old instance did not stop within 20 s (delete_timeout)")
    );
    let left = row(&harness, &node).await;
    assert_eq!((left.status, &left.physical_id), (NodeStatus::Error, &node.physical_id));
    assert_eq!(harness.provider.count(Verb::Start), 1, "only its creation");
    harness.provider.release();
    let again = recover(&harness, &node, json!({"delete_timeout": 20})).await;
    assert_eq!(harness.ended(again).await.status, ActionStatus::Succeeded);
    assert_ne!(harness.provider.physical_id(node.id), node.physical_id);
}

#[database_test]
async fn a_forced_node_is_recreated_as_soon_as_it_is_gone(kind: Kind) {
    let clock = ManualClock::default();
    let Some(harness) = setup().clock(&clock).open(kind).await else { return };
    let node = orphan(&harness).await;
    let recovery = late(&harness, &clock, &node, true).await;
    let again = tokio::time::timeout(PATIENCE.into(), harness.provider.begun(Verb::Stop, 2)).await;
    again.expect("it is still stopped");
    harness.provider.release();
    let ended = harness.ended(recovery).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    let made = row(&harness, &node).await;
    assert_ne!(made.physical_id, node.physical_id);
    assert_eq!(made.physical_id, harness.provider.physical_id(node.id));
}

#[database_test]
async fn what_cannot_be_stopped_is_not_taken_for_new(harness: Harness) {
    let node = orphan(&harness).await;
    for (force, why) in [
        (false, "mine: it clings to life"),
        (true, "the old instance cannot be stopped, so it cannot be replaced"),
    ] {
        harness.provider.fail_next(Verb::Stop, ProviderError::permanent("Stuck", "it clings to life"));
        let recovery = recover(&harness, &node, json!({"force_recreate": force})).await;
        assert_eq!(outcome(&harness.ended(recovery).await), (ActionStatus::Failed, why));
        let left = row(&harness, &node).await;
        assert_eq!((left.status, &left.physical_id), (NodeStatus::Error, &node.physical_id));
    }
}

#[database_test]
async fn a_check_of_a_cluster_has_a_part_for_each_member(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    assert_eq!(harness.ended(check).await.status, ActionStatus::Succeeded);
    let parts = harness.children(check).await;
    let ended = |part: &Action| (part.kind, part.status) == (ActionKind::NodeCheck, ActionStatus::Succeeded);
    assert!(parts.len() == 3 && parts.iter().all(ended), "{parts:?}");
    let tidy = harness.submit(ActionKind::ClusterCheck, &cluster, json!({"delete_check_action": true})).await;
    assert_eq!(harness.ended(tidy).await.status, ActionStatus::Succeeded);
    assert_eq!(
        harness.store().action(check).await.expect("the store answers"),
        None,
        "it was to be forgotten"
    );
    assert_eq!((harness.children(check).await.len(), harness.children(tidy).await.len()), (0, 3));
}

//! Nodes that are made anew, and what becomes of those that do not go.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict};
use muster_core::ids::ActionId;
use muster_core::node::{Node, NodeStatus};
use muster_core::time::Span;
use muster_engine::NodeChange;
use muster_engine::ports::provider::ProviderError;
use muster_testkit::ManualClock;
use muster_testkit::fake::Verb;
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Kind, PATIENCE, caller};
use crate::nodes::{orphan, row};

async fn recover(world: &Fixture, node: &Node, inputs: Value) -> ActionId {
    let (kind, node) = (ActionKind::NodeRecover, row(world, node).await);
    let change = NodeChange { kind, node, inputs, on_conflict: OnConflict::Reject, timeout: None };
    world.engine.submit_node(change, caller()).await.expect("accepted").action.id
}

/// The end of a recovery whose old node does not go, after so many seconds.
async fn late(world: &Fixture, clock: &ManualClock, node: &Node, force: bool) -> ActionId {
    world.world.hold(Verb::Stop);
    let recovery = recover(world, node, json!({"delete_timeout": 20, "force_recreate": force})).await;
    world.world.begun(Verb::Stop, 1).await;
    clock.advance(Span::from_secs(21));
    recovery
}

fn outcome(action: &Action) -> (ActionStatus, &str) {
    (action.status, &action.status_reason)
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_is_not_gone_in_time_is_not_made_anew(#[case] kind: Kind) {
    let clock = ManualClock::default();
    let Some(world) = Fixture::open_by(kind, &clock).await else { return };
    let node = orphan(&world).await;
    let recovery = late(&world, &clock, &node, false).await;
    let ended = world.ended(recovery).await;
    assert_eq!(outcome(&ended), (ActionStatus::Failed, "it was not gone within 20 s (delete_timeout)"));
    let left = row(&world, &node).await;
    assert_eq!((left.status, &left.physical_id), (NodeStatus::Error, &node.physical_id));
    assert_eq!(world.world.count(Verb::Start), 1, "only its creation");
    world.world.release();
    let again = recover(&world, &node, json!({"delete_timeout": 20})).await;
    assert_eq!(world.ended(again).await.status, ActionStatus::Succeeded);
    assert_ne!(world.world.physical_id(node.id), node.physical_id);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn one_that_is_forced_is_made_anew_as_soon_as_it_is_gone(#[case] kind: Kind) {
    let clock = ManualClock::default();
    let Some(world) = Fixture::open_by(kind, &clock).await else { return };
    let node = orphan(&world).await;
    let recovery = late(&world, &clock, &node, true).await;
    let again = tokio::time::timeout(PATIENCE.into(), world.world.begun(Verb::Stop, 2)).await;
    again.expect("it goes on being stopped");
    world.world.release();
    let ended = world.ended(recovery).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    let made = row(&world, &node).await;
    assert_ne!(made.physical_id, node.physical_id);
    assert_eq!(made.physical_id, world.world.physical_id(node.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_cannot_be_stopped_is_not_taken_for_new(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let node = orphan(&world).await;
    for (force, why) in [
        (false, "mine: it clings to life"),
        (true, "what it was cannot be stopped, and nothing can take its place before"),
    ] {
        world.world.fail_next(Verb::Stop, ProviderError::permanent("Stuck", "it clings to life"));
        let recovery = recover(&world, &node, json!({"force_recreate": force})).await;
        assert_eq!(outcome(&world.ended(recovery).await), (ActionStatus::Failed, why));
        let left = row(&world, &node).await;
        assert_eq!((left.status, &left.physical_id), (NodeStatus::Error, &node.physical_id));
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_check_of_a_cluster_has_a_part_for_each_member(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(3).await;
    let check = world.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    assert_eq!(world.ended(check).await.status, ActionStatus::Succeeded);
    let parts = world.children(check).await;
    let ended = |part: &Action| (part.kind, part.status) == (ActionKind::NodeCheck, ActionStatus::Succeeded);
    assert!(parts.len() == 3 && parts.iter().all(ended), "{parts:?}");
    let tidy = world.submit(ActionKind::ClusterCheck, &cluster, json!({"delete_check_action": true})).await;
    assert_eq!(world.ended(tidy).await.status, ActionStatus::Succeeded);
    assert_eq!(world.store().action(check).await.expect("the store answers"), None, "it was to be forgotten");
    assert_eq!((world.children(check).await.len(), world.children(tidy).await.len()), (0, 3));
}

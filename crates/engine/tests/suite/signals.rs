//! Cancel, suspend, resume, time-outs.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::ClusterStatus;
use muster_core::time::Span;
use muster_engine::Change;
use muster_store::commands::SignalKind;
use muster_testkit::ManualClock;
use muster_testkit::fake::Verb;
use rstest::rstest;
use serde_json::json;

use crate::fixture::{Fixture, Kind, caller, exactly};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn cancelling_reaches_node_work_that_is_under_way(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.world.begun(Verb::Start, 2).await;
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    let action = world.ended(resize).await;
    assert_eq!(
        (action.status, action.status_reason.as_str()),
        (ActionStatus::Cancelled, "Action execution cancelled")
    );
    assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Warning);
    assert_eq!(world.world.count(Verb::Stop), 2, "nothing is seen of them, but they may be on their way");
    world.world.release();
    // What the cancelled action left is in the rows, so the next one can deal with it.
    assert_eq!(world.resized(&cluster, 1).await.status, ActionStatus::Succeeded);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_suspended_action_keeps_its_lock_and_goes_on_when_resumed(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.applied(resize).await;
    world.engine.signal(resize, SignalKind::Suspend).await.unwrap();
    world.until(resize, ActionStatus::Suspended).await;
    world.world.release();
    let check = world.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    assert_eq!(world.action(check).await.status, ActionStatus::Ready, "the lock was lost");
    world.engine.signal(resize, SignalKind::Resume).await.unwrap();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Succeeded);
    world.ended(check).await;
    world.assert_agreement(cluster.id).await;
    assert_eq!(world.world.running().len(), 3);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_suspended_action_can_be_cancelled(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.applied(resize).await;
    world.engine.signal(resize, SignalKind::Suspend).await.unwrap();
    world.until(resize, ActionStatus::Suspended).await;
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Cancelled);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_action_that_takes_too_long_fails_with_its_limit(#[case] kind: Kind) {
    let clock = ManualClock::default();
    let Some(world) = Fixture::open_by(kind, &clock).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let change = Change {
        kind: ActionKind::ClusterResize,
        cluster: cluster.clone(),
        node: None,
        inputs: exactly(2),
        on_conflict: muster_core::action::OnConflict::Queue,
        timeout: Some(Span::from_secs(1)),
    };
    let action = world.engine.submit(change, caller()).await.unwrap().action.id;
    world.world.begun(Verb::Start, 2).await;
    clock.advance(Span::from_secs(1));
    let action = world.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "TIMEOUT: it did not end within 1 seconds");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_has_ended_cannot_be_told_anything(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (_, action) = world.created(1).await;
    let error = world.engine.signal(action.id, SignalKind::Cancel).await.unwrap_err();
    assert!(error.to_string().contains("it has ended"), "{error}");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_a_cancelled_shrink_left_is_not_brought_back(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(5).await;
    world.world.hold(Verb::Stop);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(1)).await;
    world.world.begun(Verb::Stop, 4).await;
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    world.ended(resize).await;
    world.world.release();
    let recover = world.submit(ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(world.ended(recover).await.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running().len(), 1, "the size is the intent");
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn nothing_queues_behind_a_deletion_or_comes_after_it(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Stop);
    let delete = world.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    world.world.begun(Verb::Stop, 1).await;
    let during = world.refused(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    assert!(during.to_string().contains("CLUSTER_DELETE"), "{during}");
    world.world.release();
    assert_eq!(world.ended(delete).await.status, ActionStatus::Succeeded);
    // Whoever asks has read its row before it was deleted.
    let after = world.refused(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    assert!(after.to_string().contains("could not be found"), "{after}");
    let gone = world.cluster(cluster.id).await;
    assert_eq!(gone.status, ClusterStatus::Deleted, "history was changed");
}

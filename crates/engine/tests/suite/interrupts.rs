//! A provider that does not answer keeps nobody: every call is cut when its action has to stop.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::Cluster;
use muster_core::ids::ActionId;
use muster_core::time::Span;
use muster_engine::{Change, Config};
use muster_store::commands::SignalKind;
use muster_testkit::ManualClock;
use muster_testkit::fake::{FAKE_NODE, Verb};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{self, Fixture, Kind, caller};

/// Whoever is not told learns nothing: a lost notice is a hang.
fn deaf() -> Config {
    Config { safety_period: Span::from_secs(3600), ..Config::default() }
}

/// A cluster, and an action on it that hangs in a verb.
async fn hanging(world: &Fixture, verb: Verb, timeout: Option<Span>) -> (Cluster, ActionId) {
    let (cluster, kind) = match verb {
        Verb::Create => (fixture::cluster(FAKE_NODE, 1), ActionKind::ClusterCreate),
        Verb::Update => (world.created(1).await.0, ActionKind::ClusterUpdate),
        Verb::Delete => (world.created(1).await.0, ActionKind::ClusterDelete),
        _ => (world.created(1).await.0, ActionKind::ClusterCheck),
    };
    world.world.hold(verb);
    let begun = world.world.count(verb);
    let action = match kind {
        ActionKind::ClusterCreate => {
            let timeout = timeout.unwrap_or(cluster.timeout);
            world.create(&Cluster { timeout, ..cluster.clone() }).await
        }
        kind => {
            let on_conflict = OnConflict::Queue;
            let change = Change {
                kind,
                cluster: cluster.clone(),
                node: None,
                inputs: json!({}),
                on_conflict,
                timeout,
            };
            world.engine.submit(change, caller()).await.expect("accepted").action.id
        }
    };
    if verb == Verb::Observe {
        world.until(action, ActionStatus::Running).await;
    } else {
        world.world.begun(verb, begun + 1).await;
    }
    (cluster, action)
}

#[rstest]
#[tokio::test]
async fn a_cancel_cuts_a_call(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Update, Verb::Delete, Verb::Observe)] verb: Verb,
) {
    let Some(world) = Fixture::open_config(kind, deaf()).await else { return };
    let (cluster, action) = hanging(&world, verb, None).await;
    world.engine.signal(action, SignalKind::Cancel).await.unwrap();
    assert_eq!(world.ended(action).await.status, ActionStatus::Cancelled);
    world.world.release();
    let delete = world.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(world.ended(delete).await.status, ActionStatus::Succeeded, "what it left can be removed");
    assert_eq!(world.world.running(), []);
}

#[rstest]
#[tokio::test]
async fn a_suspended_call_is_taken_up_again(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Update, Verb::Delete, Verb::Observe)] verb: Verb,
) {
    let Some(world) = Fixture::open_config(kind, deaf()).await else { return };
    let (_, action) = hanging(&world, verb, None).await;
    world.engine.signal(action, SignalKind::Suspend).await.unwrap();
    world.until(action, ActionStatus::Suspended).await;
    world.world.release();
    world.engine.signal(action, SignalKind::Resume).await.unwrap();
    assert_eq!(world.ended(action).await.status, ActionStatus::Succeeded);
}

#[rstest]
#[tokio::test]
async fn an_engine_that_stops_does_not_wait_for_a_call(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Update, Verb::Delete, Verb::Observe)] verb: Verb,
) {
    let Some(mut world) = Fixture::open_config(kind, deaf()).await else { return };
    let (_, action) = hanging(&world, verb, None).await;
    tokio::time::timeout(fixture::PATIENCE.into(), world.engine.stop()).await.expect("it stops");
    assert_eq!(world.action(action).await.status, ActionStatus::Ready);
    world.world.release();
    world.engine = fixture::engine(world.store().clone(), &world.world).await;
    assert_eq!(world.ended(action).await.status, ActionStatus::Succeeded);
}

#[rstest]
#[tokio::test]
async fn a_call_does_not_outlast_its_actions_time(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Delete)] verb: Verb,
) {
    let clock = ManualClock::default();
    let Some(world) = Fixture::open_by_with(kind, &clock, deaf()).await else { return };
    let (_, action) = hanging(&world, verb, Some(Span::from_secs(1))).await;
    clock.advance(Span::from_secs(1));
    let action = world.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "TIMEOUT: it did not end within 1 seconds");
}

//! A provider that does not respond blocks nothing: every call is dropped when its action has to stop.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::Cluster;
use muster_core::ids::ActionId;
use muster_core::time::TimeSpan;
use muster_engine::{ChangeRequest, Config};
use muster_store::commands::SignalKind;
use muster_testkit::fake::{FAKE_NODE, Verb};
use muster_testkit::{ManualClock, read_change};
use rstest::rstest;
use serde_json::json;

use crate::harness::{self, Harness, Kind, caller, setup};

/// Without polling, a lost notification is a hang.
fn deaf() -> Config {
    Config { safety_period: TimeSpan::from_secs(3600), ..Config::default() }
}

/// A cluster, and an action on it that hangs in a verb.
async fn hanging(harness: &Harness, verb: Verb, timeout: Option<TimeSpan>) -> (Cluster, ActionId) {
    let (cluster, kind) = match verb {
        Verb::Create => (harness::cluster(FAKE_NODE, 1), ActionKind::ClusterCreate),
        Verb::Delete => (harness.created(1).await.0, ActionKind::ClusterDelete),
        _ => (harness.created(1).await.0, ActionKind::ClusterCheck),
    };
    harness.provider.hold(verb);
    let begun = harness.provider.count(verb);
    let action = match kind {
        ActionKind::ClusterCreate => {
            let timeout = timeout.unwrap_or(cluster.timeout);
            harness.create(&Cluster { timeout, ..cluster.clone() }).await
        }
        kind => {
            let on_conflict = OnConflict::Queue;
            let change = ChangeRequest {
                change: read_change(kind, &json!({})),
                cluster: cluster.clone(),
                node: None,

                on_conflict,
                timeout,
            };
            harness.engine.submit(change, caller()).await.expect("accepted").action.id
        }
    };
    if verb == Verb::Observe {
        harness.until(action, ActionStatus::Running).await;
    } else {
        harness.provider.begun(verb, begun + 1).await;
    }
    (cluster, action)
}

#[rstest]
#[tokio::test]
async fn a_cancel_cuts_a_call(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Delete, Verb::Observe)] verb: Verb,
) {
    let Some(harness) = setup().config(deaf()).open(kind).await else { return };
    let (cluster, action) = hanging(&harness, verb, None).await;
    harness.engine.signal(action, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(action).await.status, ActionStatus::Cancelled);
    harness.provider.release();
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded, "what it left can be removed");
    assert_eq!(harness.provider.running(), []);
}

#[rstest]
#[tokio::test]
async fn a_suspended_call_is_taken_up_again(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Delete, Verb::Observe)] verb: Verb,
) {
    let Some(harness) = setup().config(deaf()).open(kind).await else { return };
    let (_, action) = hanging(&harness, verb, None).await;
    harness.engine.signal(action, SignalKind::Suspend, None).await.unwrap();
    harness.until(action, ActionStatus::Suspended).await;
    harness.provider.release();
    harness.engine.signal(action, SignalKind::Resume, None).await.unwrap();
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
}

#[rstest]
#[tokio::test]
async fn an_engine_that_stops_does_not_wait_for_a_call(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Delete, Verb::Observe)] verb: Verb,
) {
    let Some(mut harness) = setup().config(deaf()).open(kind).await else { return };
    let (_, action) = hanging(&harness, verb, None).await;
    tokio::time::timeout(harness::PATIENCE.into(), harness.engine.stop()).await.expect("it stops");
    assert_eq!(harness.action(action).await.status, ActionStatus::Ready);
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
}

#[rstest]
#[tokio::test]
async fn a_call_does_not_outlast_its_actions_time(
    #[values(Kind::Sqlite, Kind::Postgres)] kind: Kind,
    #[values(Verb::Create, Verb::Delete)] verb: Verb,
) {
    let clock = ManualClock::default();
    let Some(harness) = setup().clock(&clock).config(deaf()).open(kind).await else { return };
    let (_, action) = hanging(&harness, verb, Some(TimeSpan::from_secs(1))).await;
    clock.advance(TimeSpan::from_secs(1));
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "TIMEOUT: it did not end within 1 seconds");
}

//! Transient failures are retried with a back-off; an action that keeps crashing is ended.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::backoff::Backoff;
use muster_core::cluster::ClusterStatus;
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::SignalKind;
use muster_testkit::database_test;
use muster_testkit::fake::{FAKE_NODE, Verb};
use serde_json::json;

use crate::harness::{self, Harness, exactly, setup};

/// Delays that are too short to matter.
fn quick() -> Config {
    Config {
        backoff: Backoff { first: TimeSpan::from_millis(1), longest: TimeSpan::from_millis(4) },
        ..Config::default()
    }
}

/// Delays that never end, and a single slot.
fn slow() -> Config {
    let ever = TimeSpan::from_secs(3600);
    Config { backoff: Backoff { first: ever, longest: ever }, parallel_actions: 1, ..Config::default() }
}

fn busy() -> ProviderError {
    ProviderError::transient("Busy", "the machine is busy")
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn a_transient_failure_is_retried(harness: Harness) {
    for verb in [Verb::Create, Verb::Delete] {
        harness.provider.fail_next(verb, busy());
        harness.provider.fail_next(verb, busy());
    }
    let (cluster, create) = harness.created(1).await;
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    let delete = harness.ended(delete).await;
    for action in [create, delete] {
        assert_eq!((action.status, action.tries), (ActionStatus::Succeeded, 2), "{}", action.kind);
    }
    let calls = [Verb::Create, Verb::Delete].map(|verb| harness.provider.count(verb));
    assert_eq!(calls, [3, 3]);
}

#[database_test(|kind| setup().config(slow()).open(kind))]
async fn an_action_that_pauses_leaves_its_hand_to_others_and_can_be_cancelled_at_once(harness: Harness) {
    harness.provider.fail_next(Verb::Create, busy());
    let pausing = harness.create(&harness::cluster(FAKE_NODE, 1)).await;
    harness.provider.begun(Verb::Create, 1).await;
    harness.until(pausing, ActionStatus::Ready).await;
    let reason = harness.action(pausing).await.status_reason;
    assert!(reason.contains("the machine is busy"), "{reason}");
    let (_, other) = harness.created(1).await;
    assert_eq!(other.status, ActionStatus::Succeeded);
    harness.engine.signal(pausing, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(pausing).await.status, ActionStatus::Cancelled);
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn a_world_that_cannot_be_seen_for_long_makes_room_for_others(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    for _ in 0..7 {
        harness.provider.fail_next(Verb::Observe, busy());
    }
    let resize = harness.resized(&cluster, 2).await;
    assert_eq!((resize.status, resize.tries), (ActionStatus::Succeeded, 1));
    harness.assert_agreement(cluster.id).await;
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn an_acknowledged_stop_without_effect_fails_the_action(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    harness.provider.ignore(Verb::Stop);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(1)).await;
    let resize = harness.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let reason = "still running after 8 successful stop calls: end it by hand";
    assert!(resize.status_reason.ends_with(reason), "{}", resize.status_reason);
    assert_eq!(harness.provider.count(Verb::Stop), 8);
    let child = harness.children(resize.id).await.remove(0);
    assert_eq!((child.status, child.status_reason.as_str()), (ActionStatus::Failed, reason));
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn an_action_whose_provider_panics_is_tried_again(harness: Harness) {
    harness.provider.panic_next(Verb::Create, 2);
    harness.provider.panic_next(Verb::Start, 1);
    let (cluster, create) = harness.created(1).await;
    assert_eq!((create.status, create.tries), (ActionStatus::Succeeded, 3));
    harness.assert_agreement(cluster.id).await;
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn an_action_whose_provider_keeps_panicking_fails_and_releases_its_locks(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.panic_next(Verb::Start, usize::MAX);
    let started = harness.provider.count(Verb::Start);
    let resize = harness.resized(&cluster, 2).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let words = "It crashed at attempt 5 and is not retried: an injected panic at Start.";
    assert!(resize.status_reason.starts_with(words), "{}", resize.status_reason);
    assert_eq!(harness.provider.count(Verb::Start) - started, 5);
    assert_eq!(harness.children(resize.id).await[0].status, ActionStatus::Failed);
    let nodes = harness.nodes(cluster.id).await;
    assert!(
        nodes.iter().all(|node| matches!(node.status, NodeStatus::Active | NodeStatus::Error)),
        "{nodes:?}"
    );
    harness.provider.panic_next(Verb::Start, 0);
    assert_eq!(harness.resized(&cluster, 1).await.status, ActionStatus::Succeeded, "its lock was lost");
}

#[database_test]
async fn an_observer_whose_provider_panics_restarts(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let nodes = harness.nodes(cluster.id).await;
    let worker = nodes.iter().find(|node| node.role == NodeRole::Worker).unwrap();
    harness.provider.panic_next(Verb::Observe, 1);
    harness.provider.kill(worker.id, "killed by signal 9");
    harness.until_healed(cluster.id).await;
    assert_eq!(harness.provider.running().len(), 2);
}

//! A database that was restored from an older copy: its nodes and objects have seen higher fences than it has drawn.

use muster_core::action::{ActionKind, ActionStatus, Fence};
use muster_core::ids::ClusterId;
use muster_engine::ports::provider::ProviderError;
use muster_store::Dialect;
use muster_store::reads::EventQuery;
use muster_testkit::database_test;
use muster_testkit::fake::Verb;
use serde_json::json;

use crate::delegated;
use crate::harness::{Harness, exactly};

/// Resets the sequence of fences, as if none had been drawn.
async fn restore(harness: &Harness) {
    let sql = match harness.store().dialect() {
        Dialect::Sqlite => "UPDATE counters SET value = 0 WHERE name = 'fence'",
        Dialect::Postgres => "SELECT setval('fences', 1, false)",
    };
    harness.fresh.execute(sql).await;
}

/// The number of events that reported the restored database.
async fn reported(harness: &Harness, cluster: ClusterId) -> usize {
    let query = EventQuery { cluster: Some(cluster), ..EventQuery::default() };
    let events = harness.store().events(&query).await.expect("the store answers").items;
    events.iter().filter(|event| event.reason == "DatabaseBehind").count()
}

#[database_test]
async fn single_nodes_are_started_and_stopped_again(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    assert_eq!(harness.resized(&cluster, 2).await.status, ActionStatus::Succeeded);
    let before = harness.store().change_bounds().await.unwrap();
    restore(&harness).await;
    let resize = harness.resized(&cluster, 3).await;
    assert_eq!(resize.status, ActionStatus::Succeeded, "{}", resize.status_reason);
    assert_eq!(harness.provider.running().len(), 3);
    assert_eq!(reported(&harness, cluster.id).await, 1);
    let after = harness.store().change_bounds().await.unwrap();
    assert!(
        after.oldest > before.last && after.newest >= after.oldest,
        "watches continue from before: {after:?}"
    );
    restore(&harness).await;
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    let delete = harness.ended(delete).await;
    assert_eq!(delete.status, ActionStatus::Succeeded, "{}", delete.status_reason);
    assert!(harness.provider.running().is_empty());
}

#[database_test]
async fn a_fence_that_no_database_drew_fails_its_action_and_concerns_no_other(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let forged = ProviderError::overtaken(Fence(1), Fence(i64::MAX - 1000));
    harness.provider.fail_next(Verb::Start, forged);
    let resize = harness.resized(&cluster, 2).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    assert!(resize.status_reason.contains("which this database cannot have issued"), "{resize:?}");
    assert_eq!(reported(&harness, cluster.id).await, 0);
    let (_, created) = harness.created(1).await;
    assert_eq!(created.status, ActionStatus::Succeeded, "{}", created.status_reason);
}

#[database_test(delegated::open)]
async fn objects_of_operators_are_written_again(harness: Harness) {
    let cluster = delegated::created(&harness, 1).await;
    let first = harness.submit(ActionKind::ClusterResize, &cluster, exactly(2)).await;
    assert_eq!(harness.ended(first).await.status, ActionStatus::Succeeded);
    restore(&harness).await;
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    let resize = harness.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Succeeded, "{}", resize.status_reason);
    assert_eq!(harness.operators.group(cluster.id).unwrap().desired, 3);
    assert_eq!(reported(&harness, cluster.id).await, 1);
    restore(&harness).await;
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
}

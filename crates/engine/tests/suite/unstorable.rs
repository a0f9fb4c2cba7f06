//! Results that a rule of the database refuses to store, and inputs that an edit has damaged.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_store::Dialect;
use muster_testkit::database_test;
use muster_testkit::fake::Verb;
use serde_json::json;

use crate::harness::{self, Harness};

/// Refuses the events that the last commit of every action records.
async fn refuse_last_events(harness: &Harness) {
    let sql = match harness.store().dialect() {
        Dialect::Sqlite => {
            "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.phase IN ('end', 'error') \
             BEGIN SELECT RAISE(ABORT, 'no such events'); END"
        }
        Dialect::Postgres => {
            "ALTER TABLE events ADD CONSTRAINT refuse CHECK (phase NOT IN ('end', 'error')) NOT VALID"
        }
    };
    harness.fresh.execute(sql).await;
}

async fn store_events_again(harness: &Harness) {
    let sql = match harness.store().dialect() {
        Dialect::Sqlite => "DROP TRIGGER refuse",
        Dialect::Postgres => "ALTER TABLE events DROP CONSTRAINT refuse",
    };
    harness.fresh.execute(sql).await;
}

#[database_test]
async fn an_action_whose_results_cannot_be_stored_ends_and_says_so(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    refuse_last_events(&harness).await;
    let resize = harness.resized(&cluster, 2).await;
    assert_eq!(resize.status, ActionStatus::Failed, "{}", resize.status_reason);
    assert!(resize.status_reason.starts_with("its results were not stored: "), "{}", resize.status_reason);
    let stored = harness.store().cluster(cluster.id).await.unwrap().unwrap();
    assert!(!stored.status.is_transitional(), "{}", stored.status);
    store_events_again(&harness).await;
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    let delete = harness.ended(delete).await;
    assert_eq!(delete.status, ActionStatus::Succeeded, "{}", delete.status_reason);
    assert!(harness.provider.running().is_empty());
}

#[database_test]
async fn a_cluster_with_an_action_that_cannot_be_read_can_be_deleted(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(2)).await;
    harness.provider.begun(Verb::Start, 2).await;
    let damaged = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(3)).await;
    let damage = format!("UPDATE actions SET principal = '{{no JSON' WHERE id = '{damaged}'");
    harness.fresh.execute(&damage).await;
    harness.provider.release();
    harness.ended(resize).await;
    let delete = harness.submit_or(ActionKind::ClusterDelete, &cluster, json!({}), OnConflict::Preempt).await;
    let delete = harness.ended(delete).await;
    assert_eq!(delete.status, ActionStatus::Succeeded, "{}", delete.status_reason);
    assert!(harness.provider.running().is_empty());
}

#[database_test]
async fn an_action_whose_inputs_were_damaged_fails_and_its_cluster_can_be_deleted(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(2)).await;
    let damaged = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(3)).await;
    harness.fresh.execute(&format!("UPDATE actions SET inputs = '{{no JSON' WHERE id = '{damaged}'")).await;
    harness.provider.release();
    harness.ended(resize).await;
    let damaged = harness.ended(damaged).await;
    assert_eq!(damaged.status, ActionStatus::Failed, "{}", damaged.status_reason);
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
}

//! The removal of history in small parts.

use muster_core::action::ActionStatus;
use muster_core::task::{TaskKind, TaskStatus};
use muster_store::commands::{Accept, Purge, TaskProgress};
use muster_store::reads::JobQuery;
use muster_testkit::database_test;
use serde_json::Value;

use crate::harness::{self, Harness, living};
use crate::jobs;

/// Stores an app that ended at 1.
fn ended_app(number: u128) -> String {
    format!(
        "INSERT INTO apps (id, instance, namespace, name, kind, uid, project, owner_scheme, owner_id, owner_name, \
         cluster_name, state, created_at, ended_at, marks_wanted, marks_written) \
         VALUES ('{number}', 'i', 'n', 'a{number}', 'JOB', '{number}', 'p', 's', 'o', 'o', 'c', 'ENDED', 1, 1, 0, 0)"
    )
}

/// Stores the id of a request that was made at 1.
fn old_request(number: u128) -> String {
    format!("INSERT INTO idempotency VALUES ('ada', '{number}', 'd', 'a', 1)")
}

#[database_test]
async fn a_purge_removes_no_more_rows_of_a_kind_than_its_limit(harness: Harness) {
    let store = &harness.store;
    let cluster = jobs::stored_cluster(store).await;
    let numbers = [2, 3, 4];
    for number in numbers {
        let job = jobs::job(number, &format!("j{number}"), cluster);
        jobs::insert(store, &job).await.unwrap();
        let waits = vec![job.task.id];
        let action = store.accept(Accept { waits, ..harness::creation(number) }).await.unwrap().action.id;
        let ended = format!(
            "UPDATE actions SET status = '{}', ended_at = 1 WHERE id = '{action}'",
            ActionStatus::Cancelled
        );
        for sql in [ended, ended_app(number), old_request(number)] {
            harness.execute(&sql).await;
        }
    }
    let engine = living(store, 9).await;
    let tasks = jobs::claimed(store, engine, TaskKind::Job).await;
    for task in &tasks {
        let end =
            TaskProgress::End { status: TaskStatus::Succeeded, reason: String::new(), outputs: Value::Null };
        jobs::record(store, task, end).await;
    }
    assert_eq!(tasks.len(), numbers.len());
    let before = harness::now(1_000_000);
    let purge = Purge { history_before: before, requests_before: before, limit: 1 };
    for left in [2, 1, 0] {
        let purged = store.purge(purge.clone()).await.unwrap();
        assert_eq!(purged.rows, 6, "an action and its wait, a task and its job, an app, a request");
        assert_eq!(store.jobs(&JobQuery::default()).await.unwrap().items.len(), left);
    }
    assert_eq!(store.purge(purge).await.unwrap().rows, 0);
}

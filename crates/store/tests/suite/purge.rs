//! The removal of history in small parts.

use muster_core::action::ActionStatus;
use muster_core::app::{App, AppKind, AppState};
use muster_core::ids::{AppId, InstanceId};
use muster_core::principal::Owner;
use muster_core::task::{TaskKind, TaskStatus};
use muster_store::commands::{Accept, Purge, RegisterApp, TaskProgress};
use muster_store::reads::JobQuery;
use muster_testkit::database_test;
use serde_json::Value;
use uuid::Uuid;

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

/// Stores an app that ended at 1, with a cluster that it uses.
async fn ended_user(harness: &Harness, number: u128, is_ephemeral: bool) -> AppId {
    let app = App {
        id: AppId::from_uuid(Uuid::from_u128(number)),
        instance: InstanceId::new("fake", "test"),
        namespace: "demo".to_owned(),
        name: format!("a{number}"),
        kind: AppKind::Job,
        uid: number.to_string(),
        project: "demo".to_owned(),
        owner: Owner::default(),
        process: None,
        lease_until: None,
        cluster_name: String::new(),
        cluster_id: None,
        state: AppState::Gone,
        created_at: harness::now(1),
        ended_at: Some(harness::now(1)),
    };
    let register = RegisterApp { app, lease: None, cluster: None };
    let app = harness.store.register_app(register).await.expect("the app is stored");
    assert_eq!((app.state, app.ended_at), (AppState::Gone, Some(harness::now(1))));
    let cluster = harness.create(number).await.cluster_id.expect("a cluster");
    let ephemeral = i64::from(is_ephemeral);
    harness
        .execute(&format!("INSERT INTO app_uses VALUES ('{}', '{cluster}', {ephemeral}, 1)", app.id))
        .await;
    if is_ephemeral {
        let mark = format!(r#"UPDATE clusters SET ephemeral = '{{"app": "a"}}' WHERE id = '{cluster}'"#);
        harness.execute(&mark).await;
    }
    app.id
}

#[database_test]
async fn an_app_that_is_gone_is_removed_with_its_uses_of_shared_clusters(harness: Harness) {
    let store = &harness.store;
    let of_shared = ended_user(&harness, 2, false).await;
    let of_ephemeral = ended_user(&harness, 3, true).await;
    let before = harness::now(1_000_000);
    let purge = Purge { history_before: before, requests_before: harness::now(0), limit: 10 };
    assert_eq!(store.purge(purge).await.unwrap().rows, 2, "an app and its use");
    assert_eq!(store.app(of_shared).await.unwrap(), None);
    assert!(store.app(of_ephemeral).await.unwrap().is_some(), "its own cluster still exists");
    assert_eq!(store.app_uses(&[of_shared, of_ephemeral]).await.unwrap().len(), 1);
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

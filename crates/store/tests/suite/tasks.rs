//! Tasks: claimed by one engine at a time, taken over from dead engines, and waited for by actions.

use muster_core::ids::{ImageTemplateId, InstanceId, TaskId};
use muster_core::image_template::{ImageSpec, ImageState, ImageTemplate};
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_core::time::TimeSpan;
use muster_store::commands::{
    ClaimTasks, DeleteImageTemplate, InsertImageTemplate, RecordTask, TaskProgress, TaskRecorded, TaskTicket,
};
use muster_store::{Dialect, Store};
use muster_testkit::database_test;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{self, Harness, claim, living};

fn instance() -> InstanceId {
    harness::cluster(1).instance
}

fn template(number: u128, name: &str) -> ImageTemplate {
    let (now, task) = (harness::now(1_000), TaskId::from_uuid(Uuid::from_u128(number)));
    ImageTemplate {
        id: ImageTemplateId::from_uuid(Uuid::from_u128(number + 100)),
        namespace: "n".to_owned(),
        name: name.to_owned(),
        project: "p".to_owned(),
        user: "ada".to_owned(),
        instance: instance(),
        spec: ImageSpec { pip_packages: vec!["six".to_owned()], ..ImageSpec::default() },
        image: format!("/images/{number}"),
        task: Task { inputs: json!({"a": 1}), ..Task::new(task, TaskKind::ImageBuild, instance(), "p", now) },
        created_at: now,
    }
}

async fn inserted(store: &Store, template: &ImageTemplate) -> bool {
    let command = InsertImageTemplate { template: template.clone(), events: Vec::new(), named: None };
    store.insert_image_template(command).await.expect("it is written")
}

async fn claimed(store: &Store, engine: muster_core::ids::EngineId) -> Vec<Task> {
    let command = ClaimTasks {
        engine,
        instances: vec![instance()],
        kinds: vec![TaskKind::ImageBuild],
        running: None,
        limit: 9,
        now: harness::now(2_000),
    };
    store.claim_tasks(command).await.expect("a claim")
}

fn record(task: &Task, progress: TaskProgress, log: &str) -> RecordTask {
    let ticket = TaskTicket { task: task.id, engine: task.owner.expect("an engine"), fence: task.fence };
    RecordTask { ticket, progress, log: log.to_owned(), events: Vec::new(), now: harness::now(3_000) }
}

fn ended(status: TaskStatus) -> TaskProgress {
    TaskProgress::End { status, reason: "so".to_owned(), outputs: json!({"digest": "d"}) }
}

#[database_test]
async fn a_task_is_one_engines_until_that_is_dead(harness: Harness) {
    let store = &harness.store;
    assert!(inserted(store, &template(1, "one")).await);
    assert!(!inserted(store, &template(2, "one")).await, "its name is taken");
    let first = living(store, 9).await;
    let [task] = &claimed(store, first).await[..] else { panic!("one task") };
    assert_eq!((task.status, task.tries, &task.inputs), (TaskStatus::Running, 1, &json!({"a": 1})));
    assert_eq!(claimed(store, first).await, []);
    let progress = record(task, TaskProgress::Running, "a line\n");
    assert_eq!(store.record_task(progress).await.unwrap(), TaskRecorded::Ours);

    let second = living(store, 10).await;
    if store.dialect() == Dialect::Postgres {
        // On SQLite the registration of an engine ends the lease of the previous one.
        assert_eq!(claimed(store, second).await, []);
        harness.execute(&format!("UPDATE engines SET lease_until = 0 WHERE id = '{first}'")).await;
    }
    let [taken] = &claimed(store, second).await[..] else { panic!("it is taken over") };
    assert!(taken.fence > task.fence);
    assert_eq!(taken.tries, 2);
    let late = record(task, ended(TaskStatus::Failed), "late\n");
    assert_eq!(store.record_task(late).await.unwrap(), TaskRecorded::Lost);
    let end = record(taken, ended(TaskStatus::Succeeded), "another\n");
    assert_eq!(store.record_task(end).await.unwrap(), TaskRecorded::Ours);
    assert_eq!(store.task_log(task.id).await.unwrap(), "a line\nanother\n");
    let stored = store.image_template("n", "one").await.unwrap().unwrap();
    assert_eq!((stored.state(), &stored.task.outputs), (ImageState::Ready, &json!({"digest": "d"})));
    assert_eq!(claimed(store, second).await, [], "it has ended");
}

#[database_test]
async fn an_engine_claims_a_task_again_that_it_owns_and_does_not_run(harness: Harness) {
    let store = &harness.store;
    for (number, name) in [(1, "one"), (2, "two")] {
        inserted(store, &template(number, name)).await;
    }
    let engine = living(store, 9).await;
    let [one, two] = &claimed(store, engine).await[..] else { panic!("two tasks") };
    let again = async |running: &[&Task]| {
        let command = ClaimTasks {
            engine,
            instances: vec![instance()],
            kinds: vec![TaskKind::ImageBuild],
            running: Some(running.iter().map(|task| task.id).collect()),
            limit: 9,
            now: harness::now(2_000),
        };
        store.claim_tasks(command).await.expect("a claim")
    };
    assert_eq!(again(&[one, two]).await, [], "it runs both");
    let [orphan] = &again(&[one]).await[..] else { panic!("one task") };
    assert_eq!(orphan.id, two.id);
    assert!(orphan.fence > two.fence);
    assert_eq!(again(&[]).await.len(), 2);
}

#[database_test]
async fn a_task_whose_template_is_deleted_is_cancelled(harness: Harness) {
    let store = &harness.store;
    let template = template(1, "one");
    inserted(store, &template).await;
    let engine = living(store, 9).await;
    let [task] = &claimed(store, engine).await[..] else { panic!("one task") };
    assert!(store.is_image_used(&template.image).await.unwrap());
    let delete = DeleteImageTemplate { template: template.clone(), events: Vec::new(), named: None };
    assert!(store.delete_image_template(delete.clone()).await.unwrap());
    assert!(!store.delete_image_template(delete).await.unwrap());
    assert!(!store.is_image_used(&template.image).await.unwrap());
    let progress = record(task, TaskProgress::Running, "");
    assert_eq!(store.record_task(progress).await.unwrap(), TaskRecorded::Cancelled);
    let end = record(task, ended(TaskStatus::Cancelled), "");
    assert_eq!(store.record_task(end).await.unwrap(), TaskRecorded::Cancelled);
    assert_eq!(claimed(store, engine).await, []);
}

#[database_test]
async fn a_task_that_is_tried_again_waits_for_its_time(harness: Harness) {
    let store = &harness.store;
    inserted(store, &template(1, "one")).await;
    let engine = living(store, 9).await;
    let [task] = &claimed(store, engine).await[..] else { panic!("one task") };
    let later = TaskProgress::Requeue { not_before: Some(harness::now(2_001)), reason: "soon".to_owned() };
    store.record_task(record(task, later, "")).await.unwrap();
    assert_eq!(claimed(store, engine).await, []);
    let command = ClaimTasks {
        engine,
        instances: vec![instance()],
        kinds: vec![TaskKind::ImageBuild],
        running: None,
        limit: 9,
        now: harness::now(2_001),
    };
    assert_eq!(store.claim_tasks(command).await.unwrap().len(), 1);
}

#[database_test]
async fn an_unreadable_task_is_deferred_and_does_not_block_the_others(harness: Harness) {
    let store = &harness.store;
    let templates = [template(1, "one"), template(2, "two")];
    for template in &templates {
        inserted(store, template).await;
    }
    let [unreadable, readable] = templates.map(|template| template.task.id);
    harness.execute(&format!("UPDATE tasks SET inputs = '{{' WHERE id = '{unreadable}'")).await;
    let engine = living(store, 9).await;
    let [task] = &claimed(store, engine).await[..] else { panic!("one task") };
    assert_eq!(task.id, readable);
    harness.execute(&format!("UPDATE tasks SET inputs = '{{}}' WHERE id = '{unreadable}'")).await;
    assert_eq!(claimed(store, engine).await, [], "it is deferred");
    let stored = store.image_template("n", "one").await.unwrap().unwrap();
    assert!(stored.task.status_reason.contains("cannot be read"), "{}", stored.task.status_reason);
    let later = harness::now(2_000).after(TimeSpan::from_secs(60));
    let command = ClaimTasks {
        engine,
        instances: vec![instance()],
        kinds: vec![TaskKind::ImageBuild],
        running: None,
        limit: 9,
        now: later,
    };
    let [task] = &store.claim_tasks(command).await.unwrap()[..] else { panic!("one task") };
    assert_eq!(task.id, unreadable);
}

#[database_test]
async fn an_action_is_claimed_when_the_tasks_that_it_waits_for_have_ended(harness: Harness) {
    let store = &harness.store;
    let task = template(1, "one");
    inserted(store, &task).await;
    let mut accept = harness::creation(1);
    accept.waits = vec![task.task.id];
    store.accept(accept).await.unwrap();
    let engine = living(store, 9).await;
    assert!(store.claim(claim(engine)).await.unwrap().is_empty(), "it waits");
    let [running] = &claimed(store, engine).await[..] else { panic!("one task") };
    let end =
        TaskProgress::End { status: TaskStatus::Failed, reason: "no disk".to_owned(), outputs: Value::Null };
    store.record_task(record(running, end, "")).await.unwrap();
    let [action] = &store.claim(claim(engine)).await.unwrap()[..] else { panic!("one action") };
    assert_eq!(action.failed_task.as_deref(), Some("no disk"));
}

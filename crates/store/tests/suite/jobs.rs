//! Jobs: stored with their tasks, found by name or id, stopped, and removed with their history.

use muster_core::action::{ActionKind, OnConflict};
use muster_core::ids::{ClusterId, EngineId, JobId, TaskId};
use muster_core::job::{Job, JobSpec, JobState};
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_store::commands::{
    ClaimTasks, InsertJob, NewCluster, Purge, RecordTask, StopJob, TaskProgress, TaskRecorded, TaskTicket,
};
use muster_store::reads::{JobQuery, JobUse, OpenJob};
use muster_store::{Store, StoreError};
use muster_testkit::database_test;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{self, Harness, living};

pub(crate) fn job(number: u128, name: &str, cluster: ClusterId) -> Job {
    let (now, id) = (harness::now(1_000), Uuid::from_u128(number));
    let instance = harness::cluster(1).instance;
    Job {
        id: JobId::from_uuid(id),
        namespace: "n".to_owned(),
        name: name.to_owned(),
        project: "p".to_owned(),
        owner: muster_core::sample::principal().as_owner(),
        instance: instance.clone(),
        cluster_id: cluster,
        cluster_name: "fred".to_owned(),
        owns_cluster: false,
        spec: JobSpec { command: vec!["true".to_owned()], ..JobSpec::default() },
        stopped_by: None,
        task: Task::new(TaskId::from_uuid(Uuid::from_u128(number + 100)), TaskKind::Job, instance, "p", now),
        created_at: now,
    }
}

pub(crate) async fn insert(store: &Store, job: &Job) -> Result<(), StoreError> {
    store.insert_job(InsertJob { job: job.clone(), events: Vec::new() }).await
}

pub(crate) async fn claimed(store: &Store, engine: EngineId, kind: TaskKind) -> Vec<Task> {
    let instances = vec![harness::cluster(1).instance];
    let (kinds, now) = (vec![kind], harness::now(2_000));
    let command = ClaimTasks { engine, instances, kinds, running: None, limit: 9, now };
    store.claim_tasks(command).await.expect("a claim")
}

pub(crate) async fn record(store: &Store, task: &Task, progress: TaskProgress) -> TaskRecorded {
    let ticket = TaskTicket { task: task.id, engine: task.owner.expect("an engine"), fence: task.fence };
    let (log, events, now) = (String::new(), Vec::new(), harness::now(3_000));
    store.record_task(RecordTask { ticket, progress, log, events, now }).await.expect("it is written")
}

/// The cluster that jobs are on.
pub(crate) async fn stored_cluster(store: &Store) -> ClusterId {
    store.accept(harness::creation(1)).await.expect("a cluster");
    harness::cluster(1).id
}

#[database_test]
async fn a_job_is_claimed_as_what_it_is_and_runs_until_its_end_is_recorded(harness: Harness) {
    let store = &harness.store;
    let cluster = stored_cluster(store).await;
    let first = job(1, "one", cluster);
    insert(store, &first).await.unwrap();
    let taken = insert(store, &job(2, "one", cluster)).await;
    assert!(matches!(taken, Err(StoreError::JobNameTaken { .. })), "{taken:?}");
    let lost = insert(store, &job(3, "three", ClusterId::from_uuid(Uuid::from_u128(99)))).await;
    assert!(matches!(lost, Err(StoreError::NotFound { .. })), "{lost:?}");

    let engine = living(store, 9).await;
    assert_eq!(claimed(store, engine, TaskKind::ImageBuild).await, []);
    let [task] = &claimed(store, engine, TaskKind::Job).await[..] else { panic!("one task") };
    assert_eq!(task.status_reason, "An engine has claimed it.");
    let found = store.job_of_task(task.id).await.unwrap().unwrap();
    assert_eq!((found.state(), &found.spec), (JobState::Pending, &first.spec));
    let started = TaskProgress::Reached { reason: "so".to_owned(), outputs: json!({"started_at": 5}) };
    assert_eq!(record(store, task, started).await, TaskRecorded::Ours);
    let running = store.job(first.id).await.unwrap().unwrap();
    assert_eq!((running.state(), running.task.status_reason.as_str()), (JobState::Running, "so"));
    assert_eq!(store.job_use(&[cluster]).await.unwrap().get(&cluster), Some(&JobUse::Open));
    let open = vec![OpenJob { name: "one".to_owned(), owns_cluster: false }];
    assert_eq!(store.open_jobs(&[cluster]).await.unwrap(), [(cluster, open)].into());
    assert_eq!(store.open_jobs(&[]).await.unwrap(), [].into());

    let (status, reason) = (TaskStatus::Failed, "it broke".to_owned());
    let outputs = json!({"started_at": 5, "exit_code": 7});
    assert_eq!(record(store, task, TaskProgress::End { status, reason, outputs }).await, TaskRecorded::Ours);
    let ended = store.job(first.id).await.unwrap().unwrap();
    assert_eq!((ended.state(), ended.outputs().exit_code), (JobState::Failed, Some(7)));
    let until = Some(JobUse::Until(harness::now(3_000)));
    assert_eq!(store.job_use(&[cluster]).await.unwrap().get(&cluster).copied(), until);
    assert_eq!(store.open_jobs(&[cluster]).await.unwrap(), [].into());
    assert!(!store.stop_job(StopJob { job: first.id, by: "ann".to_owned() }).await.unwrap(), "it has ended");

    let (history_before, requests_before) = (harness::now(4_000), harness::now(0));
    store.purge(Purge { history_before, requests_before, limit: 10 }).await.unwrap();
    assert_eq!(store.job(first.id).await.unwrap(), None);
}

#[database_test]
async fn a_job_is_found_by_its_name_its_id_or_the_beginning_of_its_id(harness: Harness) {
    let store = &harness.store;
    let cluster = stored_cluster(store).await;
    let id = |text: &str| Uuid::parse_str(text).unwrap().as_u128();
    let (one, two) = (id("0190f3a2-7b1c-7d4e-8f00-000000000001"), id("0190f3a2-7b1c-7d4e-9f00-000000000002"));
    for (number, name) in [(one, "one"), (two, "two")] {
        insert(store, &job(number, name, cluster)).await.unwrap();
    }
    let names = async |given: &str| {
        let found = store.find_jobs("n", given).await.unwrap();
        found.into_iter().map(|job| job.name).collect::<Vec<_>>()
    };
    assert_eq!(names("one").await, ["one"]);
    assert_eq!(names("0190f3a2-7b1c-7d4e-9f00-000000000002").await, ["two"]);
    assert_eq!(names("0190f3a2-7b1c-7d4e-8").await, ["one"]);
    assert_eq!(names("0190f3a2").await.len(), 2, "which is meant is not known");
    assert!(names("nothing").await.is_empty() && names("").await.is_empty());
    assert!(store.find_jobs("other", "one").await.unwrap().is_empty());

    assert!(
        store
            .stop_job(StopJob { job: JobId::from_uuid(Uuid::from_u128(one)), by: "ann".to_owned() })
            .await
            .unwrap()
    );
    let stopped = store.find_jobs("n", "one").await.unwrap();
    assert_eq!(stopped[0].stopped_by.as_deref(), Some("ann"));
    let query = JobQuery { cluster: Some("fred".to_owned()), open: true, ..JobQuery::default() };
    assert_eq!(store.jobs(&query).await.unwrap().items.len(), 2);
    let query = JobQuery { cluster: Some("other".to_owned()), ..JobQuery::default() };
    assert!(store.jobs(&query).await.unwrap().items.is_empty());
}

#[database_test]
async fn a_job_and_its_own_cluster_are_stored_together_or_not_at_all(harness: Harness) {
    let store = &harness.store;
    let create = |number: u128, name: &str| {
        let mut accept = harness::creation(number);
        let new = accept.cluster.take().expect("a cluster");
        let own = Job { owns_cluster: true, ..job(number, name, new.cluster.id) };
        let cluster = Some(NewCluster { job: Some(Box::new(own)), ..new });
        muster_store::commands::Accept { cluster, ..accept }
    };
    store.accept(create(1, "one")).await.unwrap();
    assert_eq!(store.find_jobs("n", "one").await.unwrap().len(), 1);
    let taken = store.accept(create(2, "one")).await;
    assert!(matches!(taken, Err(StoreError::JobNameTaken { .. })), "{taken:?}");
    assert!(store.cluster(harness::cluster(2).id).await.unwrap().is_none(), "a cluster without its job");
    let deletion =
        harness::request(5, ActionKind::ClusterDelete, harness::cluster(1).id, OnConflict::Preempt);
    store.accept(deletion).await.unwrap();
}

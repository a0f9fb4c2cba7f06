//! Builds of images and jobs: tasks that an engine runs beside actions.

use muster_core::backoff::Backoff;
use muster_core::cluster::Cluster;
use muster_core::ids::{ImageTemplateId, JobId, TaskId};
use muster_core::image_template::{ImageSpec, ImageTemplate};
use muster_core::job::{Job, JobSpec, JobState};
use muster_core::sample;
use muster_core::shape::Shape;
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_engine::ports::images::ImageBuild;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::{InsertImageTemplate, InsertJob, StopJob};
use muster_store::reads::EventQuery;
use muster_testkit::fake::{FAKE_NODE, Fake, MISSING_COMMAND, Verb};
use muster_testkit::{database_test, eventually};
use prometheus_client::registry::Registry;
use uuid::Uuid;

use crate::harness::{self, Harness, Kind, PATIENCE, setup};

/// A world whose engine polls for work often, and soon retries what failed.
async fn polling_often(kind: Kind) -> Option<Harness> {
    let backoff = Backoff { first: TimeSpan::from_millis(20), longest: TimeSpan::from_millis(100) };
    let config = Config { safety_period: TimeSpan::from_millis(50), backoff, ..Config::default() };
    setup().config(config).open(kind).await
}

/// A world whose engine works on notifications only.
async fn notified_only(kind: Kind) -> Option<Harness> {
    let config = Config { safety_period: TimeSpan::from_secs(3_600), ..Config::default() };
    setup().config(config).open(kind).await
}

/// Stores a template, and with it the build of its image.
async fn template(harness: &Harness) -> ImageTemplate {
    let (now, id) = (harness::now(), Uuid::now_v7());
    let (namespace, name) = ("demo".to_owned(), "image".to_owned());
    let (image, spec) = ("demo/image".to_owned(), ImageSpec::default());
    let build = ImageBuild {
        namespace: namespace.clone(),
        name: name.clone(),
        image: image.clone(),
        spec: spec.clone(),
        shape: Shape::default(),
    };
    let task = Task::new(TaskId::from_uuid(id), TaskKind::ImageBuild, Fake::instance_id(), "demo", now);
    let template = ImageTemplate {
        id: ImageTemplateId::from_uuid(id),
        namespace,
        name,
        project: "demo".to_owned(),
        user: "ann".to_owned(),
        instance: Fake::instance_id(),
        spec,
        image,
        task: Task { inputs: serde_json::to_value(build).expect("JSON"), ..task },
        created_at: now,
    };
    let command = InsertImageTemplate { template: template.clone(), events: Vec::new(), named: None };
    assert!(harness.store().insert_image_template(command).await.expect("the store answers"));
    template
}

/// Waits until the build of a template is in a state, and returns its task.
async fn until_built(harness: &Harness, template: &ImageTemplate, status: TaskStatus) -> Task {
    eventually(&format!("a build that is {status}"), PATIENCE, async || {
        let stored = harness.store().image_template(&template.namespace, &template.name).await;
        let task = stored.expect("the store answers").expect("the template is there").task;
        if task.status == status { Ok(task) } else { Err(format!("{task:?}")) }
    })
    .await
}

/// Stores a job on a cluster.
async fn job(harness: &Harness, cluster: &Cluster) -> Job {
    job_of(harness, cluster, "true").await
}

async fn job_of(harness: &Harness, cluster: &Cluster, command: &str) -> Job {
    let id = Uuid::now_v7();
    let now = harness::now();
    let job = Job {
        id: JobId::from_uuid(id),
        name: format!("job-{}", id.simple()),
        instance: cluster.instance.clone(),
        cluster_id: cluster.id,
        cluster_name: cluster.name.clone(),
        spec: JobSpec { command: vec![command.to_owned()], ..JobSpec::default() },
        task: Task::new(TaskId::from_uuid(id), TaskKind::Job, cluster.instance.clone(), "demo", now),
        created_at: now,
        ..sample::job()
    };
    let command = InsertJob { job: job.clone(), events: Vec::new() };
    harness.store().insert_job(command).await.expect("the store answers");
    job
}

/// Stops a job, and returns its state once it has ended.
async fn stopped(harness: &Harness, job: &Job) -> JobState {
    let stop = StopJob { job: job.id, by: "ann".to_owned() };
    harness.store().stop_job(stop).await.expect("the store answers");
    harness.engine.wait_for_job(job, |_| false, PATIENCE).await.expect("the store answers").state()
}

/// The number of times that the database did not execute a command.
fn failures(harness: &Harness, command: &str) -> u32 {
    let (mut registry, mut text) = (Registry::default(), String::new());
    harness.store().metrics().register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    let name = format!("muster_database_errors_total{{command=\"{command}\"");
    let failed = text.lines().find(|line| line.starts_with(&name));
    failed.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Waits until the database has not executed a command so many times.
async fn until_failed(harness: &Harness, command: &str, times: u32) {
    eventually(&format!("{times} failures of {command}"), PATIENCE, async || {
        let failed = failures(harness, command);
        if failed >= times { Ok(()) } else { Err(failed) }
    })
    .await;
}

#[database_test(polling_often)]
async fn a_build_that_crashes_is_run_again_by_the_same_engine(harness: Harness) {
    harness.provider.panic_next(Verb::Build, 1);
    let template = template(&harness).await;
    let task = until_built(&harness, &template, TaskStatus::Succeeded).await;
    assert_eq!((task.tries, harness.provider.count(Verb::Build)), (2, 2));
}

#[database_test(polling_often)]
async fn a_build_that_crashes_at_every_try_fails_and_says_so(harness: Harness) {
    harness.provider.panic_next(Verb::Build, usize::MAX);
    let template = template(&harness).await;
    let failed = until_built(&harness, &template, TaskStatus::Failed).await;
    let reason = failed.status_reason;
    assert!(reason.contains("it crashed: an injected panic at Build"), "{reason}");
    assert_eq!(failed.tries, 5);
}

#[database_test(polling_often)]
async fn a_build_whose_end_cannot_be_stored_is_run_again_by_the_same_engine(harness: Harness) {
    harness.provider.hold(Verb::Build);
    let template = template(&harness).await;
    harness.provider.begun(Verb::Build, 1).await;
    harness.fresh.execute("ALTER TABLE tasks RENAME COLUMN log TO hidden").await;
    harness.provider.release();
    // The first may be for lines of the log, the next is for the end.
    until_failed(&harness, "record_task", 3).await;
    harness.fresh.execute("ALTER TABLE tasks RENAME COLUMN hidden TO log").await;
    until_built(&harness, &template, TaskStatus::Succeeded).await;
    assert_eq!(harness.provider.count(Verb::Build), 2);
}

#[database_test(polling_often)]
async fn a_build_continues_while_its_log_cannot_be_stored(harness: Harness) {
    harness.provider.hold(Verb::Build);
    let template = template(&harness).await;
    harness.provider.begun(Verb::Build, 1).await;
    harness.fresh.execute("ALTER TABLE tasks RENAME COLUMN log TO hidden").await;
    until_failed(&harness, "record_task", 1).await;
    harness.fresh.execute("ALTER TABLE tasks RENAME COLUMN hidden TO log").await;
    harness.provider.release();
    until_built(&harness, &template, TaskStatus::Succeeded).await;
    assert_eq!(harness.provider.count(Verb::Build), 1);
}

#[database_test(polling_often)]
async fn a_task_of_a_claim_whose_answer_was_lost_is_claimed_again(harness: Harness) {
    harness.fresh.execute("ALTER TABLE tasks RENAME COLUMN not_before TO hidden").await;
    // The loop that claims jobs fails too.
    until_failed(&harness, "claim_tasks", 4).await;
    let template = template(&harness).await;
    let engine = harness.engine.id();
    harness.fresh.execute(&format!("UPDATE tasks SET status = 'RUNNING', owner = '{engine}'")).await;
    harness.fresh.execute("ALTER TABLE tasks RENAME COLUMN hidden TO not_before").await;
    until_built(&harness, &template, TaskStatus::Succeeded).await;
}

#[database_test(polling_often)]
async fn a_job_is_followed_again_after_its_follower_crashed(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.panic_next(Verb::Follow, 1);
    let job = job(&harness, &cluster).await;
    harness.provider.begun(Verb::Follow, 2).await;
    assert_eq!(stopped(&harness, &job).await, JobState::Stopped);
}

#[database_test(notified_only)]
async fn progress_of_a_job_does_not_wake_the_followers_of_others(harness: Harness) {
    let mut jobs = Vec::new();
    for number in 1..=3 {
        let cluster = harness::cluster(FAKE_NODE, 1);
        let created = harness.create(&cluster).await;
        harness.ended(created).await;
        jobs.push(job(&harness, &cluster).await);
        harness.provider.begun(Verb::Follow, number).await;
    }
    for job in &jobs {
        assert_eq!(stopped(&harness, job).await, JobState::Stopped);
    }
    assert_eq!(harness.provider.count(Verb::Follow), 3, "each is followed without an interruption");
}

#[database_test(polling_often)]
async fn a_job_waits_while_its_provider_is_unavailable(harness: Harness) {
    const OUTAGE: usize = 12;
    for _ in 0..OUTAGE {
        let unavailable = ProviderError::transient("Unreachable", "nothing answers");
        harness.provider.fail_next(Verb::Launch, unavailable);
    }
    let (cluster, _) = harness.created(1).await;
    let job = job(&harness, &cluster).await;
    let waits = |job: &Job| job.task.status_reason == "Waiting: nothing answers.";
    let waiting = harness.engine.wait_for_job(&job, waits, PATIENCE).await.expect("the store answers");
    assert!(waits(&waiting), "{waiting:?}");
    harness.provider.begun(Verb::Launch, OUTAGE + 1).await;
    let runs = |job: &Job| job.outputs().started_at.is_some();
    let running = harness.engine.wait_for_job(&job, runs, PATIENCE).await.expect("the store answers");
    assert_eq!(running.state(), JobState::Running, "{running:?}");
    assert_eq!(stopped(&harness, &job).await, JobState::Stopped);
}

#[database_test(polling_often)]
async fn a_command_that_does_not_exist_fails_its_job_without_having_started(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let job = job_of(&harness, &cluster, MISSING_COMMAND).await;
    let ended = harness.engine.wait_for_job(&job, |_| false, PATIENCE).await.expect("the store answers");
    let why = "Its command could not be started: there is no command 'missing'.";
    assert_eq!((ended.state(), ended.task.status_reason.as_str()), (JobState::Failed, why));
    assert_eq!((ended.outputs().exit_code, ended.outputs().started_at), (Some(127), None));
    let query = EventQuery { cluster: Some(cluster.id), ..EventQuery::default() };
    let events = harness.store().events(&query).await.expect("the store answers").items;
    let of_jobs: Vec<_> =
        events.iter().map(|event| event.reason.as_str()).filter(|reason| reason.starts_with("Job")).collect();
    assert_eq!(of_jobs, ["JobFailed"]);
}

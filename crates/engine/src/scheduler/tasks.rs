//! Runs the builds of images: each in one engine at a time, and another takes over if that engine dies.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use muster_core::event::{Event, Level};
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_store::StoreError;
use muster_store::commands::{RecordTask, TaskProgress, TaskRecorded, TaskTicket};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::admission::images;
use crate::context::Context;
use crate::events::{self, reason};
use crate::lease::Lease;
use crate::ports::images::{BUILD_LIMIT, BuildProgress, ImageBuild, ImageBuilder};
use crate::ports::provider::ProviderError;
use crate::scheduler::task_queue;
use crate::supervise::panic_message;

/// The maximum of concurrent tasks of an engine: a build uses a whole processor.
const PARALLEL_TASKS: usize = 2;

/// The interval at which the log of a running task is stored.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// The most characters of a reason; the log has all of it.
const LONGEST_REASON: usize = 1000;

/// The number of attempts of a task whose failures are transient.
const MOST_TRIES: u32 = 5;

/// Claims image builds for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>) {
    task_queue::run(context, TaskKind::ImageBuild, PARALLEL_TASKS, build).await;
}

/// Runs a build. One that crashes counts as a failed attempt, so that clusters do not wait for it forever.
async fn build(context: Arc<Context>, lease: Arc<Lease>, task: Task) -> Result<(), StoreError> {
    let ticket = TaskTicket { task: task.id, engine: lease.id, fence: task.fence };
    let mut running = RunningTask { context: &context, ticket, log: String::new() };
    let performing = Box::pin(perform(&mut running, &lease, &task));
    let error = match AssertUnwindSafe(performing).catch_unwind().await {
        Ok(Err(error)) if !error.is_transient() => {
            running.log.clear();
            ProviderError::permanent("Unstorable", error.to_string())
        }
        Ok(performed) => return performed,
        Err(panic) => {
            let message = panic_message(panic.as_ref());
            let message =
                format!("it crashed: {message}; this is a defect of Muster: report it with the server's log");
            ProviderError::transient("Crashed", message)
        }
    };
    fail(&mut running, &task, error).await
}

/// A task that this engine runs.
struct RunningTask<'c> {
    context: &'c Context,
    ticket: TaskTicket,
    /// The part of the log that is not stored yet.
    log: String,
}

impl RunningTask<'_> {
    async fn record(
        &mut self,
        progress: TaskProgress,
        events: Vec<Event>,
    ) -> Result<TaskRecorded, StoreError> {
        let (ticket, log, now) = (self.ticket, self.log.clone(), self.context.clock.now());
        let recorded =
            self.context.store.record_task(RecordTask { ticket, progress, log, events, now }).await?;
        self.log.clear();
        Ok(recorded)
    }

    fn add_line(&mut self, line: &str) {
        // PostgreSQL stores no NUL character in a text.
        self.log.extend(line.chars().filter(|character| *character != '\0'));
        self.log.push('\n');
    }
}

/// Runs a task to its end, or until another engine owns it.
async fn perform(running: &mut RunningTask<'_>, lease: &Lease, task: &Task) -> Result<(), StoreError> {
    let context = running.context;
    let builder =
        context.providers.get(&task.instance).and_then(|provider| Arc::clone(provider).image_builder());
    let (build, builder) = match (ImageBuild::deserialize(&task.inputs), builder) {
        (Ok(build), Some(builder)) => (build, builder),
        (Err(error), _) => {
            let reason = format!("its inputs cannot be read: {error}");
            return end(running, task, None, TaskStatus::Failed, reason, Value::Null).await;
        }
        (Ok(build), None) => {
            let reason = format!("'{}' does not build images", task.instance);
            return end(running, task, Some(&build), TaskStatus::Failed, reason, Value::Null).await;
        }
    };
    match running.record(TaskProgress::Running, Vec::new()).await? {
        TaskRecorded::Ours => {}
        TaskRecorded::Lost => return Ok(()),
        TaskRecorded::Cancelled => return cancelled(running, task, &build, builder.as_ref()).await,
    }
    let mut progress = builder.build(task.id, build.clone());
    let mut store_log_at = Instant::now() + LOG_PERIOD;
    let begun = task.started_at.unwrap_or_else(|| context.clock.now());
    let left = begun.after(BUILD_LIMIT).since(context.clock.now());
    let give_up_at = Instant::now() + Duration::from(left);
    let outcome = loop {
        tokio::select! {
            next = progress.next() => match next {
                Some(BuildProgress::Line(line)) => running.add_line(&line),
                Some(BuildProgress::Done { digest }) => break Ok(digest),
                Some(BuildProgress::Failed(error)) => break Err(error),
                None => break Err(ProviderError::transient("NoEnd", "the build ended without a result")),
            },
            () = tokio::time::sleep_until(store_log_at) => {
                store_log_at = Instant::now() + LOG_PERIOD;
                match running.record(TaskProgress::Running, Vec::new()).await {
                    Ok(TaskRecorded::Ours) => {}
                    Ok(TaskRecorded::Lost) => return Ok(()),
                    Ok(TaskRecorded::Cancelled) => {
                        drop(progress);
                        return cancelled(running, task, &build, builder.as_ref()).await;
                    }
                    // The lines are stored with the next ones. If the store stays unreachable, the lease is lost.
                    Err(error) if error.is_transient() => {
                        tracing::warn!(%error, task = %task.id, "cannot store the log of a build");
                    }
                    Err(error) => return Err(error),
                }
            }
            () = tokio::time::sleep_until(give_up_at) => {
                let message = format!("it did not end within {} seconds", BUILD_LIMIT.secs());
                break Err(ProviderError::permanent("TimedOut", message));
            }
            () = lease.lost.cancelled() => return Ok(()),
            () = context.stopping.cancelled() => {
                drop(progress);
                let reason = "Requeued: its engine stopped.".to_owned();
                running.record(TaskProgress::Requeue { not_before: None, reason }, Vec::new()).await?;
                return Ok(());
            }
        }
    };
    drop(progress);
    match outcome {
        Ok(digest) => {
            let (reason, outputs) = ("The image was built.".to_owned(), json!({"digest": digest}));
            end(running, task, Some(&build), TaskStatus::Succeeded, reason, outputs).await
        }
        Err(error) => fail(running, task, error).await,
    }
}

/// Requeues a task after a transient failure. Ends it after a permanent one, and after too many attempts.
async fn fail(running: &mut RunningTask<'_>, task: &Task, error: ProviderError) -> Result<(), StoreError> {
    if !error.transient || task.tries >= MOST_TRIES {
        let build = ImageBuild::deserialize(&task.inputs).ok();
        return end(running, task, build.as_ref(), TaskStatus::Failed, error.message, Value::Null).await;
    }
    let context = running.context;
    let not_before = Some(context.clock.now().after(context.config.retry_delay(task.tries)));
    let reason = format!("Retrying: {}", error.message);
    running.add_line(&reason);
    running.record(TaskProgress::Requeue { not_before, reason }, Vec::new()).await.map(drop)
}

async fn end(
    running: &mut RunningTask<'_>,
    task: &Task,
    build: Option<&ImageBuild>,
    status: TaskStatus,
    why: String,
    outputs: Value,
) -> Result<(), StoreError> {
    let (level, word) = if status == TaskStatus::Succeeded {
        (Level::Info, reason::IMAGE_BUILT)
    } else {
        (Level::Warn, reason::IMAGE_BUILD_FAILED)
    };
    let why: String = why.chars().take(LONGEST_REASON).collect();
    tracing::info!(task = %task.id, %status, reason = why, "ended");
    let now = running.context.clock.now();
    let event = build.map(|build| {
        events::of_image((&build.namespace, &build.name), &task.project, level, word, &why, now)
    });
    let progress = TaskProgress::End { status, reason: why, outputs };
    running.record(progress, event.into_iter().collect()).await.map(drop)
}

/// Ends a task whose template was deleted.
async fn cancelled(
    running: &mut RunningTask<'_>,
    task: &Task,
    build: &ImageBuild,
    builder: &dyn ImageBuilder,
) -> Result<(), StoreError> {
    images::remove(running.context, builder, task.id, build).await;
    let reason = "Its template was deleted.".to_owned();
    let progress = TaskProgress::End { status: TaskStatus::Cancelled, reason, outputs: Value::Null };
    running.record(progress, Vec::new()).await.map(drop)
}

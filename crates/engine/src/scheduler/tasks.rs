//! Runs the builds of images: each by one engine at a time, and taken over when that dies.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::event::{Event, Level};
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_store::StoreError;
use muster_store::commands::{ClaimTasks, RecordTask, TaskProgress, TaskRecorded, TaskTicket};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::admission::images;
use crate::context::Context;
use crate::events::{self, reason};
use crate::lease::Lease;
use crate::ports::images::{BUILD_LIMIT, BuildProgress, ImageBuild, ImageBuilder};
use crate::ports::provider::ProviderError;

/// How many tasks an engine runs at the same time: a build uses a whole processor.
const PARALLEL_TASKS: usize = 2;

/// How often the log of a running task is stored.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// The most characters of a reason; the log has all of it.
const LONGEST_REASON: usize = 1000;

/// How often a task is tried whose failures are transient.
const MOST_TRIES: u32 = 5;

/// Claims tasks for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>) {
    let slots = Arc::new(Semaphore::new(PARALLEL_TASKS));
    let period: Duration = context.config.safety_period.into();
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = context.stopping.cancelled() => return,
        };
        let Ok(slot) = slot else { return };
        match claim(&context).await {
            Ok(Some((task, lease))) => {
                start(&context, lease, task, slot);
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot claim tasks"),
        }
        drop(slot);
        tokio::select! {
            () = context.notifier.tasks.notified() => {}
            () = tokio::time::sleep(period) => {}
            () = context.stopping.cancelled() => return,
        }
    }
}

async fn claim(context: &Context) -> Result<Option<(Task, Arc<Lease>)>, StoreError> {
    let (lease, now) = (context.lease(), context.clock.now());
    if lease.has_expired(now) {
        return Ok(None);
    }
    let (instances, kinds) = (context.instances(), vec![TaskKind::ImageBuild]);
    let command = ClaimTasks { engine: lease.id, instances, kinds, limit: 1, now };
    Ok(context.store.claim_tasks(command).await?.pop().map(|task| (task, lease)))
}

fn start(context: &Arc<Context>, lease: Arc<Lease>, task: Task, slot: OwnedSemaphorePermit) {
    let context = Arc::clone(context);
    context.tasks.clone().spawn(async move {
        let id = task.id;
        if let Err(error) = Box::pin(perform(&context, &lease, task)).await {
            // It stays this engine's until its lease ends; another one takes it over then.
            tracing::warn!(%error, task = %id, "cannot record a task");
        }
        drop(slot);
        context.notifier.tasks.notify_one();
    });
}

/// A task that this engine runs.
struct RunningTask<'c> {
    context: &'c Context,
    ticket: TaskTicket,
    /// What was logged and is not stored yet.
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
        self.log.push_str(line);
        self.log.push('\n');
    }
}

/// Runs a task to its end, or until another engine has it.
async fn perform(context: &Context, lease: &Lease, task: Task) -> Result<(), StoreError> {
    let ticket = TaskTicket { task: task.id, engine: lease.id, fence: task.fence };
    let mut running = RunningTask { context, ticket, log: String::new() };
    let builder =
        context.providers.get(&task.instance).and_then(|provider| Arc::clone(provider).image_builder());
    let (build, builder) = match (ImageBuild::deserialize(&task.inputs), builder) {
        (Ok(build), Some(builder)) => (build, builder),
        (Err(error), _) => {
            let reason = format!("its inputs cannot be read: {error}");
            return end(&mut running, &task, None, TaskStatus::Failed, reason, Value::Null).await;
        }
        (Ok(build), None) => {
            let reason = format!("no images are built at '{}'", task.instance);
            return end(&mut running, &task, Some(&build), TaskStatus::Failed, reason, Value::Null).await;
        }
    };
    if running.record(TaskProgress::Running, Vec::new()).await? == TaskRecorded::Cancelled {
        return cancelled(&mut running, &task, &build, builder.as_ref()).await;
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
                match running.record(TaskProgress::Running, Vec::new()).await? {
                    TaskRecorded::Ours => {}
                    TaskRecorded::Lost => return Ok(()),
                    TaskRecorded::Cancelled => {
                        drop(progress);
                        return cancelled(&mut running, &task, &build, builder.as_ref()).await;
                    }
                }
            }
            () = tokio::time::sleep_until(give_up_at) => {
                let message = format!("it did not end within {} seconds", BUILD_LIMIT.secs());
                break Err(ProviderError::permanent("TimedOut", message));
            }
            () = lease.lost.cancelled() => return Ok(()),
            () = context.stopping.cancelled() => {
                drop(progress);
                let reason = "Its engine stopped.".to_owned();
                running.record(TaskProgress::Requeue { not_before: None, reason }, Vec::new()).await?;
                return Ok(());
            }
        }
    };
    drop(progress);
    match outcome {
        Ok(digest) => {
            let (reason, outputs) = ("The image was built.".to_owned(), json!({"digest": digest}));
            end(&mut running, &task, Some(&build), TaskStatus::Succeeded, reason, outputs).await
        }
        Err(error) if error.transient && task.tries < MOST_TRIES => {
            let not_before = Some(context.clock.now().after(context.config.retry_delay(task.tries)));
            let reason = format!("It is tried again: {}", error.message);
            running.add_line(&reason);
            running.record(TaskProgress::Requeue { not_before, reason }, Vec::new()).await.map(drop)
        }
        Err(error) => {
            end(&mut running, &task, Some(&build), TaskStatus::Failed, error.message, Value::Null).await
        }
    }
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

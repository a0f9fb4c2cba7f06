//! Claims the tasks of one kind and runs each of them in a slot, until the engine stops.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use muster_core::ids::TaskId;
use muster_core::task::{Task, TaskKind};
use muster_store::StoreError;
use muster_store::commands::{ClaimTasks, RecordTask, TaskProgress, TaskTicket};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::context::Context;
use crate::lease::Lease;
use crate::notify::Topic;
use crate::supervise::panic_message;

/// Claims tasks of a kind for as long as the engine runs. At most `slots` of them run at the same time. A task whose run
/// panics or returns an error is requeued.
pub(super) async fn run<F>(
    context: Arc<Context>,
    kind: TaskKind,
    slots: usize,
    run_task: impl Fn(Arc<Context>, Arc<Lease>, Task) -> F,
) where
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(slots));
    let period: Duration = context.config.safety_period.into();
    let tasks = context.notifier.subscribe(Topic::Tasks);
    let running_tasks = RunningTasks::default();
    let mut may_have_orphans = false;
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = context.stopping.cancelled() => return,
        };
        let Ok(slot) = slot else { return };
        // Read before the claim, so that no task is missed that is stored during it.
        let version = tasks.version();
        match claim(&context, kind, &running_tasks, &mut may_have_orphans).await {
            Ok(Some((task, lease))) => {
                let (context, claimed) = (Arc::clone(&context), ClaimedTask::new(&lease, &task));
                let running_tasks = running_tasks.clone();
                running_tasks.0.lock().insert(claimed.ticket);
                let running = run_task(Arc::clone(&context), Arc::clone(&lease), task);
                context.tasks.clone().spawn(async move {
                    let why = match AssertUnwindSafe(running).catch_unwind().await {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(panic) => Some(format!("it crashed: {}", panic_message(panic.as_ref()))),
                    };
                    if let Some(why) = why {
                        claimed.requeue(&context, &lease, &why).await;
                    }
                    running_tasks.0.lock().remove(&claimed.ticket);
                    drop(slot);
                });
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %kind, "cannot claim tasks"),
        }
        drop(slot);
        tokio::select! {
            () = tasks.changed_since(version) => {}
            () = tokio::time::sleep(period) => {}
            () = context.stopping.cancelled() => return,
        }
    }
}

/// The claims of the tasks that run.
#[derive(Default, Clone)]
struct RunningTasks(Arc<Mutex<HashSet<TaskTicket>>>);

impl RunningTasks {
    fn ids(&self) -> Vec<TaskId> {
        self.0.lock().iter().map(|ticket| ticket.task).collect()
    }
}

/// Claims a task. After a claim that failed, also tasks that this engine owns and does not run: the claim may have been
/// committed although the call failed.
async fn claim(
    context: &Context,
    kind: TaskKind,
    running_tasks: &RunningTasks,
    may_have_orphans: &mut bool,
) -> Result<Option<(Task, Arc<Lease>)>, StoreError> {
    let (lease, now) = (context.lease(), context.clock.now());
    if lease.has_expired(now) {
        return Ok(None);
    }
    let (instances, kinds) = (context.instances(), vec![kind]);
    let running = may_have_orphans.then(|| running_tasks.ids());
    let command = ClaimTasks { engine: lease.id, instances, kinds, running, limit: 1, now };
    let claimed = context.store.claim_tasks(command).await.map(|mut tasks| tasks.pop());
    *may_have_orphans = match &claimed {
        Ok(None) => false,
        Ok(Some(_)) => *may_have_orphans,
        Err(_) => true,
    };
    Ok(claimed?.map(|task| (task, lease)))
}

/// The claim of a task.
struct ClaimedTask {
    ticket: TaskTicket,
    tries: u32,
}

impl ClaimedTask {
    const fn new(lease: &Lease, task: &Task) -> Self {
        let ticket = TaskTicket { task: task.id, engine: lease.id, fence: task.fence };
        Self { ticket, tries: task.tries }
    }

    /// Requeues a task whose run did not record an end. Retried until the store answers: no engine claims the task while
    /// the lease of this one owns it.
    async fn requeue(&self, context: &Context, lease: &Lease, why: &str) {
        let Self { ticket, tries } = *self;
        tracing::warn!(task = %ticket.task, why, "requeues a task");
        let mut failures = 0;
        loop {
            let now = context.clock.now();
            let not_before = Some(now.after(context.config.retry_delay(tries)));
            let progress = TaskProgress::Requeue { not_before, reason: format!("Retrying: {why}") };
            let record = RecordTask { ticket, progress, log: String::new(), events: Vec::new(), now };
            // The store ignores the command if the task has ended or belongs to another engine.
            let Err(error) = context.store.record_task(record).await else { return };
            failures += 1;
            tracing::warn!(task = %ticket.task, %error, "cannot requeue a task: it is retried");
            tokio::select! {
                () = tokio::time::sleep(context.config.retry_delay(failures).into()) => {}
                // The task is claimed once the lease has ended.
                () = context.stopping.cancelled() => return,
                () = lease.lost.cancelled() => return,
            }
        }
    }
}

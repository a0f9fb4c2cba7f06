//! Runs jobs: each by one engine at a time, and taken over when that dies. The command itself goes on meanwhile.

mod follow;
mod record;

use std::sync::Arc;
use std::time::Duration;

use muster_core::task::{Task, TaskKind};
use muster_store::StoreError;
use muster_store::commands::ClaimTasks;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::context::Context;
use crate::lease::Lease;
use crate::notify::Topic;

/// How many jobs an engine runs at the same time: each is one that waits for the end of a command.
const PARALLEL_JOBS: usize = 1_000;

/// Claims jobs for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>) {
    let slots = Arc::new(Semaphore::new(PARALLEL_JOBS));
    let period: Duration = context.config.safety_period.into();
    let tasks = context.notifier.subscribe(Topic::Tasks);
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = context.stopping.cancelled() => return,
        };
        let Ok(slot) = slot else { return };
        let version = tasks.version();
        match claim(&context).await {
            Ok(Some((task, lease))) => {
                start(&context, lease, task, slot);
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot claim jobs"),
        }
        drop(slot);
        tokio::select! {
            () = tasks.changed_since(version) => {}
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
    let (instances, kinds) = (context.instances(), vec![TaskKind::Job]);
    let command = ClaimTasks { engine: lease.id, instances, kinds, limit: 1, now };
    Ok(context.store.claim_tasks(command).await?.pop().map(|task| (task, lease)))
}

fn start(context: &Arc<Context>, lease: Arc<Lease>, task: Task, slot: OwnedSemaphorePermit) {
    let context = Arc::clone(context);
    context.tasks.clone().spawn(async move {
        tokio::select! {
            () = Box::pin(follow::follow(&context, &lease, &task)) => {}
            // The command goes on, and the next engine follows it.
            () = context.stopping.cancelled() => {}
            () = lease.lost.cancelled() => {}
        }
        drop(slot);
    });
}

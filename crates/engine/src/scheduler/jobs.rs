//! Runs jobs: each is followed by one engine at a time, and by another if that dies. The command runs on meanwhile.

mod follow;
mod record;

use std::sync::Arc;

use muster_core::task::{Task, TaskKind};
use muster_store::StoreError;

use crate::context::Context;
use crate::lease::Lease;
use crate::scheduler::task_queue;

/// The maximum of concurrent jobs of an engine: a job costs little, since it waits for the end of a command.
const PARALLEL_JOBS: usize = 1_000;

/// Claims jobs for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>) {
    task_queue::run(context, TaskKind::Job, PARALLEL_JOBS, follow_job).await;
}

async fn follow_job(context: Arc<Context>, lease: Arc<Lease>, task: Task) -> Result<(), StoreError> {
    tokio::select! {
        () = Box::pin(follow::follow(&context, &lease, &task)) => {}
        // The command runs on, and the next engine follows it.
        () = context.stopping.cancelled() => {}
        () = lease.lost.cancelled() => {}
    }
    Ok(())
}

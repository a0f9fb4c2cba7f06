//! The commands that submit and stop jobs.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::JobId;
use muster_core::job::Job;
use muster_core::task::TaskStatus;

use crate::error::StoreError;
use crate::rows::{events, jobs};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;

/// Stores a job on an existing cluster. A job with a cluster of its own is stored by the creation of that cluster.
#[derive(Debug, Clone)]
pub struct InsertJob {
    /// The job.
    pub job: Job,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for InsertJob {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const CLUSTER: &str =
            "SELECT 1 FROM clusters WHERE id = $1 AND deleted_at IS NULL AND status <> 'DELETING'";
        Box::pin(async move {
            let cluster = self.job.cluster_id.to_string();
            if tx.row(CLUSTER, args![&cluster]).await?.is_none() {
                return Err(StoreError::NotFound { kind: "cluster", given: cluster });
            }
            jobs::insert(tx, &self.job).await?;
            events::insert(tx, &self.events).await?;
            tx.touch(Touched::Tasks);
            Ok(())
        })
    }
}

/// Requests that a job stops.
#[derive(Debug, Clone)]
pub struct StopJob {
    /// The job.
    pub job: JobId,
    /// The name of the principal who requests it.
    pub by: String,
}

impl Command for StopJob {
    /// True if the job had not ended.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const CANCEL: &str = "UPDATE tasks SET cancelled = 1 WHERE ended_at IS NULL AND status IN ($2, $3) \
                              AND id = (SELECT task_id FROM jobs WHERE id = $1) RETURNING id";
        // Only the first request is recorded, because it is the one that ends the job.
        const NOTE: &str = "UPDATE jobs SET stopped_by = $2 WHERE id = $1 AND stopped_by IS NULL";
        Box::pin(async move {
            let id = self.job.to_string();
            let open = args![&id, TaskStatus::Ready.as_str(), TaskStatus::Running.as_str()];
            let Some(task) = tx.update(CANCEL, open).await? else { return Ok(false) };
            tx.execute(NOTE, args![&id, &self.by]).await?;
            tx.touch(Touched::Task(task.parse(0)?));
            Ok(true)
        })
    }
}

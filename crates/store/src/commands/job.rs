//! Submitting and stopping jobs.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::JobId;
use muster_core::job::Job;
use muster_core::task::TaskStatus;

use crate::error::StoreError;
use crate::rows::{events, jobs};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;

/// Stores a job on a cluster that exists. A job with a cluster of its own is stored with the creation of that.
#[derive(Debug, Clone)]
pub struct InsertJob {
    /// The job.
    pub job: Job,
    /// Its events.
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
    /// Whether it had not ended.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const CANCEL: &str = "UPDATE tasks SET cancelled = 1 WHERE ended_at IS NULL AND status IN ($2, $3) \
                              AND id = (SELECT task_id FROM jobs WHERE id = $1)";
        // The first request is the one that ends it.
        const NOTE: &str = "UPDATE jobs SET stopped_by = $2 WHERE id = $1 AND stopped_by IS NULL";
        Box::pin(async move {
            let id = self.job.to_string();
            let open = args![&id, TaskStatus::Ready.as_str(), TaskStatus::Running.as_str()];
            let is_open = tx.execute(CANCEL, open).await? > 0;
            if is_open {
                tx.execute(NOTE, args![&id, &self.by]).await?;
                tx.touch(Touched::Tasks);
            }
            Ok(is_open)
        })
    }
}

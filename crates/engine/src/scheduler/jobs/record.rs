//! Records the progress of jobs.

use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::job::{Job, JobOutputs, cluster_is_deleted};
use muster_store::StoreError;
use muster_store::commands::{RecordTask, TaskProgress, TaskRecorded, TaskTicket};

use crate::admission::submit;
use crate::context::Context;
use crate::events::reason;

/// Records the progress of one job under the fence of its claim.
pub(super) struct JobRecord<'c> {
    pub(super) context: &'c Context,
    pub(super) ticket: TaskTicket,
}

impl JobRecord<'_> {
    /// Records progress; returns false if another engine owns the job, or the job has ended.
    pub(super) async fn reached(
        &self,
        job: &Job,
        reason: String,
        outputs: &JobOutputs,
        event: Option<Event>,
    ) -> Result<bool, StoreError> {
        tracing::debug!(job = %job.id, reason, "job continues");
        let outputs = serde_json::to_value(outputs).unwrap_or_default();
        let recorded = self.write(TaskProgress::Reached { reason, outputs }, event).await?;
        Ok(recorded != TaskRecorded::Lost)
    }

    pub(super) async fn write(
        &self,
        progress: TaskProgress,
        event: Option<Event>,
    ) -> Result<TaskRecorded, StoreError> {
        let record = RecordTask {
            ticket: self.ticket,
            progress,
            log: String::new(),
            events: event.into_iter().collect(),
            now: self.context.clock.now(),
        };
        self.context.store.record_task(record).await
    }

    /// Submits the deletion of the cluster that was created for the job, unless it is deleted already.
    pub(super) async fn delete_cluster(&self, job: &Job, cluster: &Cluster) -> Result<(), StoreError> {
        if cluster_is_deleted(Some(cluster)) {
            return Ok(());
        }
        let message = format!("its job '{}' has ended", job.name);
        let accept = submit::deletion(self.context, cluster, reason::DELETED_WITH_JOB, &message);
        match self.context.store.accept(accept).await {
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

//! Follows one job from its claim to its end. Every step reads the rows, and can be repeated.

use std::sync::Arc;
use std::time::Duration;

use muster_core::cluster::Cluster;
use muster_core::event::Level;
use muster_core::job::{ClusterReadiness, CommandEnd, Job, JobOutputs, cluster_is_deleted, last_lines};
use muster_core::recipe::ClusterRecipe;
use muster_core::task::{Task, TaskStatus};
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::{TaskProgress, TaskTicket};

use super::record::JobRecord;
use crate::context::Context;
use crate::events::{of_job, reason};
use crate::lease::Lease;
use crate::notify::Topic;
use crate::ports::jobs::{CommandProgress, JobCall, JobEnd, JobRunner, JobStart};
use crate::ports::provider::environment::client_environment;
use crate::ports::provider::{ClusterTarget, ProviderError};

/// The result of a step.
enum JobStep {
    /// The job has ended, or another engine owns it.
    Done,
    /// The next step follows after a change of the job or its cluster.
    Wait,
    /// The next step can follow at once.
    Next,
}

/// The error of a step that was not completed.
enum StepError {
    Store(StoreError),
    Provider(ProviderError),
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ProviderError> for StepError {
    fn from(error: ProviderError) -> Self {
        Self::Provider(error)
    }
}

/// Follows a job until it has ended or another engine owns it. Errors of the database are retried without a limit.
pub(super) async fn follow(context: &Context, lease: &Lease, task: &Task) {
    let ticket = TaskTicket { task: task.id, engine: lease.id, fence: task.fence };
    let record = JobRecord { context, ticket };
    let mut following = Following { context, ticket, record, is_ours: false };
    let topic = context.notifier.subscribe(Topic::Task(task.id));
    let mut failures = 0;
    loop {
        let version = topic.version();
        let step = Box::pin(following.step(topic.changed_since(version))).await;
        let error = match step {
            Ok(JobStep::Done) => return,
            Ok(JobStep::Next | JobStep::Wait) => {
                failures = 0;
                continue;
            }
            Err(StepError::Provider(error)) if error.overtaken_by.is_some() => {
                tracing::info!(task = %task.id, %error, "another engine has the job");
                return;
            }
            Err(StepError::Provider(error)) => error.to_string(),
            Err(StepError::Store(error)) => error.to_string(),
        };
        failures += 1;
        tracing::warn!(task = %task.id, error, "cannot continue a job; it is retried");
        tokio::time::sleep(context.config.retry_delay(failures).into()).await;
    }
}

struct Following<'c> {
    context: &'c Context,
    ticket: TaskTicket,
    record: JobRecord<'c>,
    /// True if the command has this engine's fence.
    is_ours: bool,
}

impl Following<'_> {
    async fn step(&mut self, changed: impl Future<Output = ()>) -> Result<JobStep, StepError> {
        let Some(job) = self.context.store.job_of_task(self.ticket.task).await? else {
            return Ok(JobStep::Done);
        };
        if job.task.status != TaskStatus::Running || job.task.fence != self.ticket.fence {
            return Ok(JobStep::Done);
        }
        // Subscribed before the cluster is read, so that no change is missed.
        let topic = self.context.notifier.subscribe(Topic::Cluster(job.cluster_id));
        let version = topic.version();
        let cluster = self.context.store.cluster(job.cluster_id).await?;
        let provider = self.context.provider(&job.instance);
        let Some(runner) = provider.and_then(|provider| Arc::clone(&provider).job_runner()) else {
            let why = format!("'{}' does not run jobs", job.instance);
            return self.end(&job, cluster.as_ref(), TaskStatus::Failed, why, job.outputs()).await;
        };
        let period: Duration = self.context.config.safety_period.into();
        let woken = async {
            tokio::select! {
                () = changed => {}
                () = topic.changed_since(version) => {}
                () = tokio::time::sleep(period) => {}
            }
        };
        if job.is_launched() {
            // Errors are retried without a limit: the command runs on regardless of them.
            return self.attend(&job, cluster.as_ref(), runner.as_ref(), woken).await;
        }
        match self.begin(&job, cluster.as_ref(), runner.as_ref()).await {
            Ok(JobStep::Wait) => {
                woken.await;
                Ok(JobStep::Wait)
            }
            Err(StepError::Provider(error)) if error.overtaken_by.is_none() => {
                let why = without_full_stop(&error.message);
                if error.transient {
                    // The job waits until its provider is available, and shows why.
                    let (reason, outputs) = (format!("Waiting: {why}."), job.outputs());
                    let is_new = job.task.status_reason != reason;
                    if is_new && !self.record.reached(&job, reason, &outputs, None).await? {
                        return Ok(JobStep::Done);
                    }
                    return Err(StepError::Provider(error));
                }
                let why = format!("Its command could not be started: {why}.");
                self.end_unstarted(&job, cluster.as_ref(), runner.as_ref(), TaskStatus::Failed, why).await
            }
            other => other,
        }
    }

    /// Starts the command of a job whose cluster is ready.
    async fn begin(
        &mut self,
        job: &Job,
        cluster: Option<&Cluster>,
        runner: &dyn JobRunner,
    ) -> Result<JobStep, StepError> {
        if let Some(by) = &job.stopped_by {
            let why = format!("It was stopped by {by} before its command was started.");
            return self.end_unstarted(job, cluster, runner, TaskStatus::Cancelled, why).await;
        }
        let ready = match ClusterReadiness::from_cluster(cluster) {
            ClusterReadiness::Never(why) => {
                let why = format!("Its command was not started: {}.", without_full_stop(&why));
                return self.end_unstarted(job, cluster, runner, TaskStatus::Failed, why).await;
            }
            ClusterReadiness::Wait => None,
            ClusterReadiness::Ready => cluster,
        };
        let Some(cluster) = ready else {
            let reason = format!("Waiting for cluster '{}'.", job.cluster_name);
            if job.task.status_reason != reason {
                let outputs = JobOutputs::default();
                return Ok(if self.record.reached(job, reason, &outputs, None).await? {
                    JobStep::Wait
                } else {
                    JobStep::Done
                });
            }
            return Ok(JobStep::Wait);
        };
        let missing = || ProviderError::permanent("NoProfile", "the profile of its cluster was deleted");
        let profile = self.context.store.profile(cluster.profile_id).await?.ok_or_else(missing)?;
        let missing = || ProviderError::permanent("NoProvider", "no server serves its cluster");
        let provider = self.context.provider(&cluster.instance).ok_or_else(missing)?;
        let target = ClusterTarget { cluster, profile: &profile };
        // Those of the cluster's own programs come first: a command finds what its nodes find.
        let mut variables = ClusterRecipe::of_cluster(cluster, &profile).unwrap_or_default().head().env;
        variables.extend(client_environment(provider.as_ref(), target).await?);
        variables.insert("MUSTER_JOB".to_owned(), job.name.clone());
        let start = JobStart { cluster, variables };
        let progress = runner.start(JobCall { job, fence: self.ticket.fence }, start).await?;
        self.is_ours = true;
        match progress {
            CommandProgress::Waiting(reason) => self.record_waiting(job, reason).await,
            CommandProgress::Running(since) => self.record_started(job, since).await,
            CommandProgress::Ended(end) if matches!(end.how, CommandEnd::NotStarted(_)) => {
                self.record_end(job, Some(cluster), &end).await
            }
            // The next step observes the end of the command and records it.
            CommandProgress::Ended(_) => self.record_started(job, None).await,
        }
    }

    /// Records that the command was launched, and the reason why it does not run yet.
    async fn record_waiting(&self, job: &Job, reason: String) -> Result<JobStep, StepError> {
        let outputs = JobOutputs { launched: true, ..job.outputs() };
        let recorded = self.record.reached(job, reason, &outputs, None).await?;
        Ok(if recorded { JobStep::Next } else { JobStep::Done })
    }

    async fn record_started(&self, job: &Job, since: Option<Timestamp>) -> Result<JobStep, StepError> {
        let now = self.context.clock.now();
        let outputs =
            JobOutputs { launched: true, started_at: Some(since.unwrap_or(now)), ..JobOutputs::default() };
        let words = job.spec.command.join(" ");
        let message = format!("job '{}' was started on cluster '{}': {words}", job.name, job.cluster_name);
        let event = of_job(job, Level::Info, reason::JOB_STARTED, &message, now);
        let recorded =
            self.record.reached(job, "Its command runs.".to_owned(), &outputs, Some(event)).await?;
        Ok(if recorded { JobStep::Next } else { JobStep::Done })
    }

    /// Waits for the end of the command, or for a reason to stop it.
    async fn attend(
        &mut self,
        job: &Job,
        cluster: Option<&Cluster>,
        runner: &dyn JobRunner,
        changed: impl Future<Output = ()>,
    ) -> Result<JobStep, StepError> {
        let call = JobCall { job, fence: self.ticket.fence };
        if !self.is_ours {
            // Another engine started the command.
            runner.adopt(call).await?;
            self.is_ours = true;
        }
        if let Some(by) = &job.stopped_by {
            let end = runner.stop(call).await?;
            let why = format!("It was stopped by {by}: its command {}.", end.message);
            return self.end_as(job, cluster, TaskStatus::Cancelled, why, &end).await;
        }
        if cluster_is_deleted(cluster) {
            let end = runner.stop(call).await?;
            let deleted = deletion(cluster, self.context.clock.now());
            let why = format!(
                "Its cluster '{}' was deleted{deleted}: its command {}.",
                job.cluster_name, end.message
            );
            return self.end_as(job, cluster, TaskStatus::Failed, why, &end).await;
        }
        let known = match job.outputs().started_at {
            Some(since) => CommandProgress::Running(Some(since)),
            None => CommandProgress::Waiting(job.task.status_reason.clone()),
        };
        let progress = tokio::select! {
            // A command that ended before the change is recorded with its own end.
            biased;
            progress = runner.advance(job, &known) => progress?,
            () = changed => return Ok(JobStep::Wait),
        };
        match progress {
            CommandProgress::Waiting(reason) => self.record_waiting(job, reason).await,
            CommandProgress::Running(since) => self.record_started(job, since).await,
            CommandProgress::Ended(end) => self.record_end(job, cluster, &end).await,
        }
    }

    /// Ends a job whose command has ended by itself.
    async fn record_end(
        &self,
        job: &Job,
        cluster: Option<&Cluster>,
        end: &JobEnd,
    ) -> Result<JobStep, StepError> {
        let succeeded = end.how == CommandEnd::Exited(0);
        let status = if succeeded { TaskStatus::Succeeded } else { TaskStatus::Failed };
        let why = format!("Its command {}.", end.message);
        self.end_as(job, cluster, status, why, end).await
    }

    /// Ends a job whose command is not recorded as started. Stops the command first: an engine that died may have
    /// started it.
    async fn end_unstarted(
        &self,
        job: &Job,
        cluster: Option<&Cluster>,
        runner: &dyn JobRunner,
        status: TaskStatus,
        why: String,
    ) -> Result<JobStep, StepError> {
        runner.stop(JobCall { job, fence: self.ticket.fence }).await?;
        self.end(job, cluster, status, why, job.outputs()).await
    }

    async fn end_as(
        &self,
        job: &Job,
        cluster: Option<&Cluster>,
        status: TaskStatus,
        why: String,
        end: &JobEnd,
    ) -> Result<JobStep, StepError> {
        let outputs =
            JobOutputs { exit_code: end.how.exit_code(), last_lines: last_lines(&end.log), ..job.outputs() };
        self.end(job, cluster, status, why, outputs).await
    }

    /// Deletes the cluster that was created for the job, and then records the end: an engine that takes over in between
    /// repeats both.
    async fn end(
        &self,
        job: &Job,
        cluster: Option<&Cluster>,
        status: TaskStatus,
        why: String,
        outputs: JobOutputs,
    ) -> Result<JobStep, StepError> {
        if job.owns_cluster
            && let Some(cluster) = cluster
        {
            self.record.delete_cluster(job, cluster).await?;
        }
        self.record.end(job, status, why, &outputs).await?;
        Ok(JobStep::Done)
    }
}

/// Returns the cause of the deletion of a cluster whose lifetime is over; empty for other deletions.
fn deletion(cluster: Option<&Cluster>, now: Timestamp) -> String {
    let Some(cluster) = cluster else { return String::new() };
    let at = cluster.deleted_at.unwrap_or(now);
    match (cluster.lifetime_ends_at(), cluster.limits.max_lifetime) {
        (Some(end), Some(limit)) if end <= at => format!(", because its max_lifetime of {limit} was over"),
        _ => String::new(),
    }
}

/// Removes the full stop at the end of a reason, which another sentence quotes.
fn without_full_stop(reason: &str) -> &str {
    reason.trim_end().trim_end_matches('.')
}

impl JobRecord<'_> {
    async fn end(
        &self,
        job: &Job,
        status: TaskStatus,
        why: String,
        outputs: &JobOutputs,
    ) -> Result<(), StoreError> {
        let (level, word) = match status {
            TaskStatus::Succeeded => (Level::Info, reason::JOB_SUCCEEDED),
            TaskStatus::Cancelled => (Level::Info, reason::JOB_STOPPED),
            _ => (Level::Warn, reason::JOB_FAILED),
        };
        tracing::info!(job = %job.id, %status, reason = why, "ended");
        let message = format!("job '{}' on cluster '{}': {why}", job.name, job.cluster_name);
        let event = of_job(job, level, word, &message, self.context.clock.now());
        let outputs = serde_json::to_value(outputs).unwrap_or_default();
        let progress = TaskProgress::End { status, reason: why, outputs };
        self.write(progress, Some(event)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use muster_core::time::TimeSpan;

    use super::*;

    #[test]
    fn a_quoted_reason_has_no_full_stop_of_its_own() {
        assert_eq!(without_full_stop("restart or delete the cluster."), "restart or delete the cluster");
        assert_eq!(without_full_stop("no head"), "no head");
    }

    #[test]
    fn a_deletion_at_the_end_of_the_lifetime_is_explained() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let mut cluster = Cluster { created_at: Some(at(100)), ..sample::cluster(1, 0, None) };
        assert_eq!(deletion(Some(&cluster), at(9_000)), "");
        cluster.limits.max_lifetime = Some(TimeSpan::from_secs(60));
        assert_eq!(deletion(Some(&cluster), at(159)), "", "it was deleted before");
        assert_eq!(deletion(Some(&cluster), at(160)), ", because its max_lifetime of 1m was over");
        cluster.deleted_at = Some(at(150));
        assert_eq!(deletion(Some(&cluster), at(900)), "", "the end of the job is recorded later");
        assert_eq!(deletion(None, at(900)), "");
    }
}

//! The port that runs the commands of jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::job::{CommandEnd, Job, JobSpec};
use muster_core::time::Timestamp;

use crate::ports::provider::{LogQuery, ProviderError};

/// The grace period: a command that still runs so long after the request to end is killed.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

/// Text of a job's log, as it is written.
pub type JobLog = BoxStream<'static, Result<String, ProviderError>>;

/// A job, and the fence under which an engine writes for it.
#[derive(Debug, Clone, Copy)]
pub struct JobCall<'c> {
    /// The job.
    pub job: &'c Job,
    /// The fence of the claim of the job's task; a lower one is refused.
    pub fence: Fence,
}

/// The end of a job's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// The kind of end, with the exit code.
    pub how: CommandEnd,
    /// The end as a phrase about the command, such as `exited with code 7`.
    pub message: String,
    /// The last part of its log.
    pub log: String,
}

/// The progress of the command of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandProgress {
    /// The command does not run yet, for this reason, which is a sentence.
    Waiting(String),
    /// The command runs, since this time if it is known.
    Running(Option<Timestamp>),
    /// The command has ended.
    Ended(JobEnd),
}

/// The cluster and the variables that a command is started with.
#[derive(Debug)]
pub struct JobStart<'s> {
    /// The cluster that the command uses.
    pub cluster: &'s Cluster,
    /// The variables by which the command finds the cluster.
    pub variables: BTreeMap<String, String>,
}

/// Runs commands of jobs at one provider instance, each once.
#[async_trait]
pub trait JobRunner: Send + Sync {
    /// Refuses a command that cannot be run on this cluster.
    async fn admit(&self, spec: &JobSpec, cluster: &Cluster) -> Result<(), ProviderError>;

    /// Starts the command, and returns its progress. A command that was started before, and perhaps has ended, is not
    /// started again: it belongs to this fence from now on.
    async fn start(&self, call: JobCall<'_>, start: JobStart<'_>) -> Result<CommandProgress, ProviderError>;

    /// Takes over a command that another engine launched: it belongs to this fence from now on.
    async fn adopt(&self, call: JobCall<'_>) -> Result<(), ProviderError>;

    /// Waits until a command that was launched has progressed beyond `known`, and returns its progress. A command that
    /// runs does not become waiting again.
    async fn advance(&self, job: &Job, known: &CommandProgress) -> Result<CommandProgress, ProviderError>;

    /// Asks the command to end, kills it after [`STOP_GRACE`], and returns how it ended. Idempotent.
    async fn stop(&self, call: JobCall<'_>) -> Result<JobEnd, ProviderError>;

    /// Returns the log of the command. A log that is followed ends with the command.
    async fn logs(&self, job: &Job, query: LogQuery) -> Result<JobLog, ProviderError>;
}

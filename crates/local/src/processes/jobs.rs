//! Commands of jobs. Like a node, each is a process under its own shim, in a folder beside those of clusters.
//!
//! ```text
//!  <folder of clusters>/../jobs/<job id>/        the shim's files and the log
//!  <folder of clusters>/../jobs/<job id>/work/   the default working directory
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::job::{CommandEnd, Job, JobSpec, LAST_LINES};
use muster_core::time::Timestamp;
use muster_engine::ports::jobs::{CommandProgress, JobCall, JobEnd, JobLog, JobRunner, JobStart, STOP_GRACE};
use muster_engine::ports::provider::{INVALID, LogQuery, ProviderError};

use super::launch::{in_venv, inherited};
use super::logs::{self, LogFollow};
use super::{LocalProvider, on_disk, overtaken, paths};
use crate::environments::PYTHON_VARIABLE;
use crate::files;
use crate::shim::{
    ExitCause, LaunchSpec, NodeExit, NodeFolder, NodeProcessState, RemoveError, RunOutcome, RunningNode,
    ShimRequestError, Shims, StartError, StopError, StopSpec, modified_at,
};

/// The folder of jobs, beside that of clusters.
const JOBS: &str = "jobs";

impl LocalProvider {
    fn jobs_folder(&self) -> PathBuf {
        self.inner.settings.folder.with_file_name(JOBS)
    }

    /// Returns the folder of a job's shim, which uses the id of the job as its node id.
    fn job_folder(&self, job: &Job) -> NodeFolder {
        NodeFolder::new(&self.jobs_folder(), NodeId::from_uuid(*job.id.as_uuid()))
    }

    /// Removes the files of jobs that ended before this time.
    pub async fn purge_jobs(&self, ended_before: Timestamp) {
        purge(self.jobs_folder(), &self.inner.shims, ended_before).await;
    }

    /// Builds the launch of the job's command with the variables of its cluster.
    fn job_launch(
        &self,
        call: JobCall<'_>,
        folder: &NodeFolder,
        cluster: BTreeMap<String, String>,
    ) -> LaunchSpec {
        let JobCall { job: Job { spec, .. }, fence } = call;
        let python = cluster.get(PYTHON_VARIABLE).cloned();
        let inherited: Vec<(String, String)> = match &python {
            Some(python) => in_venv(Path::new(python)).collect(),
            None => inherited().into_iter().collect(),
        };
        let environment = inherited.into_iter().chain(cluster).chain(spec.environment.clone()).collect();
        let working_folder = match spec.working_dir.as_str() {
            "" => paths::working_folder(folder),
            given => PathBuf::from(given),
        };
        LaunchSpec {
            generation: fence,
            command: spec.words(python.as_deref()),
            environment,
            working_folder,
            log: self.inner.settings.log,
            oom_counter: None,
        }
    }

    /// Reads the last lines of a job's log.
    async fn read_last_lines(folder: &NodeFolder) -> String {
        let Ok(lines) =
            logs::read_log(folder, LogQuery { tail: Some(LAST_LINES), ..LogQuery::default() }, LogFollow::No)
                .await
        else {
            return String::new();
        };
        lines.try_collect().await.unwrap_or_default()
    }

    async fn job_end(folder: &NodeFolder, end: &NodeExit) -> JobEnd {
        let how = match &end.how {
            ExitCause::Exited { code } => CommandEnd::Exited(*code),
            ExitCause::Signaled { signal } => CommandEnd::Signaled(*signal),
            ExitCause::NotStarted { code, .. } => CommandEnd::NotStarted(*code),
        };
        let message = match &end.how {
            ExitCause::NotStarted { message, .. } => format!("could not be started: {message}"),
            _ => end.to_string(),
        };
        JobEnd { how, message, log: Self::read_last_lines(folder).await }
    }

    /// Returns the progress of a command that has ended: a command that ran is reported as running first.
    async fn progress_of_ended(folder: &NodeFolder, end: &NodeExit) -> CommandProgress {
        match &end.how {
            ExitCause::NotStarted { .. } => CommandProgress::Ended(Self::job_end(folder, end).await),
            ExitCause::Exited { .. } | ExitCause::Signaled { .. } => CommandProgress::Running(None),
        }
    }

    /// Waits for the end of a command that was started.
    async fn wait_for_end(&self, job: &Job) -> Result<JobEnd, ProviderError> {
        let folder = self.job_folder(job);
        loop {
            let running = match self.inner.shims.inspect(&folder).map_err(folder_error)? {
                NodeProcessState::Running(running) => running,
                NodeProcessState::Ended(end) => return Ok(Self::job_end(&folder, &end).await),
                NodeProcessState::AnotherBoot(_) => {
                    return Ok(Self::unknown_end(&folder, "the machine was restarted meanwhile").await);
                }
                NodeProcessState::NeverStarted => {
                    return Ok(Self::unknown_end(&folder, "its files are gone").await);
                }
                NodeProcessState::Lost => {
                    self.inner.shims.clean_up_lost(&folder).await.map_err(folder_error)?;
                    return Ok(Self::unknown_end(&folder, "its supervisor was killed").await);
                }
            };
            match running.wait_for_exit().await.map_err(folder_error)? {
                RunOutcome::Ended(end) => return Ok(Self::job_end(&folder, &end).await),
                RunOutcome::Lost | RunOutcome::Replaced => {}
            }
        }
    }

    async fn unknown_end(folder: &NodeFolder, why: &str) -> JobEnd {
        let message = format!("has ended with unknown exit status: {why}");
        JobEnd { how: CommandEnd::Unknown, message, log: Self::read_last_lines(folder).await }
    }
}

/// Removes the files of old jobs. Files that cannot be removed do not keep those of other jobs.
async fn purge(folder: PathBuf, shims: &Shims, ended_before: Timestamp) {
    let listing = {
        let shims = shims.clone();
        tokio::task::spawn_blocking(move || list_expired(&folder, &shims, ended_before)).await
    };
    let expired = match listing.map_err(io::Error::other).flatten() {
        Ok(expired) => expired,
        Err(error) => return tracing::warn!(%error, "cannot list the files of old jobs"),
    };
    for job in expired {
        if let Err(error) = remove_files(shims, &job).await {
            tracing::warn!(job = %job.node(), %error, "cannot remove the files of an old job");
        }
    }
}

fn list_expired(folder: &Path, shims: &Shims, ended_before: Timestamp) -> io::Result<Vec<NodeFolder>> {
    let mut jobs = NodeFolder::list(folder)?;
    jobs.retain(|job| match shims.inspect(job) {
        Ok(NodeProcessState::Running(_)) => false,
        Ok(NodeProcessState::Ended(end)) => end.at < ended_before,
        // Nothing records when such a job ended, so its retention begins with the last change of its files.
        Ok(NodeProcessState::Lost | NodeProcessState::AnotherBoot(_) | NodeProcessState::NeverStarted) => {
            last_change(job).is_some_and(|at| at < ended_before)
        }
        Err(error) => {
            tracing::warn!(job = %job.node(), %error, "cannot read the state of a job");
            false
        }
    });
    Ok(jobs)
}

/// Returns the time of the last change of a job's files.
fn last_change(job: &NodeFolder) -> Option<Timestamp> {
    let files = std::fs::read_dir(job.path()).into_iter().flatten().flatten().map(|entry| entry.path());
    files.chain([job.path().to_owned()]).filter_map(|file| modified_at(&file)).max()
}

/// Removes the files of a job under its lock, so that no command starts in them meanwhile.
async fn remove_files(shims: &Shims, job: &NodeFolder) -> Result<(), RemoveError> {
    if matches!(shims.inspect(job)?, NodeProcessState::Lost) {
        // Without the files, no server would search for processes of this job again.
        shims.clean_up_lost(job).await?;
    }
    shims.remove(job, job.highest_generation()?, false).await
}

/// Makes the shim of a command refuse engines that claimed the job before.
async fn adopt(running: &RunningNode, fence: Fence) -> Result<(), ProviderError> {
    match running.adopt(fence).await {
        Err(ShimRequestError::Refused(refused)) => Err(overtaken(refused)),
        // A shim that does not reply still records how the command ends.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err calls")]
fn folder_error(error: io::Error) -> ProviderError {
    on_disk("the folder of the job cannot be used", &error)
}

#[async_trait]
impl JobRunner for LocalProvider {
    async fn admit(&self, spec: &JobSpec, _: &Cluster) -> Result<(), ProviderError> {
        let folder = Path::new(&spec.working_dir);
        if spec.working_dir.is_empty() || (folder.is_absolute() && folder.is_dir()) {
            return Ok(());
        }
        let message = format!(
            "working_dir '{}' is not a folder: must be the absolute path of an existing folder, or empty",
            folder.display()
        );
        Err(ProviderError::permanent(INVALID, message))
    }

    async fn start(&self, call: JobCall<'_>, start: JobStart<'_>) -> Result<CommandProgress, ProviderError> {
        let JobCall { job, fence } = call;
        let folder = self.job_folder(job);
        let launched = Ok(CommandProgress::Running(None));
        match self.inner.shims.inspect(&folder).map_err(folder_error)? {
            NodeProcessState::NeverStarted => {}
            NodeProcessState::Running(running) => {
                adopt(&running, fence).await?;
                return launched;
            }
            NodeProcessState::Ended(end) => return Ok(Self::progress_of_ended(&folder, &end).await),
            NodeProcessState::Lost | NodeProcessState::AnotherBoot(_) => return launched,
        }
        folder
            .create()
            .and_then(|()| files::make_folder(&paths::working_folder(&folder)))
            .map_err(folder_error)?;
        let launch = self.job_launch(call, &folder, start.variables);
        match self.inner.shims.start(&folder, &launch).await {
            Ok(_) => launched,
            Err(StartError::CannotRun { message, .. }) => {
                // The shim has recorded the failed start as the end of the command, with the exit status.
                match self.inner.shims.inspect(&folder).map_err(folder_error)? {
                    NodeProcessState::Ended(end) => Ok(Self::progress_of_ended(&folder, &end).await),
                    _ => Err(ProviderError::permanent("CommandNotFound", message)),
                }
            }
            Err(StartError::Refused(refused)) => Err(overtaken(refused)),
            Err(error) => Err(ProviderError::transient("ShimFailed", error.to_string())),
        }
    }

    async fn adopt(&self, JobCall { job, fence }: JobCall<'_>) -> Result<(), ProviderError> {
        match self.inner.shims.inspect(&self.job_folder(job)).map_err(folder_error)? {
            NodeProcessState::Running(running) => adopt(&running, fence).await,
            _ => Ok(()),
        }
    }

    async fn advance(&self, job: &Job, known: &CommandProgress) -> Result<CommandProgress, ProviderError> {
        match known {
            // The shim starts a command at once, so a command that was launched was started.
            CommandProgress::Waiting(_) => Ok(CommandProgress::Running(None)),
            _ => Ok(CommandProgress::Ended(self.wait_for_end(job).await?)),
        }
    }

    async fn stop(&self, JobCall { job, fence }: JobCall<'_>) -> Result<JobEnd, ProviderError> {
        match self.inner.shims.stop(&self.job_folder(job), fence, StopSpec::with_grace(STOP_GRACE)).await {
            Ok(_) => self.wait_for_end(job).await,
            Err(StopError::Refused(refused)) => Err(overtaken(refused)),
            Err(error) => Err(ProviderError::transient("NotStopped", error.to_string())),
        }
    }

    async fn logs(&self, job: &Job, query: LogQuery) -> Result<JobLog, ProviderError> {
        let folder = self.job_folder(job);
        if !folder.path().is_dir() {
            // The files of the job were removed; its row still has the last lines.
            let last = job.outputs().last_lines;
            let text = (!last.is_empty()).then(|| Ok(format!("{last}\n")));
            return Ok(futures::stream::iter(text).boxed());
        }
        let (shims, followed) = (self.inner.shims.clone(), folder.clone());
        let is_over = move || {
            !matches!(
                shims.inspect(&followed),
                Ok(NodeProcessState::Running(_) | NodeProcessState::NeverStarted)
            )
        };
        let follow = if query.follow { LogFollow::Until(Box::new(is_over)) } else { LogFollow::No };
        let lines = logs::read_log(&folder, query, follow).await.map_err(folder_error)?;
        Ok(lines.map_err(folder_error).boxed())
    }
}

#[cfg(test)]
mod tests;

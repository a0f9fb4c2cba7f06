//! Commands of jobs. Like a node, each is a process under its own shim, in a folder beside those of clusters.
//!
//! ```text
//!  <folder of clusters>/../jobs/<job id>/        the shim's files and the log
//!  <folder of clusters>/../jobs/<job id>/work/   the default working directory
//! ```

use std::collections::BTreeMap;
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
    ExitCause, LaunchSpec, NodeExit, NodeFolder, NodeProcessState, RunOutcome, RunningNode, ShimRequestError,
    Shims, StartError, StopError, StopSpec,
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
        let (folder, shims) = (self.jobs_folder(), self.inner.shims.clone());
        match tokio::task::spawn_blocking(move || purge(&folder, &shims, ended_before)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove files of old jobs"),
            Err(error) => tracing::warn!(%error, "the removal of files of old jobs panicked"),
        }
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

fn purge(folder: &Path, shims: &Shims, ended_before: Timestamp) -> std::io::Result<()> {
    for job in NodeFolder::list(folder)? {
        if matches!(shims.inspect(&job), Ok(NodeProcessState::Ended(end)) if end.at < ended_before) {
            std::fs::remove_dir_all(job.path())?;
        }
    }
    Ok(())
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
fn folder_error(error: std::io::Error) -> ProviderError {
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
            _ => return launched,
        }
        folder
            .create()
            .and_then(|()| files::make_folder(&paths::working_folder(&folder)))
            .map_err(folder_error)?;
        let launch = self.job_launch(call, &folder, start.variables);
        match self.inner.shims.start(&folder, &launch).await {
            Ok(_) => launched,
            Err(StartError::CannotRun { message, .. }) => {
                // The shim has recorded how it ended, with the exit status.
                match self.inner.shims.inspect(&folder).map_err(folder_error)? {
                    NodeProcessState::Ended(_) => launched,
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
            // Its files were removed before its row.
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
        Ok(logs::read_log(&folder, query, follow).map_err(folder_error)?.map_err(folder_error).boxed())
    }
}

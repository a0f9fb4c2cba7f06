//! Jobs: commands that use a cluster, and that outlive their submitter and the server.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, ClusterStatus};
use crate::ids::{ClusterId, InstanceId, JobId};
use crate::principal::Owner;
use crate::string_enum::string_enum;
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use crate::unknown_fields::UnknownFields;

#[cfg(test)]
mod tests;

/// The largest command in bytes, with its arguments and variables: well below the limit of operating systems.
const LARGEST_SPEC: usize = 128 << 10;

/// The number of last log lines that are stored and shown for a job that has ended.
pub const LAST_LINES: usize = 20;

/// The largest number of characters of these lines.
const LONGEST_LAST_LINES: usize = 4 << 10;

/// The offset that shells add to the number of a signal to get an exit status.
const SIGNAL_BASE: i32 = 128;

string_enum! {
    /// The state of a job.
    JobState, "job state" {
        /// The command has not started: the job waits for an engine, its cluster or its pod.
        Pending = "PENDING",
        /// Its command runs.
        Running = "RUNNING",
        /// Its command ended with exit status 0.
        Succeeded = "SUCCEEDED",
        /// Its command failed or could not be run.
        Failed = "FAILED",
        /// It was stopped on request.
        Stopped = "STOPPED",
    }
}

impl JobState {
    /// Returns true if the job has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Stopped)
    }
}

/// The command of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// The program and its arguments. A program that ends in `.py` is run by the Python of the cluster.
    pub command: Vec<String>,
    /// The working folder of a local job; empty stands for a folder of its own.
    pub working_dir: String,
    /// Environment variables that take precedence over those of the cluster.
    pub environment: BTreeMap<String, String>,
    /// Fields that only a newer version knows.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl JobSpec {
    /// Refuses a command that no operating system can run.
    pub fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command is empty: give a program and its arguments".to_owned());
        }
        let variables = self.environment.iter().flat_map(|(name, value)| [name, value]);
        let texts = || self.command.iter().chain(variables.clone()).chain([&self.working_dir]);
        if texts().any(|text| text.contains('\0')) {
            return Err("command, working_dir or environment has a NUL character: remove it".to_owned());
        }
        if let Some(name) = self.environment.keys().find(|name| name.is_empty() || name.contains('=')) {
            return Err(format!("environment has a variable named '{name}': must be a name without '='"));
        }
        let size: usize = texts().map(String::len).sum();
        if size > LARGEST_SPEC {
            return Err(format!(
                "command and environment have {size} bytes: must have at most {LARGEST_SPEC}; put large values into \
                 a file"
            ));
        }
        Ok(())
    }

    /// The program and its arguments, with this interpreter in front if the program is a Python file.
    pub fn words(&self, python: Option<&str>) -> Vec<String> {
        let is_script = self
            .command
            .first()
            .is_some_and(|first| Path::new(first).extension().is_some_and(|extension| extension == "py"));
        let python = is_script.then(|| python.unwrap_or("python3").to_owned());
        python.into_iter().chain(self.command.iter().cloned()).collect()
    }
}

/// The progress and the result of a job's command, as its task stores them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOutputs {
    /// True if the command was passed to the provider, which starts it once. An engine that takes the job over only
    /// follows it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub launched: bool,
    /// The time when its command was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The exit status as shells number it: 128 plus the number of the signal that ended the command. Absent if the
    /// command never ran, or if its end is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last lines of its log, once it has ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_lines: String,
}

/// A job, with the task that runs its command.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The namespace of its cluster.
    pub namespace: String,
    /// Its name, unique in the namespace for as long as its history is stored.
    pub name: String,
    /// The tenant.
    pub project: String,
    /// Its submitter.
    pub owner: Owner,
    /// The provider instance.
    pub instance: InstanceId,
    /// The cluster that it uses.
    pub cluster_id: ClusterId,
    /// The name of that cluster.
    pub cluster_name: String,
    /// True if the cluster was created for the job, and is deleted when the job ends.
    pub owns_cluster: bool,
    /// The command.
    pub spec: JobSpec,
    /// The name of the principal who requested that it stops.
    pub stopped_by: Option<String>,
    /// The task that runs the command.
    pub task: Task,
    /// The time when it was submitted.
    pub created_at: Timestamp,
}

impl Job {
    /// The progress and the result of the command.
    pub fn outputs(&self) -> JobOutputs {
        // Unreadable outputs are shown as if the command had not started.
        JobOutputs::deserialize(&self.task.outputs).unwrap_or_default()
    }

    /// Returns true if the command was passed to the provider, so that it must not be started a second time.
    pub fn is_launched(&self) -> bool {
        let outputs = self.outputs();
        outputs.launched || outputs.started_at.is_some()
    }

    /// The state of the job, derived from its task and its outputs.
    pub fn state(&self) -> JobState {
        match self.task.status {
            TaskStatus::Succeeded => JobState::Succeeded,
            TaskStatus::Failed => JobState::Failed,
            TaskStatus::Cancelled => JobState::Stopped,
            // A take-over resets the status of the task while the command keeps running.
            TaskStatus::Ready | TaskStatus::Running if self.outputs().started_at.is_some() => {
                JobState::Running
            }
            TaskStatus::Ready | TaskStatus::Running => JobState::Pending,
        }
    }
}

/// The readiness of a cluster for the start of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterReadiness {
    /// The job can be started.
    Ready,
    /// The job has to wait.
    Wait,
    /// The job can never be started, for this reason.
    Never(String),
}

impl ClusterReadiness {
    /// The readiness of a cluster; none stands for a cluster without a row.
    pub fn from_cluster(cluster: Option<&Cluster>) -> Self {
        let Some(cluster) = cluster.filter(|cluster| cluster.deleted_at.is_none()) else {
            return Self::Never("its cluster was deleted".to_owned());
        };
        let Cluster { name, status, status_reason, .. } = cluster;
        match status {
            ClusterStatus::Deleting | ClusterStatus::Deleted => {
                Self::Never(format!("its cluster '{name}' is deleted"))
            }
            ClusterStatus::Error | ClusterStatus::Critical | ClusterStatus::Suspended => {
                Self::Never(format!("its cluster '{name}' is {status}: {status_reason}"))
            }
            ClusterStatus::Init | ClusterStatus::Creating | ClusterStatus::Recovering => Self::Wait,
            _ => Self::Ready,
        }
    }
}

/// Returns true if the cluster of a running job is deleted or being deleted. A cluster that does not work is left to
/// the command, which can retry or fail.
pub fn cluster_is_deleted(cluster: Option<&Cluster>) -> bool {
    cluster.is_none_or(|cluster| {
        cluster.deleted_at.is_some()
            || matches!(cluster.status, ClusterStatus::Deleting | ClusterStatus::Deleted)
    })
}

/// The end of a job's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEnd {
    /// It ended with an exit status.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It could not be started; the status is 126 or 127.
    NotStarted(i32),
    /// The end is unknown.
    Unknown,
}

impl CommandEnd {
    /// The exit status, as shells number it.
    pub const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Exited(code) | Self::NotStarted(code) => Some(*code),
            Self::Signaled(signal) => Some(SIGNAL_BASE + *signal),
            Self::Unknown => None,
        }
    }
}

/// The last lines of a log, cut to the length that is stored.
pub fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let text = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    let skipped = text.chars().count().saturating_sub(LONGEST_LAST_LINES);
    // PostgreSQL stores no NUL character in a text.
    text.chars().skip(skipped).filter(|character| *character != '\0').collect()
}

/// The name of a signal as the suffix of its number, such as ` (SIGTERM)`; empty for rare signals.
pub const fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

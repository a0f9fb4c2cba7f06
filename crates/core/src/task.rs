//! Tasks: durable pieces of work that are not changes of clusters, such as the build of an image.

use serde_json::Value;

use crate::action::Fence;
use crate::ids::{EngineId, InstanceId, TaskId};
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// The work of a task.
    TaskKind, "task kind" {
        /// The build of an image from its template.
        ImageBuild = "IMAGE_BUILD",
        /// The run of a job's command.
        Job = "JOB",
    }
}

string_enum! {
    /// The status of a task.
    TaskStatus, "task status" {
        /// The task waits for an engine.
        Ready = "READY",
        /// An engine runs the task.
        Running = "RUNNING",
        /// The task reached its goal.
        Succeeded = "SUCCEEDED",
        /// The task cannot reach its goal.
        Failed = "FAILED",
        /// The task was cancelled.
        Cancelled = "CANCELLED",
    }
}

impl TaskStatus {
    /// Returns true if the task has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A durable piece of work. One engine at a time runs it, and another engine takes it over if that one dies.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The kind of work.
    pub kind: TaskKind,
    /// The provider instance that does the work.
    pub instance: InstanceId,
    /// The tenant.
    pub project: String,
    /// The inputs.
    pub inputs: Value,
    /// The outputs.
    pub outputs: Value,
    /// Its status.
    pub status: TaskStatus,
    /// The reason of the status.
    pub status_reason: String,
    /// The engine that runs the task.
    pub owner: Option<EngineId>,
    /// The fence of that engine's claim; writes with an older fence are refused.
    pub fence: Fence,
    /// The number of attempts.
    pub tries: u32,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time when an engine first began the task.
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
}

impl Task {
    /// A task that waits for an engine.
    pub fn new(id: TaskId, kind: TaskKind, instance: InstanceId, project: &str, now: Timestamp) -> Self {
        Self {
            id,
            kind,
            instance,
            project: project.to_owned(),
            inputs: Value::Null,
            outputs: Value::Null,
            status: TaskStatus::Ready,
            status_reason: "Waiting for an engine.".to_owned(),
            owner: None,
            fence: Fence(0),
            tries: 0,
            created_at: now,
            started_at: None,
            ended_at: None,
        }
    }
}

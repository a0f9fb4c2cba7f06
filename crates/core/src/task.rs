//! Tasks: durable pieces of work that are not changes of clusters, such as the build of an image.

use serde_json::Value;

use crate::action::Fence;
use crate::ids::{EngineId, InstanceId, TaskId};
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// The work of a task.
    TaskKind, "task kind" {
        /// An image is built from its template.
        ImageBuild = "IMAGE_BUILD",
        /// The command of a job runs.
        Job = "JOB",
    }
}

string_enum! {
    /// The status of a task.
    TaskStatus, "task status" {
        /// It waits for an engine.
        Ready = "READY",
        /// An engine runs it.
        Running = "RUNNING",
        /// It reached its goal.
        Succeeded = "SUCCEEDED",
        /// It cannot reach its goal.
        Failed = "FAILED",
        /// It was cancelled.
        Cancelled = "CANCELLED",
    }
}

impl TaskStatus {
    /// Whether it has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A durable piece of work. One engine at a time runs it; another one takes it over if that engine dies.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its work.
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
    /// The reason.
    pub status_reason: String,
    /// The engine that runs it.
    pub owner: Option<EngineId>,
    /// Drawn when that engine took it; nothing is written with an older one.
    pub fence: Fence,
    /// The number of attempts.
    pub tries: u32,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time when it was first begun.
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
            status_reason: "It waits for an engine.".to_owned(),
            owner: None,
            fence: Fence(0),
            tries: 0,
            created_at: now,
            started_at: None,
            ended_at: None,
        }
    }
}

//! Tasks: claimed by one engine at a time, and taken over when that dies.

use futures::future::BoxFuture;
use muster_core::action::Fence;
use muster_core::event::Event;
use muster_core::ids::{EngineId, InstanceId, TaskId};
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_core::time::Timestamp;
use serde_json::Value as Json;

use crate::error::StoreError;
use crate::rows::{events, tasks};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{Value, args, json};

/// The most characters of a log; what is older is dropped.
const LONGEST_LOG: usize = 256 << 10;

/// Takes tasks for an engine: those that wait, and those whose engine is dead.
#[derive(Debug, Clone)]
pub struct ClaimTasks {
    /// The engine.
    pub engine: EngineId,
    /// The instances that it serves.
    pub instances: Vec<InstanceId>,
    /// Tasks of these kinds.
    pub kinds: Vec<TaskKind>,
    /// At most so many.
    pub limit: u32,
    /// Now.
    pub now: Timestamp,
}

impl Command for ClaimTasks {
    type Output = Vec<Task>;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Vec<Task>, StoreError>> {
        const ALIVE: &str = "SELECT 1 FROM engines WHERE id = $1 AND lease_until >= $2";
        Box::pin(async move {
            let now = tx.database_now().await?;
            if tx.row(ALIVE, args![self.engine.to_string(), now]).await?.is_none() {
                return Ok(Vec::new());
            }
            let kinds: Vec<String> = self.kinds.iter().map(|kind| format!("'{kind}'")).collect();
            let mut row = args![now, self.now, TaskStatus::Ready.as_str(), TaskStatus::Running.as_str()];
            let instances: Vec<String> = self
                .instances
                .iter()
                .map(|instance| {
                    row.push(Value::Text(Some(instance.as_str().to_owned())));
                    format!("${}", row.len())
                })
                .collect();
            if instances.is_empty() || kinds.is_empty() {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT {} FROM tasks WHERE ended_at IS NULL AND kind IN ({}) AND instance IN ({}) \
                 AND (not_before IS NULL OR not_before <= $2) AND (status = $3 OR (status = $4 \
                 AND NOT EXISTS (SELECT 1 FROM engines e WHERE e.id = tasks.owner AND e.lease_until >= $1))) \
                 ORDER BY created_at, id LIMIT {}{}",
                tasks::COLUMNS.join(", "),
                kinds.join(", "),
                instances.join(", "),
                self.limit,
                tx.dialect().skip_locked(),
            );
            let rows = tx.rows(sql, row).await?;
            let mut claimed = Vec::with_capacity(rows.len());
            for row in &rows {
                claimed.push(self.take(tx, tasks::read_at(row, 0)?).await?);
            }
            Ok(claimed)
        })
    }
}

impl ClaimTasks {
    async fn take(&self, tx: &mut Transaction<'_>, mut task: Task) -> Result<Task, StoreError> {
        const TAKE: &str = "UPDATE tasks SET status = $2, status_reason = $3, owner = $4, fence = $5, \
                            started_at = coalesce(started_at, $6), tries = tries + 1, not_before = NULL WHERE id = $1";
        task.status = TaskStatus::Running;
        "It is being done.".clone_into(&mut task.status_reason);
        task.owner = Some(self.engine);
        task.fence = Fence(tx.next_fence().await?);
        task.started_at = task.started_at.or(Some(self.now));
        task.tries += 1;
        let row = args![
            task.id.to_string(),
            task.status.as_str(),
            &task.status_reason,
            self.engine.to_string(),
            task.fence.0,
            self.now,
        ];
        tx.execute(TAKE, row).await?;
        Ok(task)
    }
}

/// Proof that a task is this engine's: without the latest fence nothing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskTicket {
    /// The task.
    pub task: TaskId,
    /// The engine.
    pub engine: EngineId,
    /// The fence drawn when it took the task.
    pub fence: Fence,
}

/// The next state of a task.
#[derive(Debug, Clone)]
pub enum TaskProgress {
    /// It is still being done.
    Running,
    /// It is still being done, and has reached something.
    Reached {
        /// The reason of the status.
        reason: String,
        /// The outputs so far, which an engine that takes the task over reads.
        outputs: Json,
    },
    /// It is tried again, not before a moment.
    Requeue {
        /// The time.
        not_before: Option<Timestamp>,
        /// The reason.
        reason: String,
    },
    /// It has ended.
    End {
        /// SUCCEEDED, FAILED or CANCELLED.
        status: TaskStatus,
        /// The reason.
        reason: String,
        /// The outputs.
        outputs: Json,
    },
}

/// Writes how a task goes on, and what it has logged since.
#[derive(Debug, Clone)]
pub struct RecordTask {
    /// Proof that the task is ours.
    pub ticket: TaskTicket,
    /// The next state.
    pub progress: TaskProgress,
    /// The lines that it logged since the last time.
    pub log: String,
    /// Events to record.
    pub events: Vec<Event>,
    /// Now.
    pub now: Timestamp,
}

/// Whether a task that was recorded is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRecorded {
    /// It is.
    Ours,
    /// It was cancelled.
    Cancelled,
    /// Another engine has it, or it has ended.
    Lost,
}

impl Command for RecordTask {
    type Output = TaskRecorded;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<TaskRecorded, StoreError>> {
        Box::pin(async move {
            let TaskTicket { task, engine, fence } = self.ticket;
            let mut row = args![
                task.to_string(),
                engine.to_string(),
                fence.0,
                TaskStatus::Running.as_str(),
                &self.log,
            ];
            let kept = match tx.dialect() {
                crate::Dialect::Sqlite => format!("substr(log || $5, -{LONGEST_LOG})"),
                crate::Dialect::Postgres => format!("right(log || $5, {LONGEST_LOG})"),
            };
            let mut set = vec![format!("log = {kept}")];
            match &self.progress {
                TaskProgress::Running => {}
                TaskProgress::Reached { reason, outputs } => {
                    row.extend(args![reason, json(outputs)]);
                    set.push("status_reason = $6, outputs = $7".to_owned());
                }
                TaskProgress::Requeue { not_before, reason } => {
                    row.extend(args![TaskStatus::Ready.as_str(), reason, *not_before]);
                    set.push("status = $6, status_reason = $7, not_before = $8, owner = NULL".to_owned());
                }
                TaskProgress::End { status, reason, outputs } => {
                    row.extend(args![status.as_str(), reason, json(outputs), self.now]);
                    set.push("status = $6, status_reason = $7, outputs = $8, ended_at = $9".to_owned());
                }
            }
            let sql = format!(
                "UPDATE tasks SET {} WHERE id = $1 AND owner = $2 AND fence = $3 AND status = $4 RETURNING cancelled",
                set.join(", ")
            );
            let Some(written) = tx.update(sql, row).await? else { return Ok(TaskRecorded::Lost) };
            events::insert(tx, &self.events).await?;
            match self.progress {
                TaskProgress::Running => {}
                TaskProgress::Reached { .. } | TaskProgress::Requeue { .. } => tx.touch(Touched::Tasks),
                // Actions may have waited for it.
                TaskProgress::End { .. } => {
                    tx.touch(Touched::Tasks);
                    tx.touch(Touched::Work);
                }
            }
            Ok(if written.bool(0)? { TaskRecorded::Cancelled } else { TaskRecorded::Ours })
        })
    }
}

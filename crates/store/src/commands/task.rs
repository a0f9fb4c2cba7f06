//! The commands for tasks, which one engine at a time claims, and another takes over when that engine dies.

use futures::future::BoxFuture;
use muster_core::action::Fence;
use muster_core::event::Event;
use muster_core::ids::{EngineId, InstanceId, TaskId};
use muster_core::task::{Task, TaskKind, TaskStatus};
use muster_core::time::Timestamp;
use serde_json::Value as Json;

use super::claim::UNREADABLE_DEFERRED_FOR;
use crate::error::StoreError;
use crate::rows::{events, tasks};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{Value, args, json};

/// The largest number of characters of a log; older output is dropped.
const LONGEST_LOG: usize = 256 << 10;

/// Claims tasks for an engine: READY ones, and those whose engine is dead.
#[derive(Debug, Clone)]
pub struct ClaimTasks {
    /// The engine.
    pub engine: EngineId,
    /// The instances that it serves.
    pub instances: Vec<InstanceId>,
    /// The kinds of tasks that it can execute.
    pub kinds: Vec<TaskKind>,
    /// The tasks that the engine runs, if it may own others: those are claimed again. A claim may have been committed
    /// although the call failed.
    pub running: Option<Vec<TaskId>>,
    /// The largest number of rows.
    pub limit: u32,
    /// The present time.
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
            let orphaned = self.orphaned(&mut row);
            let sql = format!(
                "SELECT {} FROM tasks WHERE ended_at IS NULL AND kind IN ({}) AND instance IN ({}) \
                 AND (not_before IS NULL OR not_before <= $2) AND (status = $3 OR (status = $4 \
                 AND (NOT EXISTS (SELECT 1 FROM engines e WHERE e.id = tasks.owner AND e.lease_until >= $1) \
                 OR ({orphaned})))) ORDER BY created_at, id LIMIT {}{}",
                tasks::COLUMNS.join(", "),
                kinds.join(", "),
                instances.join(", "),
                self.limit,
                tx.dialect().skip_locked(),
            );
            let rows = tx.rows(sql, row).await?;
            let mut claimed = Vec::with_capacity(rows.len());
            for row in &rows {
                match tasks::read_at(row, 0) {
                    Ok(task) => claimed.push(self.claim_task(tx, task).await?),
                    Err(error) => self.defer(tx, row.text(0)?, &error).await?,
                }
            }
            Ok(claimed)
        })
    }
}

impl ClaimTasks {
    /// Returns the condition of tasks that the engine owns and does not run.
    fn orphaned(&self, row: &mut Vec<Value>) -> String {
        let Some(running) = &self.running else { return "1 = 0".to_owned() };
        let mut parameter = |id: String| {
            row.push(Value::Text(Some(id)));
            format!("${}", row.len())
        };
        let owner = parameter(self.engine.to_string());
        let running: Vec<String> = running.iter().map(|task| parameter(task.to_string())).collect();
        if running.is_empty() {
            format!("owner = {owner}")
        } else {
            format!("owner = {owner} AND id NOT IN ({})", running.join(", "))
        }
    }

    /// Defers a task whose row cannot be read, with the reason: it must not block the others, and another version may be
    /// able to read it.
    async fn defer(
        &self,
        tx: &mut Transaction<'_>,
        id: String,
        error: &StoreError,
    ) -> Result<(), StoreError> {
        const DEFER: &str = "UPDATE tasks SET not_before = $2, status_reason = $3 WHERE id = $1";
        tracing::error!(task = id, %error, "deferred a task: its row cannot be read");
        let reason = format!("The task cannot be run, because its row cannot be read: {error}");
        tx.execute(DEFER, args![id, self.now.after(UNREADABLE_DEFERRED_FOR), reason]).await?;
        Ok(())
    }

    async fn claim_task(&self, tx: &mut Transaction<'_>, mut task: Task) -> Result<Task, StoreError> {
        const CLAIM: &str = "UPDATE tasks SET status = $2, status_reason = $3, owner = $4, fence = $5, \
                            started_at = coalesce(started_at, $6), tries = tries + 1, not_before = NULL WHERE id = $1";
        task.status = TaskStatus::Running;
        // A task that has an intermediate result is taken over: its status reason still holds.
        if task.outputs.is_null() {
            "An engine has claimed it.".clone_into(&mut task.status_reason);
        }
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
        tx.execute(CLAIM, row).await?;
        Ok(task)
    }
}

/// Proof that this engine has claimed a task: a write with an outdated fence is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskTicket {
    /// The task.
    pub task: TaskId,
    /// The engine.
    pub engine: EngineId,
    /// The fence that was drawn by the claim.
    pub fence: Fence,
}

/// The next state of a task.
#[derive(Debug, Clone)]
pub enum TaskProgress {
    /// The task is still running.
    Running,
    /// The task is still running, and has reached an intermediate result.
    Reached {
        /// The reason of the status.
        reason: String,
        /// The outputs so far, which an engine that takes the task over reads.
        outputs: Json,
    },
    /// The task is claimed again, not before a given time.
    Requeue {
        /// The earliest time of the next claim.
        not_before: Option<Timestamp>,
        /// The reason.
        reason: String,
    },
    /// The task has ended.
    End {
        /// SUCCEEDED, FAILED or CANCELLED.
        status: TaskStatus,
        /// The reason.
        reason: String,
        /// The outputs.
        outputs: Json,
    },
}

/// Records the progress of a task and its new log lines.
#[derive(Debug, Clone)]
pub struct RecordTask {
    /// Proof that this engine has claimed the task.
    pub ticket: TaskTicket,
    /// The next state.
    pub progress: TaskProgress,
    /// The lines that were logged since the last record.
    pub log: String,
    /// The events to record.
    pub events: Vec<Event>,
    /// The present time.
    pub now: Timestamp,
}

/// The outcome of [`RecordTask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRecorded {
    /// The task is still claimed by this engine.
    Ours,
    /// A cancellation of the task was requested.
    Cancelled,
    /// Another engine has claimed the task, or it has ended.
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
                TaskProgress::Reached { .. } => tx.touch(Touched::Task(task)),
                TaskProgress::Requeue { .. } => {
                    tx.touch(Touched::Task(task));
                    tx.touch(Touched::Tasks);
                }
                // Actions may have waited for the task.
                TaskProgress::End { .. } => {
                    tx.touch(Touched::Task(task));
                    tx.touch(Touched::Work);
                }
            }
            Ok(if written.bool(0)? { TaskRecorded::Cancelled } else { TaskRecorded::Ours })
        })
    }
}

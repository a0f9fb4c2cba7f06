//! The command that claims actions: READY ones, and those whose engine is dead.

mod choose;

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionKind, ActionStatus, Target};
use muster_core::cluster::ClusterStatus;
use muster_core::ids::{ClusterId, EngineId, InstanceId};
use muster_core::task::TaskStatus;
use muster_core::time::{TimeSpan, Timestamp};

use self::choose::of_actions;
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::reads::ClusterWithProfile;
use crate::rows::{actions, clusters};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{Row, args};

/// Claims actions for an engine, with the locks that they need.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The engine that claims.
    pub engine: EngineId,
    /// The provider instances that it serves.
    pub instances: Vec<InstanceId>,
    /// The kinds of actions that it can execute, with the highest version of each.
    pub kinds: Vec<(ActionKind, u32)>,
    /// The largest number of actions to claim.
    pub limit: u32,
    /// The present time.
    pub now: Timestamp,
}

/// An action that was claimed by this engine.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The action, with its new fence.
    pub action: Action,
    /// True if the action had been started before, by another engine or by this one.
    pub taken_over: bool,
    /// The number of consecutive engines that died while they ran the action, without a commit of it.
    pub deaths: u32,
    /// The subject of the action at the time of the claim.
    pub subject: Option<ClusterWithProfile>,
    /// The reason why a task that the action waited for did not succeed.
    pub failed_task: Option<String>,
}

/// The condition of the index of open actions, word for word: otherwise SQLite does not use the index, and scans all of
/// history.
const OPEN: &str = "a.status IN ('READY', 'RUNNING', 'WAITING', 'SUSPENDED', 'INIT', 'WAITING_LIFECYCLE_COMPLETION') \
                    AND a.parent_id IS NULL";

/// The pause before an action or a task with an unreadable row is claimed again.
pub(super) const UNREADABLE_DEFERRED_FOR: TimeSpan = TimeSpan::from_secs(60);

/// The condition of the index of running actions by their engines, word for word.
pub(super) const RUNNING: &str = "a.status = 'RUNNING' AND a.parent_id IS NULL";

impl Command for Claim {
    type Output = Vec<Claimed>;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Vec<Claimed>, StoreError>> {
        Box::pin(async move {
            if self.instances.is_empty() || self.kinds.is_empty() {
                return Ok(Vec::new());
            }
            let mut claimed = Vec::new();
            for action in self.abandoned(tx).await? {
                if !reach_cluster(tx, &action).await? {
                    continue;
                }
                claimed.push(self.claim_action(tx, action, true).await?);
            }
            let mut left = usize::try_from(self.limit).unwrap_or(usize::MAX).saturating_sub(claimed.len());
            while left > 0 {
                let chosen = self.waiting(tx, left).await?;
                let mut taken = 0;
                for action in &chosen {
                    if lock(tx, action).await? {
                        // A requeued or resumed action is READY like a new one, and was started before.
                        let taken_over = action.started_at.is_some();
                        claimed.push(self.claim_action(tx, action.clone(), taken_over).await?);
                        taken += 1;
                    }
                }
                // Actions that could not be locked may have hidden others whose targets are free: choose again.
                if taken == 0 || taken == chosen.len() {
                    break;
                }
                left -= taken;
            }
            add_subjects(tx, &mut claimed).await?;
            add_failed_tasks(tx, &mut claimed).await?;
            Ok(claimed)
        })
    }
}

impl Claim {
    /// The actions of engines whose lease has expired. The actions still hold their locks.
    async fn abandoned(&self, tx: &mut Transaction<'_>) -> Result<Vec<Action>, StoreError> {
        let now = tx.database_now().await?;
        let (rest, arguments) = self.choose_abandoned(of_actions(tx), now);
        let rows = tx.rows(actions::select(&rest), arguments).await?;
        // If this engine's own lease has expired, its claims would be taken over at once.
        if rows.is_empty() || !self.is_alive(tx, now).await? {
            return Ok(Vec::new());
        }
        self.readable(tx, rows).await
    }

    /// Reads actions. An unreadable one is deferred for a while, with the reason: it must not block the others, and
    /// another version may be able to read it.
    async fn readable(&self, tx: &mut Transaction<'_>, rows: Vec<Row>) -> Result<Vec<Action>, StoreError> {
        const DEFER: &str = "UPDATE actions SET not_before = $2, status_reason = $3 WHERE id = $1";
        let mut readable = Vec::with_capacity(rows.len());
        for row in rows {
            match actions::read(&row) {
                Ok(action) => readable.push(action),
                Err(error) => {
                    let id = row.text(0)?;
                    tracing::error!(action = id, %error, "deferred an action: its row cannot be read");
                    let reason = format!("The action cannot be run, because its row cannot be read: {error}");
                    tx.execute(DEFER, args![id, self.now.after(UNREADABLE_DEFERRED_FOR), reason]).await?;
                }
            }
        }
        Ok(readable)
    }

    async fn is_alive(&self, tx: &mut Transaction<'_>, now: i64) -> Result<bool, StoreError> {
        const ALIVE: &str = "SELECT 1 FROM engines WHERE id = $1 AND lease_until >= $2";
        Ok(tx.row(ALIVE, args![self.engine.to_string(), now]).await?.is_some())
    }

    async fn claim_action(
        &self,
        tx: &mut Transaction<'_>,
        mut action: Action,
        taken_over: bool,
    ) -> Result<Claimed, StoreError> {
        const CLAIM: &str = "UPDATE actions SET status = $2, status_reason = $3, owner = $4, fence = $5, \
                            started_at = coalesce(started_at, $6), updated_at = $6, not_before = NULL, \
                            deaths = deaths + $7 WHERE id = $1 RETURNING deaths";
        let died = action.status == ActionStatus::Running;
        let fence = tx.next_fence().await?;
        action.status = ActionStatus::Running;
        "The action is being processed.".clone_into(&mut action.status_reason);
        action.owner = Some(self.engine);
        action.fence = muster_core::action::Fence(fence);
        action.started_at = action.started_at.or(Some(self.now));
        action.updated_at = self.now;
        let row = args![
            action.id.to_string(),
            action.status.as_str(),
            &action.status_reason,
            self.engine.to_string(),
            fence,
            self.now,
            died,
        ];
        let taken = tx.update(CLAIM, row).await?;
        let deaths = taken.map_or(Ok(0), |row| row.number(0))?;
        if let (Some(id), Some(status)) = (action.cluster_id, ClusterStatus::during(action.kind)) {
            // A creation that was superseded continues as the later change.
            const SHOW: &str = "UPDATE clusters SET status = CASE WHEN status = 'CREATING' \
                                AND $2 IN ('RESIZING', 'UPDATING') THEN status ELSE $2 END, \
                                fence = $3, change = $4, updated_at = $5, \
                                status_reason = coalesce($6, status_reason) WHERE id = $1 AND deleted_at IS NULL";
            let change = tx.change().await?;
            let reason = ClusterStatus::reason_during(action.kind).map(str::to_owned);
            let row = args![id.to_string(), status.as_str(), fence, change, self.now, reason];
            tx.execute(SHOW, row).await?;
            tx.touch(Touched::Cluster(id));
        }
        // The engine that had claimed the action before is notified that it has lost it.
        let touched = if taken_over { Touched::Action } else { Touched::Progress };
        tx.touch(touched(action.id));
        Ok(Claimed { action, taken_over, deaths, subject: None, failed_task: None })
    }
}

/// Adds the subjects, which every run would have to read first. Unreadable rows are left to the runs, so that they
/// affect no other action.
async fn add_subjects(tx: &mut Transaction<'_>, claimed: &mut [Claimed]) -> Result<(), StoreError> {
    let ids: Vec<ClusterId> = claimed.iter().filter_map(|claimed| claimed.action.cluster_id).collect();
    let subjects = match clusters::subjects(tx, &ids).await {
        Err(StoreError::Corrupt(_)) => return Ok(()),
        other => other?,
    };
    for claimed in claimed {
        claimed.subject = claimed.action.cluster_id.and_then(|id| subjects.get(&id).cloned());
    }
    Ok(())
}

/// Adds the reasons of tasks that the actions waited for and that did not succeed.
async fn add_failed_tasks(tx: &mut Transaction<'_>, claimed: &mut [Claimed]) -> Result<(), StoreError> {
    // No other kind of action waits for tasks.
    let creates = claimed.iter().filter(|claimed| claimed.action.kind == ActionKind::ClusterCreate);
    let ids: Vec<_> = creates.map(|claimed| claimed.action.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let (these, ids) = tx.dialect().any_of("w.action_id", "$1", &ids);
    let sql = format!(
        "SELECT w.action_id, t.status_reason FROM task_waits w JOIN tasks t ON t.id = w.task_id \
         WHERE {these} AND t.status <> $2"
    );
    for row in tx.rows(sql, args![ids, TaskStatus::Succeeded.as_str()]).await? {
        let (action, reason) = (row.parse(0)?, row.text(1)?);
        for claimed in claimed.iter_mut().filter(|claimed| claimed.action.id == action) {
            claimed.failed_task = Some(reason.clone());
        }
    }
    Ok(())
}

/// Notifies dispatchers once a lock is released, if anything may have waited for it.
pub(super) async fn notify_waiting(tx: &mut Transaction<'_>) -> Result<(), StoreError> {
    let sql = format!("SELECT 1 FROM actions a WHERE {OPEN} AND a.status = $1 LIMIT 1");
    if tx.row(sql, args![ActionStatus::Ready.as_str()]).await?.is_some() {
        tx.touch(Touched::Work);
    }
    Ok(())
}

/// Locks the row of the cluster or of an orphan; returns false if another transaction has locked it. That transaction
/// may be about to write the action, so that waiting could deadlock. The action is left to the next claim.
async fn reach_cluster(tx: &mut Transaction<'_>, action: &Action) -> Result<bool, StoreError> {
    if tx.dialect() == Dialect::Sqlite {
        return Ok(true);
    }
    let (table, id) = match (action.cluster_id, action.target) {
        (Some(cluster), _) | (None, Target::Cluster(cluster)) => ("clusters", cluster.to_string()),
        // A join checks whether an action holds the node.
        (None, Target::Node(node)) => ("nodes", node.to_string()),
        // Such an action is never chosen.
        (None, Target::Unknown(_)) => return Ok(false),
    };
    let sql = format!("SELECT id FROM {table} WHERE id = $1{}", tx.dialect().skip_locked());
    if tx.row(sql, args![&id]).await?.is_some() {
        return Ok(true);
    }
    // An action whose row is missing is claimed all the same, so that its run can end it.
    let sql = format!("SELECT id FROM {table} WHERE id = $1");
    Ok(tx.row(sql, args![id]).await?.is_none())
}

/// Locks the action's target: its cluster exclusively, or its node exclusively and the node's cluster in shared mode.
///
/// Locks may have been taken since the action was chosen: by another engine on PostgreSQL, or for earlier actions of
/// the same claim.
async fn lock(tx: &mut Transaction<'_>, action: &Action) -> Result<bool, StoreError> {
    const CLAIM: &str = "INSERT INTO locks (target, action_id, exclusive) VALUES ($1, $2, $3) \
                        ON CONFLICT (target, action_id) DO NOTHING";
    let id = action.id.to_string();
    let wanted: Vec<(String, bool)> = match (action.target, action.cluster_id) {
        (Target::Cluster(cluster), _) => vec![(cluster.to_string(), true)],
        (Target::Node(node), Some(cluster)) => {
            let alone = action.kind.locks_cluster();
            vec![(cluster.to_string(), alone), (node.to_string(), true)]
        }
        (Target::Node(node), None) => vec![(node.to_string(), true)],
        // Such an action is never chosen.
        (Target::Unknown(_), _) => return Ok(false),
    };
    if !reach_cluster(tx, action).await? {
        return Ok(false);
    }
    for (target, exclusive) in &wanted {
        const HELD: &str =
            "SELECT 1 FROM locks WHERE target = $1 AND action_id <> $2 AND (exclusive = 1 OR $3 = 1) LIMIT 1";
        if tx.row(HELD, args![target, &id, i64::from(*exclusive)]).await?.is_some() {
            return Ok(false);
        }
    }
    for (target, exclusive) in wanted {
        tx.execute(CLAIM, args![target, &id, exclusive]).await?;
    }
    Ok(true)
}

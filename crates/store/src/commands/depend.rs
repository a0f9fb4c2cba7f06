//! Actions that wait for others: woken by their success, ended by their failure.

use muster_core::action::{Action, ActionStatus};
use muster_core::ids::ActionId;
use muster_core::time::Timestamp;

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::transaction::{Touched, Transaction};
use crate::value::args;

/// Puts an action where that leaves it which it waits for: waiting, free to run, or failed.
pub(super) async fn settle(
    tx: &mut Transaction<'_>,
    mut action: Action,
    depends_on: &[ActionId],
) -> Result<Action, StoreError> {
    let mut open = false;
    for dependency in depends_on {
        let (status, reason) = look_at(tx, *dependency).await?;
        match status {
            ActionStatus::Succeeded => {}
            ActionStatus::Failed | ActionStatus::Cancelled => {
                action.status = ActionStatus::Failed;
                action.status_reason = failure(*dependency, status, &reason);
                action.ended_at = Some(action.created_at);
                return Ok(action);
            }
            _ => open = true,
        }
    }
    if open {
        action.status = ActionStatus::Waiting;
        "Waiting for depended actions.".clone_into(&mut action.status_reason);
    } else if action.status == ActionStatus::Waiting {
        action.status = ActionStatus::Ready;
    }
    Ok(action)
}

/// Where a dependency stands. Locked on PostgreSQL: its end waits until this commit can be seen, or is seen here.
async fn look_at(tx: &mut Transaction<'_>, id: ActionId) -> Result<(ActionStatus, String), StoreError> {
    let sql = match tx.dialect() {
        Dialect::Sqlite => "SELECT status, status_reason FROM actions WHERE id = $1",
        Dialect::Postgres => "SELECT status, status_reason FROM actions WHERE id = $1 FOR SHARE",
    };
    let row = tx.row(sql, args![id.to_string()]).await?;
    let row = row.ok_or_else(|| StoreError::NotFound { kind: "action", given: id.to_string() })?;
    Ok((row.parse(0)?, row.text(1)?))
}

pub(super) async fn insert(
    tx: &mut Transaction<'_>,
    action: ActionId,
    depends_on: &[ActionId],
) -> Result<(), StoreError> {
    const DEPEND: &str = "INSERT INTO dependencies (action_id, depends_on) VALUES ($1, $2)";
    for dependency in depends_on {
        tx.execute(DEPEND, args![action.to_string(), dependency.to_string()]).await?;
    }
    Ok(())
}

/// Whether an action still has to wait for another one.
pub(super) async fn are_open(tx: &mut Transaction<'_>, id: ActionId) -> Result<bool, StoreError> {
    const OPEN: &str = "SELECT 1 FROM dependencies d JOIN actions a ON a.id = d.depends_on \
                        WHERE d.action_id = $1 AND a.ended_at IS NULL LIMIT 1";
    Ok(tx.row(OPEN, args![id.to_string()]).await?.is_some())
}

/// What waits for an action that ended: it goes on once all have succeeded, and fails with the first that has not.
pub(super) async fn ended(
    tx: &mut Transaction<'_>,
    id: ActionId,
    status: ActionStatus,
    reason: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    if status == ActionStatus::Succeeded {
        wake(tx, id, now).await
    } else {
        fail(tx, id, status, reason, now).await
    }
}

/// Makes those READY whose last dependency this was.
async fn wake(tx: &mut Transaction<'_>, ended: ActionId, now: Timestamp) -> Result<(), StoreError> {
    const WAKE: &str = "UPDATE actions SET status = $2, status_reason = $3, updated_at = $4 WHERE status = $5 AND id IN \
                        (SELECT action_id FROM dependencies WHERE depends_on = $1) AND NOT EXISTS \
                        (SELECT 1 FROM dependencies d JOIN actions a ON a.id = d.depends_on \
                        WHERE d.action_id = actions.id AND a.ended_at IS NULL) RETURNING id";
    if !lock_dependents(tx, ended).await? {
        return Ok(());
    }
    let (ready, waiting) = (ActionStatus::Ready.as_str(), ActionStatus::Waiting.as_str());
    let reason = "All depended actions completed.";
    for row in tx.rows(WAKE, args![ended.to_string(), ready, reason, now, waiting]).await? {
        tx.touch(Touched::Action(row.parse(0)?));
    }
    Ok(())
}

/// Whether anything waits for an action. On PostgreSQL two that end at the same moment do not see each other's end:
/// the second one stops here until it does.
async fn lock_dependents(tx: &mut Transaction<'_>, ended: ActionId) -> Result<bool, StoreError> {
    const FIND: &str = "SELECT id FROM actions WHERE id IN (SELECT action_id FROM dependencies WHERE depends_on = $1) ORDER BY id";
    let sql = format!("{FIND}{}", tx.dialect().for_update());
    Ok(!tx.rows(sql, args![ended.to_string()]).await?.is_empty())
}

/// Ends those that cannot begin any more, and those that wait for them in turn.
async fn fail(
    tx: &mut Transaction<'_>,
    ended: ActionId,
    status: ActionStatus,
    reason: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    const FAIL: &str = "UPDATE actions SET status = $2, status_reason = $3, ended_at = $4, updated_at = $4, suspended_at = NULL \
                        WHERE ended_at IS NULL AND started_at IS NULL AND id IN \
                        (SELECT action_id FROM dependencies WHERE depends_on = $1) RETURNING id";
    let mut causes = vec![(ended, failure(ended, status, reason))];
    while let Some((cause, reason)) = causes.pop() {
        let failed = ActionStatus::Failed;
        let rows = tx.rows(FAIL, args![cause.to_string(), failed.as_str(), &reason, now]).await?;
        for row in rows {
            let id = row.parse(0)?;
            causes.push((id, failure(id, failed, &reason)));
            tx.touch(Touched::Action(id));
        }
    }
    Ok(())
}

fn failure(dependency: ActionId, status: ActionStatus, reason: &str) -> String {
    format!("Action {dependency}, which it depends on, ended as {status}: {reason}")
}

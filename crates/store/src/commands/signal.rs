//! The command that sends a signal to an action: cancel, suspend or resume.

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionKind, ActionStatus, Control, Target};
use muster_core::cluster::ClusterStatus;
use muster_core::ids::ActionId;
use muster_core::node::NodeStatus;
use muster_core::time::Timestamp;

use crate::commands::accept::RequestKey;
use crate::error::StoreError;
use crate::rows::actions;
use crate::transaction::{Command, MANY, Touched, Transaction};
use crate::value::args;

/// A signal to an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalKind {
    /// End at the next step.
    Cancel,
    /// Stop at the next step. The action keeps its locks, and its timeout is paused.
    Suspend,
    /// Continue after a suspension.
    Resume,
}

/// Sends a signal to an action.
#[derive(Debug, Clone)]
pub struct Signal {
    /// The action.
    pub id: ActionId,
    /// The signal.
    pub kind: SignalKind,
    /// The present time.
    pub now: Timestamp,
    /// The caller's name for the request, which makes a repetition idempotent.
    pub request: Option<RequestKey>,
}

impl Command for Signal {
    type Output = Action;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Action, StoreError>> {
        Box::pin(async move {
            if let Some(key) = &self.request {
                if let Some(action) = key.find(tx).await? {
                    return Ok(action);
                }
                key.remember(tx, &self.id.to_string(), self.now).await?;
            }
            let action = find(tx, self.id).await?;
            let wrong =
                |wanted| StoreError::WrongState { id: self.id, status: action.status.as_str(), wanted };
            if action.status == ActionStatus::Cancelled && self.kind == SignalKind::Cancel {
                // A repeated cancel has no effect.
                return Ok(action);
            }
            if action.status.is_final() {
                return Err(wrong("it has ended and takes no more signals"));
            }
            if let Some(parent) = action.parent {
                signal_child(tx, &action, parent, self.kind, self.now).await?;
                return find(tx, self.id).await;
            }
            match (self.kind, action.status) {
                (SignalKind::Cancel, _) => {
                    cancel(tx, &action, self.now).await?;
                    settle_uncreated(tx, &action, self.now).await?;
                }
                (SignalKind::Suspend, ActionStatus::Suspended) => {}
                (SignalKind::Suspend, _) if action.control == Some(Control::Cancel) => {
                    return Err(wrong("it is being cancelled, and cannot be suspended any more"));
                }
                (SignalKind::Suspend, _) => suspend(tx, &action, self.now).await?,
                (SignalKind::Resume, ActionStatus::Suspended) => resume(tx, &action, self.now).await?,
                (SignalKind::Resume, _) if action.control == Some(Control::Suspend) => {
                    control(tx, &action, None, self.now).await?;
                }
                (SignalKind::Resume, _) => return Err(wrong("only a suspended action can be resumed")),
            }
            find(tx, self.id).await
        })
    }
}

async fn find(tx: &mut Transaction<'_>, id: ActionId) -> Result<Action, StoreError> {
    let rest = format!("WHERE a.id = $1{}", tx.dialect().for_update());
    let row = tx.row(actions::select(&rest), args![id.to_string()]).await?;
    let missing = || StoreError::NotFound { kind: "action", given: id.to_string() };
    actions::read(&row.ok_or_else(missing)?)
}

/// Signals a child action. Its parent runs it, so that it can be cancelled, but not suspended or resumed alone.
async fn signal_child(
    tx: &mut Transaction<'_>,
    child: &Action,
    parent: ActionId,
    kind: SignalKind,
    now: Timestamp,
) -> Result<(), StoreError> {
    let signalled = match kind {
        SignalKind::Cancel => {
            control(tx, child, Some(Control::Cancel), now).await?;
            // The engine that runs the parent is notified.
            tx.touch(Touched::Action(parent));
            return Ok(());
        }
        SignalKind::Suspend => "suspended",
        SignalKind::Resume => "resumed",
    };
    Err(StoreError::PartOf { id: child.id, parent, signalled })
}

/// Cancels an action for another one. Locks and reads its row again, because its engine may have suspended or ended it
/// since it was found.
pub(super) async fn preempt(
    tx: &mut Transaction<'_>,
    id: ActionId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let action = find(tx, id).await?;
    if action.status.is_final() { Ok(()) } else { cancel(tx, &action, now).await }
}

/// Signals an action to end once its change is applied, unless it has another signal already.
pub(super) async fn ask_to_yield(
    tx: &mut Transaction<'_>,
    id: ActionId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let action = find(tx, id).await?;
    if action.status.is_final() || action.control.is_some() {
        return Ok(());
    }
    control(tx, &action, Some(Control::Yield), now).await
}

/// Ends an action whose row cannot be read, and releases its locks. No engine runs it, because no engine can read it.
pub(super) async fn end_unreadable(
    tx: &mut Transaction<'_>,
    id: ActionId,
    now: Timestamp,
) -> Result<(), StoreError> {
    const END: &str = "UPDATE actions SET status = $2, status_reason = $3, ended_at = $4, updated_at = $4, owner = NULL \
                       WHERE id = $1";
    let reason = "The action was cancelled. Its row cannot be read.";
    tx.execute(END, args![id.to_string(), ActionStatus::Cancelled.as_str(), reason, now]).await?;
    tx.execute("DELETE FROM locks WHERE action_id = $1", args![id.to_string()]).await?;
    tx.touch(Touched::Action(id));
    Ok(())
}

/// Ends an action that was not started, or signals one that was.
async fn cancel(tx: &mut Transaction<'_>, action: &Action, now: Timestamp) -> Result<(), StoreError> {
    const END: &str =
        "UPDATE actions SET status = $2, status_reason = $3, ended_at = $4, updated_at = $4 WHERE id = $1";
    // A started action is ended by an engine, which leaves the target in a consistent state.
    if action.started_at.is_some() || is_of_newer_version(action.status) {
        control(tx, action, Some(Control::Cancel), now).await?;
        if action.status == ActionStatus::Suspended {
            resume(tx, action, now).await?;
        }
        return Ok(());
    }
    let reason = "Action execution cancelled";
    let status = ActionStatus::Cancelled.as_str();
    tx.execute(END, args![action.id.to_string(), status, reason, now]).await?;
    tx.execute("DELETE FROM locks WHERE action_id = $1", args![action.id.to_string()]).await?;
    tx.touch(Touched::Action(action.id));
    tx.touch(Touched::Work);
    Ok(())
}

/// Sets the cluster or node of a cancelled creation to ERROR if the creation was not started: no engine would ever
/// update its status. A started creation is cleaned up by its engine.
async fn settle_uncreated(
    tx: &mut Transaction<'_>,
    action: &Action,
    now: Timestamp,
) -> Result<(), StoreError> {
    const CLUSTER: &str = "UPDATE clusters SET status = $2, status_reason = $3, updated_at = $4, change = $6 \
                           WHERE id = $1 AND status = $5 AND deleted_at IS NULL";
    const NODE: &str =
        "UPDATE nodes SET status = $2, status_reason = $3, updated_at = $4 WHERE id = $1 AND status = $5";
    let reason = "its creation was cancelled before it began: recover or delete it";
    if action.started_at.is_some() {
        return Ok(());
    }
    match (action.kind, action.target) {
        (ActionKind::ClusterCreate, Target::Cluster(id)) => {
            let (error, init) = (ClusterStatus::Error.as_str(), ClusterStatus::Init.as_str());
            let change = tx.change().await?;
            tx.execute(CLUSTER, args![id.to_string(), error, reason, now, init, change]).await?;
            tx.touch(Touched::Cluster(id));
        }
        (ActionKind::NodeCreate, Target::Node(id)) => {
            let (error, init) = (NodeStatus::Error.as_str(), NodeStatus::Init.as_str());
            tx.execute(NODE, args![id.to_string(), error, reason, now, init]).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Returns true if only a newer version knows the status: the signal is recorded, and the status is left to engines of
/// that version.
const fn is_of_newer_version(status: ActionStatus) -> bool {
    matches!(status, ActionStatus::Unknown(_))
}

async fn suspend(tx: &mut Transaction<'_>, action: &Action, now: Timestamp) -> Result<(), StoreError> {
    const SUSPEND: &str = "UPDATE actions SET status = $2, suspended_at = $3, updated_at = $3 WHERE id = $1";
    if action.status == ActionStatus::Running || is_of_newer_version(action.status) {
        return control(tx, action, Some(Control::Suspend), now).await;
    }
    tx.execute(SUSPEND, args![action.id.to_string(), ActionStatus::Suspended.as_str(), now]).await?;
    tx.touch(Touched::Action(action.id));
    Ok(())
}

async fn resume(tx: &mut Transaction<'_>, action: &Action, now: Timestamp) -> Result<(), StoreError> {
    const RESUME: &str = "UPDATE actions SET status = $2, updated_at = $3, suspended_at = NULL, not_before = NULL, \
                          suspended_for = suspended_for + ($3 - coalesce(suspended_at, $3)) WHERE id = $1";
    tx.execute(RESUME, args![action.id.to_string(), ActionStatus::Ready.as_str(), now]).await?;
    show_children(tx, action.id, ActionStatus::Suspended, ActionStatus::Running, now).await?;
    tx.touch(Touched::Action(action.id));
    tx.touch(Touched::Work);
    Ok(())
}

/// Suspends or resumes the child actions of an action together with it.
pub(super) async fn show_children(
    tx: &mut Transaction<'_>,
    parent: ActionId,
    from: ActionStatus,
    to: ActionStatus,
    now: Timestamp,
) -> Result<(), StoreError> {
    const SHOW: &str = "UPDATE actions SET status = $3, updated_at = $4 WHERE parent_id = $1 AND status = $2";
    tx.execute(SHOW, args![parent.to_string(), from.as_str(), to.as_str(), now]).await?;
    Ok(())
}

async fn control(
    tx: &mut Transaction<'_>,
    action: &Action,
    control: Option<Control>,
    now: Timestamp,
) -> Result<(), StoreError> {
    // Clears the back-off, so that the action follows the signal at once.
    const SIGNAL: &str = "UPDATE actions SET control = $2, updated_at = $3, not_before = NULL WHERE id = $1";
    let word = control.map(|control| control.as_str().to_owned());
    tx.execute(SIGNAL, args![action.id.to_string(), word, now]).await?;
    tx.touch(Touched::Action(action.id));
    if action.status == ActionStatus::Ready {
        tx.touch(Touched::Work);
    }
    Ok(())
}

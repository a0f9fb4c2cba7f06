//! Parts of an action that wait for `complete_lifecycle` before their nodes are removed.

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionStatus};
use muster_core::ids::ActionId;
use muster_core::time::Timestamp;

use super::Ticket;
use crate::error::StoreError;
use crate::rows::actions;
use crate::transaction::{Command, MANY, Touched, Transaction};
use crate::value::args;

/// The status reason of a child action that may continue.
const REASON: &str = "The action is ready.";

/// Continues the child action with this token. A repetition, or a token of an action that does not wait, has no effect.
#[derive(Debug, Clone)]
pub struct CompleteLifecycle {
    /// The part.
    pub token: ActionId,
    /// Now.
    pub now: Timestamp,
}

impl Command for CompleteLifecycle {
    type Output = Action;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Action, StoreError>> {
        const RELEASE: &str = "UPDATE actions SET status = $3, status_reason = $4, updated_at = $5 \
                               WHERE id = $1 AND status = $2";
        Box::pin(async move {
            let id = self.token.to_string();
            let missing = || StoreError::NotFound { kind: "action", given: self.token.to_string() };
            let row = tx.row(actions::select("WHERE a.id = $1"), args![&id]).await?.ok_or_else(missing)?;
            let action = actions::read(&row)?;
            let (waiting, ready) = (ActionStatus::WaitingLifecycleCompletion, ActionStatus::Ready);
            if action.status != waiting {
                return Ok(action);
            }
            tx.execute(RELEASE, args![id, waiting.as_str(), ready.as_str(), REASON, self.now]).await?;
            tx.touch(Touched::Action(self.token));
            if let Some(parent) = action.parent {
                tx.touch(Touched::Action(parent));
            }
            Ok(Action { status: ready, status_reason: REASON.to_owned(), ..action })
        })
    }
}

/// All parts of an action that still wait do so no longer.
#[derive(Debug, Clone)]
pub struct EndWait {
    /// Proof that the action is ours.
    pub ticket: Ticket,
    /// Now.
    pub now: Timestamp,
}

impl Command for EndWait {
    type Output = ();

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const OURS: &str =
            "SELECT 1 FROM actions WHERE id = $1 AND owner = $2 AND fence = $3 AND status = $4";
        const RELEASE: &str = "UPDATE actions SET status = $3, status_reason = $4, updated_at = $5 \
                               WHERE parent_id = $1 AND status = $2";
        Box::pin(async move {
            let Ticket { action, engine, fence } = self.ticket;
            let running = ActionStatus::Running.as_str();
            let ours = tx.row(OURS, args![action.to_string(), engine.to_string(), fence.0, running]).await?;
            ours.ok_or(StoreError::Fenced(action))?;
            let (waiting, ready) = (ActionStatus::WaitingLifecycleCompletion, ActionStatus::Ready);
            let row = args![action.to_string(), waiting.as_str(), ready.as_str(), REASON, self.now];
            tx.execute(RELEASE, row).await?;
            tx.touch(Touched::Progress(action));
            Ok(())
        })
    }
}

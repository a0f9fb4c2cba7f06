//! The commands for child actions that wait for `complete_lifecycle` before their nodes are removed.

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
    /// The id of the child action.
    pub token: ActionId,
    /// The present time.
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

/// Ends the wait of all child actions of an action that still wait.
#[derive(Debug, Clone)]
pub struct EndWait {
    /// Proof that this engine has claimed the action.
    pub ticket: Ticket,
    /// The present time.
    pub now: Timestamp,
}

impl Command for EndWait {
    type Output = ();

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const RELEASE: &str = "UPDATE actions SET status = $3, status_reason = $4, updated_at = $5 \
                               WHERE parent_id = $1 AND status = $2";
        Box::pin(async move {
            self.ticket.check(tx).await?;
            let action = self.ticket.action;
            let (waiting, ready) = (ActionStatus::WaitingLifecycleCompletion, ActionStatus::Ready);
            let row = args![action.to_string(), waiting.as_str(), ready.as_str(), REASON, self.now];
            tx.execute(RELEASE, row).await?;
            tx.touch(Touched::Progress(action));
            Ok(())
        })
    }
}

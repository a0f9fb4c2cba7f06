//! Reasons why an action stops, and messages about the results of nodes.

use muster_core::action::{ActionStatus, Fence};
use muster_store::StoreError;
use muster_store::commands::ActionEnd;

use crate::intent::IntentError;
use crate::ports::provider::ProviderError;

/// The most reasons that a failed action names; the rest are counted.
const NAMED_REASONS: usize = 3;

/// The reason why an action stops without having reached its goal.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A user cancelled the action.
    Cancelled,
    /// The change is applied, and a later change waits for the cluster.
    Superseded,
    /// A user suspended the action.
    Suspended,
    /// The action took longer than its timeout, or a step longer than its deadline.
    TimedOut,
    /// This engine is stopping; another engine continues the action.
    HandOver,
    /// Another engine owns the action, or may own it by now.
    Fenced,
    /// The action cannot succeed.
    Failed(String),
    /// The provider is not able to do this now; the action is requeued with a back-off.
    Requeue(String),
    /// The target has seen a higher fence: another engine owns the action, or the database was restored from an older
    /// copy. The action is requeued, and the database draws only fences above this one.
    Overtaken(Fence),
    /// The database did not answer; the engine reads the action again and retries it.
    StoreUnavailable(#[expect(dead_code, reason = "shown in the log, by Debug")] String),
}

impl From<IntentError> for Stop {
    fn from(error: IntentError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced(_) => Self::Fenced,
            error if error.is_transient() => Self::StoreUnavailable(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<ProviderError> for Stop {
    fn from(error: ProviderError) -> Self {
        match error.overtaken_by {
            Some(fence) => Self::Overtaken(fence),
            None if error.transient => Self::Requeue(error.message),
            None => Self::Failed(error.message),
        }
    }
}

/// Returns the end of a child action that succeeded.
pub(crate) fn succeeded(reason: &str) -> ActionEnd {
    ActionEnd { status: ActionStatus::Succeeded, reason: reason.to_owned() }
}

/// Joins the first few reasons: those of a thousand nodes are rarely a thousand different ones.
pub(crate) fn summarize(reasons: &[String]) -> String {
    let named = reasons.iter().take(NAMED_REASONS).cloned().collect::<Vec<_>>().join("; ");
    match reasons.len().saturating_sub(NAMED_REASONS) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

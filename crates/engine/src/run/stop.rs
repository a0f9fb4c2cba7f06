//! Why an action stops, and messages about results of nodes.

use muster_core::action::{ActionStatus, Fence};
use muster_store::StoreError;
use muster_store::commands::End;

use crate::intent::IntentError;
use crate::ports::provider::ProviderError;

/// How many reasons an action names that fails; the rest are counted.
const NAMED_REASONS: usize = 3;

/// Why an action stops, other than by reaching its goal.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A user cancelled it.
    Cancelled,
    /// Its change is applied, and a later change waits for the cluster.
    Superseded,
    /// A user suspended it.
    Suspended,
    /// It took longer than its timeout.
    TimedOut,
    /// This engine is stopping; another one continues.
    HandOver,
    /// Another engine owns it.
    Fenced,
    /// It cannot succeed.
    Failed(String),
    /// The provider cannot do it now; the action is requeued with a back-off.
    Requeue(String),
    /// A higher fence was there before: another engine has the action, or the database was restored from an older copy.
    /// In that case its fences are raised, and the action is requeued to draw another one.
    Overtaken(Fence),
    /// The database did not answer; the action is read again and retried.
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

/// The end of a child action that succeeded.
pub(crate) fn succeeded(reason: &str) -> End {
    End { status: ActionStatus::Succeeded, reason: reason.to_owned() }
}

/// The first few reasons: those of a thousand nodes are rarely a thousand different ones.
pub(crate) fn summarize(reasons: &[String]) -> String {
    let named = reasons.iter().take(NAMED_REASONS).cloned().collect::<Vec<_>>().join("; ");
    match reasons.len().saturating_sub(NAMED_REASONS) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

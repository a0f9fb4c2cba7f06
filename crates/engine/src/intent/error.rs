//! The error of a change that cannot be made.

use muster_core::resize::ResizeError;

/// The reason why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// The cluster has no such group; the text lists the groups that it has.
    #[error("group not found: use one of {0}")]
    UnknownGroup(String),
    /// A size or a bound of a group is out of range.
    #[error("{error}")]
    Size {
        /// The name of the group.
        group: String,
        /// The size or bound that is out of range.
        error: ResizeError,
    },
    /// The groups together have too many workers.
    #[error("the cluster would have {total} workers: must be at most {limit}")]
    TooManyWorkers {
        /// The number of workers of all groups.
        total: u32,
        /// The most workers that a cluster may have.
        limit: u32,
    },
}

/// Actions and policies store the message.
impl From<IntentError> for String {
    fn from(error: IntentError) -> Self {
        error.to_string()
    }
}

//! Why a change cannot be made.

use muster_core::resize::ResizeError;

/// Why there is no cluster after a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// The cluster has no such group; these are the ones that it has.
    #[error("there is no such group; there are: {0}")]
    UnknownGroup(String),
    /// A size or a bound of a group is out of range.
    #[error("{error}")]
    Size {
        /// The group.
        group: String,
        /// What is out of range.
        error: ResizeError,
    },
    /// The groups together have too many workers.
    #[error("{total} workers are more than the {limit} that a cluster may have: ask for less")]
    TooManyWorkers {
        /// How many they have.
        total: u32,
        /// How many a cluster may have.
        limit: u32,
    },
}

/// Actions and policies store the message.
impl From<IntentError> for String {
    fn from(error: IntentError) -> Self {
        error.to_string()
    }
}

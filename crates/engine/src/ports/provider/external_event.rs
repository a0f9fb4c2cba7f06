//! External events about a provider's objects.

use muster_core::time::Timestamp;
use uuid::Uuid;

/// An external event about an object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalEvent {
    /// The id; a repeated event keeps it.
    pub id: Uuid,
    /// Increases with every event and every repetition.
    pub version: u64,
    /// The kind of its object.
    pub kind: String,
    /// The name of its object.
    pub object: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// Worth attention.
    pub is_warning: bool,
    /// When it last happened.
    pub at: Timestamp,
}

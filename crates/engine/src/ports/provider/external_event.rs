//! Events that others write about a provider's objects.

use muster_core::time::Timestamp;
use uuid::Uuid;

/// An event that others wrote about an object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalEvent {
    /// Which event; the same one may happen again.
    pub id: Uuid,
    /// Rises with every event, and with every time that one happens again.
    pub version: u64,
    /// The kind of its object.
    pub kind: String,
    /// The name of its object.
    pub object: String,
    /// What happened, in a word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// Somebody may want to look.
    pub is_warning: bool,
    /// When it last happened.
    pub at: Timestamp,
}

//! Restarts of heads, as their actions record them.

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::time::Timestamp;

/// The longest time that a head may take to end when it is restarted, in seconds.
pub const HEAD_GRACE: u32 = 20;

/// The head that a restart replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedHead {
    /// The name of its pod, or of its node.
    pub name: String,
    /// The UID of its pod, or the id of its process.
    pub uid: String,
    /// The time before it was deleted.
    pub at: Timestamp,
}

impl ReplacedHead {
    /// The output of an action that has this.
    pub const OUTPUT: &str = "replaced_head";

    /// The head that an action replaces; none before it has begun to.
    pub fn of(action: &Action) -> Option<Self> {
        Self::deserialize(action.outputs.get(Self::OUTPUT)?).ok()
    }
}

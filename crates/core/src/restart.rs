//! The record of a head that a restart replaces.

use serde::{Deserialize, Serialize};

use crate::action::{Action, ActionKind, Target};
use crate::ids::NodeId;
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
    /// The time of the restart, before the head is deleted.
    pub at: Timestamp,
}

/// A requested restart of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRestart {
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The recovered node, which may be a worker before the replaced head is known.
    pub node: Option<NodeId>,
    /// True until the restart has ended.
    pub is_open: bool,
    /// The head that the restart replaces; none before the restart begins.
    pub replaced: Option<ReplacedHead>,
}

impl HeadRestart {
    /// The restart that an action carries out; none of an update that replaces no head.
    pub fn of(action: &Action) -> Option<Self> {
        let replaced = ReplacedHead::of(action);
        (replaced.is_some() || action.kind == ActionKind::NodeRecover).then(|| Self {
            requested_at: action.created_at,
            node: match &action.target {
                Target::Node(id) => Some(*id),
                Target::Cluster(_) | Target::Unknown(_) => None,
            },
            is_open: !action.status.is_final(),
            replaced,
        })
    }
}

impl ReplacedHead {
    /// The key of this record in the outputs of an action.
    pub const OUTPUT: &str = "replaced_head";

    /// The head that an action replaces; none before the restart begins.
    pub fn of(action: &Action) -> Option<Self> {
        Self::deserialize(action.outputs.get(Self::OUTPUT)?).ok()
    }
}

//! What is said to the world, and what it says.

use std::collections::HashMap;

use muster_core::action::Fence;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Observation;
use serde::{Deserialize, Serialize};

/// What the world can be told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verb {
    /// Make what a cluster needs.
    Create,
    /// Remove what is left of a cluster.
    Delete,
    /// Change a cluster.
    Update,
    /// Start a node.
    Start,
    /// Stop a node.
    Stop,
    /// Do to a node what only some types can.
    Operate,
    /// Look.
    Observe,
}

/// One call of an engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) verb: Verb,
    pub(super) cluster: ClusterId,
    pub(super) node: Option<(NodeId, String)>,
    pub(super) fence: Fence,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It waits until it is released.
    Held,
    /// A node came into being.
    Made,
    /// The node was there already.
    There,
    /// A node was removed.
    Removed,
    /// There was nothing to remove.
    Absent,
    /// Something about a cluster was done.
    Done,
    /// It came from an engine that was overtaken.
    Refused,
    /// It was told to fail.
    Failed,
    /// It was lost on its way.
    Dropped,
}

/// A line of the world's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked for.
    pub verb: Verb,
    /// Of which cluster.
    pub cluster: ClusterId,
    /// Of which node, if of one.
    pub node: Option<NodeId>,
    /// What the node is called.
    pub name: Option<String>,
    /// Under which fence.
    pub fence: Fence,
    /// What became of it.
    pub outcome: Outcome,
}

impl Entry {
    /// Whether the world did what it was told.
    pub fn is_accepted(&self) -> bool {
        use Outcome::{Absent, Done, Made, Removed, There};
        matches!(self.outcome, Made | There | Removed | Absent | Done)
    }
}

/// What the world says about nodes that is not so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lie {
    /// That it cannot tell how they are.
    Unknown,
    /// That it cannot look at all.
    Blind,
    /// That they are not there.
    Absent,
}

/// What is to go wrong, or to be let go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Control {
    /// Calls of a verb wait, after so many more have passed.
    Hold(Verb, u32),
    /// Those that wait go on, and nothing waits any more.
    Release,
    /// Those that wait are lost on their way, and nothing waits any more.
    Drop,
    /// Calls of a verb take so many milliseconds.
    Slow(Verb, u64),
    /// The n-th call of a verb from now on fails, for good or for the moment.
    FailAt {
        /// Of which verb.
        verb: Verb,
        /// Counted from one.
        call: u32,
        /// Whether it may work in a moment.
        transient: bool,
    },
    /// So many of the nodes that are started next end at once.
    DieAfterStart(u32),
    /// A node ends, as processes do.
    Lose(NodeId),
    /// What it says about nodes is not so, or is again.
    Lie(Option<Lie>),
}

/// A line to the world.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Call(Call),
    Observe(ClusterId, Vec<NodeId>),
    Changes,
    Control(Control),
    Running(ClusterId),
    /// Answered when the log has more lines than this.
    Longer(usize),
}

/// A line from the world.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Done(Option<String>),
    Refused { transient: bool, reason: String, message: String },
    Overtaken { given: Fence, by: Fence },
    Observation(HashMap<NodeId, Observation>),
    Changed(ClusterId),
    Running(HashMap<NodeId, String>),
}

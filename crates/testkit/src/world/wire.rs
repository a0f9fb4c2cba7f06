//! The messages between engines, tests and the world.

use std::collections::HashMap;

use muster_core::action::Fence;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Observation;
use serde::{Deserialize, Serialize};

/// The calls of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verb {
    /// Prepare a cluster.
    Create,
    /// Clear the leftovers of a cluster.
    Delete,
    /// Start a node.
    Start,
    /// Stop a node.
    Stop,
    /// Run an operation of the node's type.
    Operate,
    /// Observe.
    Observe,
}

/// One call of an engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WorldCall {
    pub(super) verb: Verb,
    pub(super) cluster: ClusterId,
    pub(super) node: Option<(NodeId, String)>,
    pub(super) fence: Fence,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The call waits until it is released.
    Held,
    /// A node was started.
    Made,
    /// The node existed already.
    There,
    /// A node was removed.
    Removed,
    /// The node did not exist.
    Absent,
    /// A call for a cluster took effect.
    Done,
    /// The engine was overtaken, and the call refused.
    Refused,
    /// A fault was injected.
    Failed,
    /// The call was dropped.
    Dropped,
}

/// A line of the world's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The verb.
    pub verb: Verb,
    /// The cluster.
    pub cluster: ClusterId,
    /// The node, if the call has one.
    pub node: Option<NodeId>,
    /// The name of the node.
    pub name: Option<String>,
    /// The fence of the call.
    pub fence: Fence,
    /// The outcome.
    pub outcome: Outcome,
}

impl Entry {
    /// Returns true if the call was executed.
    pub fn is_accepted(&self) -> bool {
        use Outcome::{Absent, Done, Made, Removed, There};
        matches!(self.outcome, Made | There | Removed | Absent | Done)
    }
}

/// A false observation of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FalseObservation {
    /// The state of the nodes is unknown.
    Unknown,
    /// The observation fails.
    Blind,
    /// The nodes are absent.
    Absent,
}

/// A fault to inject, or a release.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Control {
    /// Calls of a verb wait after this many more calls.
    Hold(Verb, u32),
    /// Held calls continue, and no call is held any more.
    Release,
    /// Held calls are dropped, and no call is held any more.
    Drop,
    /// Calls of a verb take this many milliseconds.
    Slow(Verb, u64),
    /// The n-th later call of a verb fails, permanently or transiently.
    FailAt {
        /// The verb.
        verb: Verb,
        /// The number of the call, counted from one.
        call: u32,
        /// True if the failure is transient.
        transient: bool,
    },
    /// This many of the next started nodes end at once.
    DieAfterStart(u32),
    /// A node ends by itself.
    Lose(NodeId),
    /// Observations become false, or true again.
    Lie(Option<FalseObservation>),
}

/// A request to the world.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorldRequest {
    Call(WorldCall),
    Observe(ClusterId, Vec<NodeId>),
    Changes,
    Control(Control),
    Running(ClusterId),
    /// Wait until the log has more lines than this.
    Longer(usize),
}

/// A response of the world.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorldAnswer {
    Done(Option<String>),
    Refused { transient: bool, reason: String, message: String },
    Overtaken { given: Fence, by: Fence },
    Observation(HashMap<NodeId, Observation>),
    Changed(ClusterId),
    Running(HashMap<NodeId, String>),
}

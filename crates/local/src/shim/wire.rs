//! Messages between server and shim: one line of JSON in each direction.
//!
//! A shim may be older than its server: new fields need a default, and none may be removed.

use std::path::PathBuf;
use std::time::Duration;

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::launch::LaunchSpec;
use super::state::ShimState;

/// The start request, which a shim reads from standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartOrder {
    pub(super) node: NodeId,
    pub(super) folder: PathBuf,
    pub(super) runtime: PathBuf,
    pub(super) launch: LaunchSpec,
}

/// The result of the start, which a shim writes once to standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StartReport {
    /// The command is running.
    Started(Box<ShimState>),
    /// The node has seen a higher generation.
    Refused { highest: Fence },
    /// Another shim runs this node, or a server is removing it.
    Busy,
    /// The command cannot be executed.
    CannotRun { code: i32, message: String },
    /// The shim itself failed.
    Failed { message: String },
}

/// A request to a running shim.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub(super) enum ShimRequest {
    /// Reads the state. A read carries no generation, since it changes nothing.
    Status,
    /// Raises the generation: lower ones are refused from now on.
    Adopt { generation: Fence },
    /// Stops the node, even if the caller disconnects.
    Stop { generation: Fence, grace_ms: u64, signal: StopSignal },
}

/// The reply of a running shim.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShimReply {
    Status(Box<ShimStatus>),
    Refused { highest: Fence },
    Failed { message: String },
}

/// The state of a node, as reported by its running shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimStatus {
    /// The recorded state.
    pub state: ShimState,
    /// The highest generation that the node has seen.
    pub highest: Fence,
    /// True if a stop was requested, or the node has ended and its remaining processes are being killed.
    pub stopping: bool,
}

/// The signal and grace period of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSpec {
    /// The signal to its process group.
    pub signal: StopSignal,
    /// Time until all of its processes are killed.
    pub grace: Duration,
}

impl StopSpec {
    /// Stops with SIGTERM and this grace period.
    pub const fn with_grace(grace: Duration) -> Self {
        Self { signal: StopSignal::Term, grace }
    }
}

/// The signal that asks a process group to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
}

impl StopSignal {
    pub(super) fn signal(self) -> Signal {
        match self {
            Self::Term => Signal::TERM,
            Self::Int => Signal::INT,
        }
    }

    pub(super) fn number(self) -> i32 {
        self.signal().as_raw()
    }
}

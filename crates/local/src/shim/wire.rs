//! What server and shim say to each other: a line of JSON each way.
//!
//! A shim may be older than its server: fields are added with a default, and none is taken away.

use std::path::PathBuf;
use std::time::Duration;

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::launch::Launch;
use super::state::State;

/// How a shim is begun: all of its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) node: NodeId,
    pub(super) folder: PathBuf,
    pub(super) runtime: PathBuf,
    pub(super) launch: Launch,
}

/// What a shim says once on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Begun {
    /// The command runs.
    Started(Box<State>),
    /// A higher generation was there before.
    Refused { highest: Fence },
    /// Another shim has this node, or somebody removes it just now.
    Busy,
    /// The command cannot be run.
    CannotRun { code: i32, message: String },
    /// The shim itself cannot do its work.
    Failed { message: String },
}

/// What is asked of a running shim.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub(super) enum Request {
    /// Looks, and so carries no generation.
    Status,
    /// From now on only this generation, or a higher one, is obeyed.
    Adopt { generation: Fence },
    /// The node ends, whoever asked may go away.
    Stop { generation: Fence, grace_ms: u64, signal: StopSignal },
}

/// What a running shim answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Status(Box<Status>),
    Refused { highest: Fence },
    Failed { message: String },
}

/// How a node is, as its living shim tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// What its shim has written down.
    pub state: State,
    /// The highest generation that was seen.
    pub highest: Fence,
    /// It is on its way out.
    pub stopping: bool,
}

/// How a node is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// What its process group is asked with.
    pub signal: StopSignal,
    /// How long it may take, until everything of it is killed.
    pub grace: Duration,
}

impl Stop {
    /// With SIGTERM, and so much time.
    pub const fn within(grace: Duration) -> Self {
        Self { signal: StopSignal::Term, grace }
    }
}

/// What a process group is asked to end with.
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

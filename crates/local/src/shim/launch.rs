//! What a node is started with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_core::action::Fence;
use serde::{Deserialize, Serialize};

/// The variable by which a node's processes are known: all of them inherit it. The shim sets it itself.
pub const NODE_MARKER: &str = "MUSTER_NODE";

/// What a node is started with. It is kept in the node's folder, readable by its owner only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The generation that starts it.
    pub generation: Fence,
    /// The program and its arguments. A program without a slash is looked for in the `PATH` of `environment`.
    pub command: Vec<String>,
    /// All variables of the process; nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub working_folder: PathBuf,
    /// How much of its output is kept.
    pub log: LogLimits,
    /// The file with the line `oom_kill N` that tells whether memory ran out; if none, that of our own control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_counter: Option<PathBuf>,
}

/// How much output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// How large one file becomes before the next is begun.
    pub max_bytes: u64,
    /// How many full files are kept beside the one that is written.
    pub keep: u32,
}

impl Default for LogLimits {
    /// At most 40 MB a node.
    fn default() -> Self {
        Self { max_bytes: 10_000_000, keep: 3 }
    }
}

//! The specification of a node's process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_core::action::Fence;
use serde::{Deserialize, Serialize};

/// The environment variable that marks all processes of a node, since children inherit it. The shim sets it.
pub const NODE_MARKER: &str = "MUSTER_NODE";

/// The command, environment and limits of a node. Stored in the node's folder, readable by its owner only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The generation of the start.
    pub generation: Fence,
    /// The program and its arguments. A program without a slash is searched in the `PATH` of `environment`.
    pub command: Vec<String>,
    /// All variables of the process; none is inherited.
    pub environment: BTreeMap<String, String>,
    /// The working directory of the process.
    pub working_folder: PathBuf,
    /// Limits of the retained output.
    pub log: LogLimits,
    /// The file whose line `oom_kill N` counts kills for lack of memory; by default that of the shim's control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_counter: Option<PathBuf>,
}

/// Limits of the retained output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// Size at which a file is rotated.
    pub max_bytes: u64,
    /// Number of rotated files that are retained.
    pub keep: u32,
}

impl Default for LogLimits {
    /// At most 40 MB per node.
    fn default() -> Self {
        Self { max_bytes: 10_000_000, keep: 3 }
    }
}

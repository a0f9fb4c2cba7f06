//! The server's side: starts nodes under shims, inspects, stops and removes them.

mod clean_up;
mod remove;
mod request;
mod running;
mod start;
mod stop;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use muster_core::ids::NodeId;
use muster_engine::ports::keyed_lock::KeyedLock;

use super::folder::NodeFolder;
use super::lock::{LockError, NodeLock};
use super::runtime::RuntimeFolder;
use super::state::{NodeExit, ShimState};
use crate::sys;

pub use remove::RemoveError;
pub use request::ShimRequestError;
pub use running::{RunOutcome, RunningNode};
pub use start::StartError;
pub use stop::StopError;

/// Starts, inspects and stops nodes that run under shims.
#[derive(Debug, Clone)]
pub struct Shims {
    program: PathBuf,
    runtime: RuntimeFolder,
    /// Held while a shim starts, even if the caller of the start was dropped.
    starts: Arc<KeyedLock<NodeId>>,
}

/// The state of a node's processes, from its folder and the process table.
#[derive(Debug)]
pub enum NodeProcessState {
    /// The shim is alive.
    Running(RunningNode),
    /// The node ran, and its shim recorded how it ended.
    Ended(NodeExit),
    /// The shim died without recording the end. Processes of the node may be left and must be cleaned up.
    Lost,
    /// The node was started in an earlier boot, and ended with that.
    AnotherBoot(ShimState),
    /// Nothing was started in the folder, or the folder does not exist.
    NeverStarted,
}

impl Shims {
    /// Uses this program as the shim. Its `main` must call [`run_if_invoked`](super::run_if_invoked) first.
    pub fn with_this_program(runtime: RuntimeFolder) -> Self {
        // This path names the running program even if an upgrade has replaced its file.
        Self::with_program("/proc/self/exe", runtime)
    }

    /// Uses another program as the shim.
    pub fn with_program(program: impl Into<PathBuf>, runtime: RuntimeFolder) -> Self {
        Self { program: program.into(), runtime, starts: Arc::default() }
    }

    /// Returns the folder of the shims' sockets.
    pub(crate) const fn runtime(&self) -> &RuntimeFolder {
        &self.runtime
    }

    /// Reads the state of a node without changing anything.
    pub fn inspect(&self, folder: &NodeFolder) -> io::Result<NodeProcessState> {
        inspect(folder)
    }
}

fn inspect(folder: &NodeFolder) -> io::Result<NodeProcessState> {
    let state = match folder.read_state() {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(NodeProcessState::NeverStarted),
        // A partial file is left by a power failure: shims replace the file atomically.
        Err(error) if is_corrupt(&error) && !matches!(NodeLock::acquire(folder), Err(LockError::Busy)) => {
            return Ok(NodeProcessState::Lost);
        }
        Err(error) => return Err(error),
    };
    if let Some(end) = state.end {
        return Ok(NodeProcessState::Ended(end));
    }
    if state.boot_id != sys::boot_id()? {
        return Ok(NodeProcessState::AnotherBoot(state));
    }
    let running = RunningNode::new(folder, state)?;
    if running.is_alive() {
        return Ok(NodeProcessState::Running(running));
    }
    // The node may have ended after its state was read and before its process was checked.
    match folder.read_state()? {
        Some(ShimState { end: Some(end), .. }) => Ok(NodeProcessState::Ended(end)),
        Some(_) => Ok(NodeProcessState::Lost),
        None => Ok(NodeProcessState::NeverStarted),
    }
}

fn is_corrupt(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

//! The server's side: starting nodes under shims, finding them again, stopping and removing them.

mod call;
mod lost;
mod remove;
mod running;
mod start;
mod stop;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use muster_core::ids::NodeId;
use muster_engine::ports::keyed_lock::KeyedLock;

use super::folder::NodeFolder;
use super::lock::{Lock, NoLock};
use super::runtime::RuntimeFolder;
use super::state::{End, State};
use crate::sys;

pub use call::CommandError;
pub use remove::RemoveError;
pub use running::{Outcome, Running};
pub use start::StartError;
pub use stop::StopError;

/// Starts nodes under shims, and finds them again.
#[derive(Debug, Clone)]
pub struct Shims {
    program: PathBuf,
    runtime: RuntimeFolder,
    /// Starts that are on their way, also those that nobody waits for any more.
    starts: Arc<KeyedLock<NodeId>>,
}

/// How a node is, as far as its folder and the machine tell.
#[derive(Debug)]
pub enum Found {
    /// Its shim lives.
    Running(Running),
    /// It ran, and its shim wrote down how it ended.
    Ended(End),
    /// Its shim is gone without a word. What is left of the node has to be cleaned up; how it ended is unknown.
    Lost,
    /// It ran in another boot of the machine, and with that it ended.
    AnotherBoot(State),
    /// Nothing was started in its folder, or there is no folder.
    NeverStarted,
}

impl Shims {
    /// Shims that are this program, whose `main` begins with [`run_if_asked`](super::run_if_asked).
    pub fn of_this_program(runtime: RuntimeFolder) -> Self {
        // As the kernel names it, which holds also when the file was replaced by a newer version.
        Self::of_program("/proc/self/exe", runtime)
    }

    /// Shims that are another program.
    pub fn of_program(program: impl Into<PathBuf>, runtime: RuntimeFolder) -> Self {
        Self { program: program.into(), runtime, starts: Arc::default() }
    }

    /// Where sockets are.
    pub(crate) const fn runtime(&self) -> &RuntimeFolder {
        &self.runtime
    }

    /// Looks how a node is. It changes nothing.
    pub fn find(&self, folder: &NodeFolder) -> io::Result<Found> {
        find(folder)
    }
}

fn find(folder: &NodeFolder) -> io::Result<Found> {
    let state = match folder.read_state() {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(Found::NeverStarted),
        // Half a file is what a machine leaves that lost its power; its shim would have written a whole one.
        Err(error) if is_garbled(&error) && !matches!(Lock::take(folder), Err(NoLock::Busy)) => {
            return Ok(Found::Lost);
        }
        Err(error) => return Err(error),
    };
    if let Some(end) = state.end {
        return Ok(Found::Ended(end));
    }
    if state.boot_id != sys::boot_id()? {
        return Ok(Found::AnotherBoot(state));
    }
    let running = Running::new(folder, state)?;
    if running.lives() {
        return Ok(Found::Running(running));
    }
    // It may have ended between the look at its state and the look at its process.
    match folder.read_state()? {
        Some(State { end: Some(end), .. }) => Ok(Found::Ended(end)),
        Some(_) => Ok(Found::Lost),
        None => Ok(Found::NeverStarted),
    }
}

fn is_garbled(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

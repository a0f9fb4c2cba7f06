//! A node whose shim lives.

use std::io;

use muster_core::action::Fence;
use rustix::process::Signal;

use super::call::{self, CommandError};
use crate::shim::folder::NodeFolder;
use crate::shim::state::{End, State};
use crate::shim::wire::{Request, Status, Stop};
use crate::sys::{Pidfd, ProcessId};

/// A node whose shim lives, or lived when it was found.
#[derive(Debug, Clone)]
pub struct Running {
    folder: NodeFolder,
    state: State,
    /// None if it had ended already.
    shim: Option<Pidfd>,
}

/// What became of a running node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its shim wrote down how it ended. Nothing of it is left.
    Ended(End),
    /// Its shim is gone without a word: see [`Shims::clean_up_lost`](super::Shims::clean_up_lost).
    Lost,
    /// It ended, and was started again or removed before anybody looked how.
    Replaced,
}

impl Running {
    pub(super) fn new(folder: &NodeFolder, state: State) -> io::Result<Self> {
        let shim = Pidfd::open(state.shim)?;
        Ok(Self { folder: folder.clone(), state, shim })
    }

    pub(super) const fn lives(&self) -> bool {
        self.shim.is_some()
    }

    /// Its folder.
    pub const fn folder(&self) -> &NodeFolder {
        &self.folder
    }

    /// The process that is the node.
    pub fn process(&self) -> Option<ProcessId> {
        self.state.child
    }

    /// What was written down when it was started.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Waits for its end, by the kernel's word: nothing is asked again and again.
    pub async fn exited(&self) -> io::Result<Outcome> {
        if let Some(shim) = &self.shim {
            shim.ended().await?;
        }
        Ok(match self.folder.read_state()? {
            Some(State { shim, end, .. }) if shim == self.state.shim => {
                end.map_or(Outcome::Lost, Outcome::Ended)
            }
            _ => Outcome::Replaced,
        })
    }

    /// Asks its shim how it is.
    pub async fn status(&self) -> Result<Status, CommandError> {
        self.ask(&Request::Status, self.state.generation).await
    }

    /// From now on only `generation`, or a higher one, is obeyed.
    pub async fn adopt(&self, generation: Fence) -> Result<Status, CommandError> {
        self.ask(&Request::Adopt { generation }, generation).await
    }

    /// Asks it to end, and returns once that is on its way: it goes on whatever becomes of us. Asked again it may get
    /// less time, never more. One that has ended is what is wanted. [`exited`](Self::exited) waits for the end.
    pub async fn stop(&self, generation: Fence, stop: Stop) -> Result<(), CommandError> {
        let grace_ms = u64::try_from(stop.grace.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Stop { generation, grace_ms, signal: stop.signal };
        match self.ask(&request, generation).await {
            Ok(_) | Err(CommandError::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Signals the shim itself. If that kills it, so does the kernel the node's process; the rest has to be cleaned up.
    pub(super) fn signal_shim(&self, signal: Signal) -> io::Result<()> {
        self.shim.as_ref().map_or(Ok(()), |shim| shim.signal(signal))
    }

    async fn ask(&self, request: &Request, given: Fence) -> Result<Status, CommandError> {
        let Some(shim) = &self.shim else { return Err(CommandError::Gone) };
        call::ask(self.state.shim.pid, shim, &self.state.socket, request, given).await
    }
}

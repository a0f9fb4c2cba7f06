//! A node whose shim is alive.

use std::io;

use muster_core::action::Fence;
use rustix::process::Signal;

use super::request::{self, ShimRequestError};
use crate::shim::folder::NodeFolder;
use crate::shim::state::{NodeExit, ShimState};
use crate::shim::wire::{ShimRequest, ShimStatus, StopSpec};
use crate::sys::{Pidfd, ProcessId};

/// A node whose shim was alive when the node was inspected.
#[derive(Debug, Clone)]
pub struct RunningNode {
    folder: NodeFolder,
    state: ShimState,
    /// None if the shim had ended already.
    shim: Option<Pidfd>,
}

/// The outcome of one run of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// The shim recorded how the node ended. No process is left.
    Ended(NodeExit),
    /// The shim died without recording the end: see [`Shims::clean_up_lost`](super::Shims::clean_up_lost).
    Lost,
    /// The node ended, and was started again or removed before its end was read.
    Replaced,
}

impl RunningNode {
    pub(super) fn new(folder: &NodeFolder, state: ShimState) -> io::Result<Self> {
        let shim = Pidfd::open(state.shim)?;
        Ok(Self { folder: folder.clone(), state, shim })
    }

    pub(super) const fn is_alive(&self) -> bool {
        self.shim.is_some()
    }

    /// Returns the folder of the node.
    pub const fn folder(&self) -> &NodeFolder {
        &self.folder
    }

    /// Returns the process of the node's command.
    pub fn process(&self) -> Option<ProcessId> {
        self.state.child
    }

    /// Returns the state that was recorded at the start.
    pub const fn state(&self) -> &ShimState {
        &self.state
    }

    /// Waits for the end of the shim, by a process descriptor and without polling.
    pub async fn wait_for_exit(&self) -> io::Result<RunOutcome> {
        if let Some(shim) = &self.shim {
            shim.wait_for_exit().await?;
        }
        Ok(match self.folder.read_state()? {
            Some(ShimState { shim, end, .. }) if shim == self.state.shim => {
                end.map_or(RunOutcome::Lost, RunOutcome::Ended)
            }
            _ => RunOutcome::Replaced,
        })
    }

    /// Requests the current state from the shim.
    pub async fn status(&self) -> Result<ShimStatus, ShimRequestError> {
        self.send_request(&ShimRequest::Status, self.state.generation).await
    }

    /// Makes the shim refuse generations lower than this one.
    pub async fn adopt(&self, generation: Fence) -> Result<ShimStatus, ShimRequestError> {
        self.send_request(&ShimRequest::Adopt { generation }, generation).await
    }

    /// Asks the shim to stop the node, and returns once it has accepted; it then continues without this server. A
    /// repeated stop can shorten the grace period but not extend it. Succeeds if the node has ended.
    /// [`wait_for_exit`](Self::wait_for_exit) waits for the end.
    pub async fn stop(&self, generation: Fence, stop: StopSpec) -> Result<(), ShimRequestError> {
        let grace_ms = u64::try_from(stop.grace.as_millis()).unwrap_or(u64::MAX);
        let request = ShimRequest::Stop { generation, grace_ms, signal: stop.signal };
        match self.send_request(&request, generation).await {
            Ok(_) | Err(ShimRequestError::ShimEnded) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Signals the shim itself. If that kills it, the kernel kills the node's command; other processes need a clean-up.
    pub(super) fn signal_shim(&self, signal: Signal) -> io::Result<()> {
        self.shim.as_ref().map_or(Ok(()), |shim| shim.signal(signal))
    }

    async fn send_request(
        &self,
        request: &ShimRequest,
        given: Fence,
    ) -> Result<ShimStatus, ShimRequestError> {
        let Some(shim) = &self.shim else { return Err(ShimRequestError::ShimEnded) };
        request::send(self.state.shim.pid, shim, &self.state.socket, request, given).await
    }
}

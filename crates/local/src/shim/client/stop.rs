//! Stop of a node, whatever its state.

use std::io;
use std::time::Duration;

use muster_core::action::Fence;
use rustix::process::Signal;
use tokio::time::timeout;

use super::request::ShimRequestError;
use super::running::{RunOutcome, RunningNode};
use super::{NodeProcessState, Shims};
use crate::shim::folder::NodeFolder;
use crate::shim::lock::{self, LockError, NodeLock, StaleGeneration};
use crate::shim::wire::StopSpec;

/// Number of attempts while the state of the node changes.
const ATTEMPTS: u32 = 10;

/// Time limit of a stop by signal to the shim; longer than the grace period of such a stop.
const SIGNAL_STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A reason why a node was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The node has seen a higher generation.
    #[error(transparent)]
    Refused(#[from] StaleGeneration),
    /// Another process keeps starting or removing the node.
    #[error("another process is starting or removing the node: try again")]
    Busy,
    /// The request to the shim failed.
    #[error(transparent)]
    Command(ShimRequestError),
    /// The folder of the node, or its remaining processes, could not be cleaned up.
    #[error("the node cannot be cleaned up: {0}")]
    Io(#[from] io::Error),
}

impl Shims {
    /// Stops a node whatever its state, and returns its outcome once no process of the node is left; `None` if the node
    /// never ran or its end is unknown. Lower generations cannot start the node afterwards. A stop that the shim has
    /// accepted continues if this future is dropped.
    pub async fn stop(
        &self,
        folder: &NodeFolder,
        generation: Fence,
        stop: StopSpec,
    ) -> Result<Option<RunOutcome>, StopError> {
        // Waits for a pending start: its shim could otherwise appear after this stop.
        drop(self.starts.lock(folder.node()).await);
        for _ in 0..ATTEMPTS {
            match self.inspect(folder)? {
                NodeProcessState::Running(running) => match end_running(&running, generation, stop).await? {
                    RunOutcome::Ended(end) => return Ok(Some(RunOutcome::Ended(end))),
                    // The next iteration handles the new state.
                    RunOutcome::Lost | RunOutcome::Replaced => {}
                },
                found => {
                    let mut lock = match NodeLock::acquire(folder) {
                        Ok(lock) => lock,
                        // There is nothing to stop, and a late start finds no folder.
                        Err(LockError::Gone) => return Ok(None),
                        // A shim holds the lock, and is about to record that it runs.
                        Err(LockError::Busy) => {
                            tokio::time::sleep(super::start::RETRY_INTERVAL).await;
                            continue;
                        }
                        Err(LockError::Io(error)) => return Err(error.into()),
                    };
                    lock.raise(generation)??;
                    return match found {
                        NodeProcessState::Ended(end) => Ok(Some(RunOutcome::Ended(end))),
                        NodeProcessState::Lost => {
                            self.clean_up(folder).await?;
                            Ok(Some(RunOutcome::Lost))
                        }
                        _ => Ok(None),
                    };
                }
            }
        }
        Err(StopError::Busy)
    }
}

async fn end_running(
    running: &RunningNode,
    generation: Fence,
    stop: StopSpec,
) -> Result<RunOutcome, StopError> {
    match running.stop(generation, stop).await {
        Ok(()) => {}
        Err(ShimRequestError::Refused(refused)) => return Err(refused.into()),
        Err(ShimRequestError::NoSocket { .. }) => {
            check_generation(running, generation)?;
            running.signal_shim(Signal::TERM)?;
            if let Ok(outcome) = timeout(SIGNAL_STOP_TIMEOUT, running.wait_for_exit()).await {
                return Ok(outcome?);
            }
            running.signal_shim(Signal::KILL)?;
        }
        // A silent shim is suspended (SIGSTOP) or stuck, so it is killed.
        Err(ShimRequestError::NoReply { .. }) => {
            check_generation(running, generation)?;
            running.signal_shim(Signal::KILL)?;
        }
        Err(error) => return Err(StopError::Command(error)),
    }
    Ok(running.wait_for_exit().await?)
}

/// Refuses a stale generation by the recorded one, for a shim that does not reply.
fn check_generation(running: &RunningNode, generation: Fence) -> Result<(), StopError> {
    let highest = lock::read_highest_generation(running.folder())?;
    if generation < highest {
        return Err(StaleGeneration { given: generation, highest }.into());
    }
    Ok(())
}

//! Stopping a node, whatever state it is in.

use std::io;
use std::time::Duration;

use muster_core::action::Fence;
use rustix::process::Signal;
use tokio::time::timeout;

use super::call::CommandError;
use super::running::{Outcome, Running};
use super::{Found, Shims};
use crate::shim::folder::NodeFolder;
use crate::shim::lock::{self, Lock, NoLock, Refused};
use crate::shim::wire::Stop;

/// How often a node that changes under our eyes is looked at again.
const TRIES: u32 = 10;

/// How long a node may take whose shim can only be signalled: more than the grace that such a shim gives.
const PATIENCE_WITH_DEAF: Duration = Duration::from_secs(15);

/// Why a node was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Somebody with a higher generation was there before.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Somebody else starts it or removes it all the time.
    #[error("the node is being started or removed by somebody else: try again")]
    Busy,
    /// Its shim cannot do it.
    #[error(transparent)]
    Command(CommandError),
    /// Its folder, or what is left of it, cannot be dealt with.
    #[error("what is left of the node cannot be dealt with: {0}")]
    Io(#[from] io::Error),
}

impl Shims {
    /// Ends a node in whatever state it is, and returns how it ended once nothing of it runs; nothing if it never
    /// ran, or that is unknown. From then on no lower generation starts it again. What is on its way goes on when
    /// this is dropped.
    pub async fn stop(
        &self,
        folder: &NodeFolder,
        generation: Fence,
        stop: Stop,
    ) -> Result<Option<Outcome>, StopError> {
        // A shim on its way would come after us, and be known to nobody.
        drop(self.starts.lock(folder.node()).await);
        for _ in 0..TRIES {
            match self.find(folder)? {
                Found::Running(running) => match end(&running, generation, stop).await? {
                    Outcome::Ended(end) => return Ok(Some(Outcome::Ended(end))),
                    // The next look says what to do about it.
                    Outcome::Lost | Outcome::Replaced => {}
                },
                found => {
                    let mut lock = match Lock::take(folder) {
                        Ok(lock) => lock,
                        // There is nothing, and a start that comes late finds no folder.
                        Err(NoLock::Gone) => return Ok(None),
                        // Its shim has the lock, and is about to write that it runs.
                        Err(NoLock::Busy) => {
                            tokio::time::sleep(super::start::BETWEEN).await;
                            continue;
                        }
                        Err(NoLock::Io(error)) => return Err(error.into()),
                    };
                    lock.raise(generation)??;
                    return match found {
                        Found::Ended(end) => Ok(Some(Outcome::Ended(end))),
                        Found::Lost => {
                            self.clean_up(folder).await?;
                            Ok(Some(Outcome::Lost))
                        }
                        _ => Ok(None),
                    };
                }
            }
        }
        Err(StopError::Busy)
    }
}

async fn end(running: &Running, generation: Fence, stop: Stop) -> Result<Outcome, StopError> {
    match running.stop(generation, stop).await {
        Ok(()) => {}
        Err(CommandError::Refused(refused)) => return Err(refused.into()),
        Err(CommandError::Deaf { .. }) => {
            still_obeyed(running, generation)?;
            running.signal_shim(Signal::TERM)?;
            if let Ok(outcome) = timeout(PATIENCE_WITH_DEAF, running.exited()).await {
                return Ok(outcome?);
            }
            running.signal_shim(Signal::KILL)?;
        }
        // One that somebody has halted (SIGSTOP) cannot be reasoned with.
        Err(CommandError::Silent { .. }) => {
            still_obeyed(running, generation)?;
            running.signal_shim(Signal::KILL)?;
        }
        Err(error) => return Err(StopError::Command(error)),
    }
    Ok(running.exited().await?)
}

/// A shim that cannot be asked has still written down whom it obeys.
fn still_obeyed(running: &Running, generation: Fence) -> Result<(), StopError> {
    let highest = lock::highest(running.folder())?;
    if generation < highest {
        return Err(Refused { given: generation, highest }.into());
    }
    Ok(())
}

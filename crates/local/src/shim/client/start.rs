//! Starting a node.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use muster_core::ids::NodeId;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::call::CommandError;
use super::running::Running;
use super::{Found, Shims};
use crate::shim::folder::NodeFolder;
use crate::shim::launch::Launch;
use crate::shim::lock::{self, Refused};
use crate::shim::program::SHIM;
use crate::shim::wire::{Begun, Order, Status};

/// How long a shim may take to say that its node runs: far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often a node that somebody else just has is looked at again, and how soon.
const TRIES: u32 = 200;
pub(super) const BETWEEN: Duration = Duration::from_millis(25);

/// Why a node was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody with a higher generation was there before.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Its command cannot be run, however often it is tried.
    #[error("{message}")]
    CannotRun {
        /// As shells number it: 127 if there is no such command, 126 if it cannot be run.
        code: i32,
        /// Why.
        message: String,
    },
    /// The shim that has the node does not answer.
    #[error(transparent)]
    Command(CommandError),
    /// A shim could not begin.
    #[error("node {node} was not started: {message}")]
    Shim {
        /// The node.
        node: NodeId,
        /// Why.
        message: String,
    },
    /// Its folder cannot be used.
    #[error("the folder of node {node} cannot be used: {error}")]
    Folder {
        /// The node.
        node: NodeId,
        /// Why.
        error: io::Error,
    },
}

impl Shims {
    /// Starts a node and returns once its command runs. One that runs already, of this generation or a lower, is the
    /// one that is wanted, and belongs to this generation from now on; one that is on its way out is waited for and
    /// started anew; what a lost one left is cleaned up first. Dropped half-way, it leaves nothing or a node that
    /// the next call finds.
    pub async fn start(&self, folder: &NodeFolder, launch: &Launch) -> Result<Running, StartError> {
        let node = folder.node();
        let on_folder = |error| StartError::Folder { node, error };
        for _ in 0..TRIES {
            // The shim decides; but whoever comes too late shall not clean up either.
            let highest = lock::highest(folder).map_err(on_folder)?;
            if launch.generation < highest {
                return Err(Refused { given: launch.generation, highest }.into());
            }
            match self.find(folder).map_err(on_folder)? {
                Found::Running(running) => match running.adopt(launch.generation).await {
                    Ok(Status { stopping: false, .. }) => return Ok(running),
                    Ok(_) => {
                        running.exited().await.map_err(on_folder)?;
                        continue;
                    }
                    Err(CommandError::Gone) => continue,
                    Err(CommandError::Refused(refused)) => return Err(refused.into()),
                    Err(error) => return Err(StartError::Command(error)),
                },
                Found::Lost => match self.clean_up_lost(folder).await {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        tokio::time::sleep(BETWEEN).await;
                        continue;
                    }
                    cleaned => drop(cleaned.map_err(on_folder)?),
                },
                Found::Ended(_) | Found::AnotherBoot(_) | Found::NeverStarted => {}
            }
            folder.make().map_err(on_folder)?;
            match self.begin(folder, launch).await.map_err(|error| no_shim(node, &error))? {
                Begun::Started(state) => return Running::new(folder, *state).map_err(on_folder),
                Begun::Refused { highest } => {
                    return Err(Refused { given: launch.generation, highest }.into());
                }
                Begun::CannotRun { code, message } => return Err(StartError::CannotRun { code, message }),
                Begun::Failed { message } => return Err(StartError::Shim { node, message }),
                // Another start got there first and is about to write its state, or a removal is about to end.
                Begun::Busy => tokio::time::sleep(BETWEEN).await,
            }
        }
        Err(StartError::Shim { node, message: "somebody else holds its lock all the time".to_owned() })
    }

    /// Runs a shim and hears how it began. It goes on to there also when this is dropped, and whoever ends the node
    /// waits for it.
    async fn begin(&self, folder: &NodeFolder, launch: &Launch) -> io::Result<Begun> {
        let on_its_way = self.starts.lock(folder.node()).await;
        let (shims, folder, launch) = (self.clone(), folder.clone(), launch.clone());
        let begun = tokio::spawn(async move {
            let begun = shims.begin_now(&folder, launch).await;
            drop(on_its_way);
            begun
        });
        begun.await.map_err(io::Error::other)?
    }

    async fn begin_now(&self, folder: &NodeFolder, launch: Launch) -> io::Result<Begun> {
        let order = serde_json::to_vec(&Order {
            node: folder.node(),
            folder: std::path::absolute(folder.path())?,
            runtime: std::path::absolute(self.runtime.path())?,
            launch,
        })?;
        let mut shim = Command::new(&self.program)
            .arg0("muster")
            // The id is for people who look at the list of processes.
            .args([SHIM, &folder.node().to_string()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (shim.stdin.take(), shim.stdout.take());
        // Whoever starts a process has to reap it, whatever becomes of the start.
        let reaped = tokio::spawn(async move { shim.wait().await });
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(io::Error::other("the shim has no pipes"));
        };
        input.write_all(&order).await?;
        drop(input);
        let answer = async {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).await?;
            if line.is_empty() {
                return Err(io::Error::other("its shim ended before it had started anything"));
            }
            let begun = serde_json::from_str(&line)?;
            if !matches!(begun, Begun::Started(_)) {
                // It has nothing more to do; what it held is free once it is gone.
                let _ = reaped.await;
            }
            Ok(begun)
        };
        let silent = |_| io::Error::other(format!("its shim said nothing within {} s", PATIENCE.as_secs()));
        timeout(PATIENCE, answer).await.map_err(silent)?
    }
}

fn no_shim(node: NodeId, error: &io::Error) -> StartError {
    StartError::Shim { node, message: error.to_string() }
}

//! Start of a node under a shim.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use muster_core::ids::NodeId;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::request::ShimRequestError;
use super::running::RunningNode;
use super::{NodeProcessState, Shims};
use crate::shim::folder::NodeFolder;
use crate::shim::launch::LaunchSpec;
use crate::shim::lock::{self, StaleGeneration};
use crate::shim::program::SHIM;
use crate::shim::wire::{ShimStatus, StartOrder, StartReport};

/// Time limit of a shim's start report; ample even on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Number and interval of attempts while another process holds the lock of the node.
const ATTEMPTS: u32 = 200;
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// A reason why a node was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The node has seen a higher generation.
    #[error(transparent)]
    Refused(#[from] StaleGeneration),
    /// The command cannot be executed; a retry would fail as well.
    #[error("{message}")]
    CannotRun {
        /// The exit code that shells use: 127 if there is no such command, 126 if it cannot be executed.
        code: i32,
        /// The reason.
        message: String,
    },
    /// The shim that runs the node failed to reply.
    #[error(transparent)]
    Command(ShimRequestError),
    /// The shim itself could not be started.
    #[error("node {node} was not started: {message}")]
    Shim {
        /// The id of the node.
        node: NodeId,
        /// The reason.
        message: String,
    },
    /// The folder of the node cannot be used.
    #[error("the folder of node {node} cannot be used: {error}")]
    Folder {
        /// The id of the node.
        node: NodeId,
        /// The reason.
        error: io::Error,
    },
}

impl Shims {
    /// Starts a node and returns once its command is running.
    ///
    /// A node that is running is adopted by this generation. A node that is stopping is restarted after its end. The
    /// processes of a lost node are killed first. If this future is dropped, the node either is not started, or is
    /// found by the next call.
    pub async fn start(&self, folder: &NodeFolder, launch: &LaunchSpec) -> Result<RunningNode, StartError> {
        let node = folder.node();
        let on_folder = |error| StartError::Folder { node, error };
        for _ in 0..ATTEMPTS {
            // The shim checks the generation too, but a stale caller must not clean up either.
            let highest = lock::read_highest_generation(folder).map_err(on_folder)?;
            if launch.generation < highest {
                return Err(StaleGeneration { given: launch.generation, highest }.into());
            }
            match self.inspect(folder).map_err(on_folder)? {
                NodeProcessState::Running(running) => match running.adopt(launch.generation).await {
                    Ok(ShimStatus { stopping: false, .. }) => return Ok(running),
                    Ok(_) => {
                        running.wait_for_exit().await.map_err(on_folder)?;
                        continue;
                    }
                    Err(ShimRequestError::ShimEnded) => continue,
                    Err(ShimRequestError::Refused(refused)) => return Err(refused.into()),
                    Err(error) => return Err(StartError::Command(error)),
                },
                NodeProcessState::Lost => match self.clean_up_lost(folder).await {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                        continue;
                    }
                    cleaned => drop(cleaned.map_err(on_folder)?),
                },
                NodeProcessState::Ended(_)
                | NodeProcessState::AnotherBoot(_)
                | NodeProcessState::NeverStarted => {}
            }
            folder.create().map_err(on_folder)?;
            match self.start_shim(folder, launch).await.map_err(|error| shim_error(node, &error))? {
                StartReport::Started(state) => return RunningNode::new(folder, *state).map_err(on_folder),
                StartReport::Refused { highest } => {
                    return Err(StaleGeneration { given: launch.generation, highest }.into());
                }
                StartReport::CannotRun { code, message } => {
                    return Err(StartError::CannotRun { code, message });
                }
                StartReport::Failed { message } => return Err(StartError::Shim { node, message }),
                // Another start or a removal holds the lock, and is about to finish.
                StartReport::Busy => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
        let seconds = (RETRY_INTERVAL * ATTEMPTS).as_secs();
        Err(StartError::Shim { node, message: format!("another process has held its lock for {seconds} s") })
    }

    /// Runs a shim and waits for its start report. The start continues if this future is dropped; a stop of the node
    /// waits for it.
    async fn start_shim(&self, folder: &NodeFolder, launch: &LaunchSpec) -> io::Result<StartReport> {
        let starting = self.starts.lock(folder.node()).await;
        let (shims, folder, launch) = (self.clone(), folder.clone(), launch.clone());
        let report = tokio::spawn(async move {
            let report = shims.spawn_shim(&folder, launch).await;
            drop(starting);
            report
        });
        report.await.map_err(io::Error::other)?
    }

    async fn spawn_shim(&self, folder: &NodeFolder, launch: LaunchSpec) -> io::Result<StartReport> {
        let order = serde_json::to_vec(&StartOrder {
            node: folder.node(),
            folder: std::path::absolute(folder.path())?,
            runtime: std::path::absolute(self.runtime.path())?,
            launch,
        })?;
        let mut shim = Command::new(&self.program)
            .arg0("muster")
            // The shim does not read the id: it identifies the node in process lists.
            .args([SHIM, &folder.node().to_string()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (shim.stdin.take(), shim.stdout.take());
        // The shim must be reaped by this process, even if the start fails.
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
                return Err(io::Error::other("its shim ended without a start report"));
            }
            let report = serde_json::from_str(&line)?;
            if !matches!(report, StartReport::Started(_)) {
                // The shim is about to exit; wait, so that its lock is free.
                let _ = reaped.await;
            }
            Ok(report)
        };
        let silent = |_| {
            io::Error::other(format!("its shim sent no start report within {} s", START_TIMEOUT.as_secs()))
        };
        timeout(START_TIMEOUT, answer).await.map_err(silent)?
    }
}

fn shim_error(node: NodeId, error: &io::Error) -> StartError {
    StartError::Shim { node, message: error.to_string() }
}

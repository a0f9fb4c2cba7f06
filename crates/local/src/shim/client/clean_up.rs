//! Clean-up of a node whose shim was killed.

use std::io;
use std::time::Duration;

use muster_core::ids::NodeId;
use rustix::process::Signal;
use tokio::time::{Instant, timeout_at};

use super::Shims;
use super::remove::remove_socket;
use crate::shim::folder::NodeFolder;
use crate::shim::launch::NODE_MARKER;
use crate::shim::lock::{LockError, NodeLock};
use crate::sys::{self, Pidfd, ProcessId};

/// Time limit for killed processes to end; ample even on a busy machine.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

impl Shims {
    /// Kills every process of a node whose shim is gone, and returns their number. Processes are found by the marker in
    /// their environment, and by their session, since some programs overwrite their environment with a title.
    pub async fn clean_up_lost(&self, folder: &NodeFolder) -> io::Result<usize> {
        let _lock = match NodeLock::acquire(folder) {
            Ok(lock) => Some(lock),
            Err(LockError::Gone) => None,
            Err(LockError::Busy) => {
                let who = "the node's shim is alive, or another process is already cleaning up the node";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, who));
            }
            Err(LockError::Io(error)) => return Err(error),
        };
        self.clean_up(folder).await
    }

    /// Returns true if processes of a node whose shim is gone are left, or if that is unknown.
    pub(crate) fn has_processes(folder: &NodeFolder) -> bool {
        let known = folder.read_state().ok().flatten();
        find_processes(folder.node(), known.map(|state| state.shim)).map_or(true, |found| !found.is_empty())
    }

    /// Does the same as [`Self::clean_up_lost`] for a caller that holds the node's lock.
    pub(super) async fn clean_up(&self, folder: &NodeFolder) -> io::Result<usize> {
        let known = folder.read_state().ok().flatten();
        let here = known.filter(|state| sys::boot_id().is_ok_and(|boot| boot == state.boot_id));
        let ended = kill_all(folder.node(), here.map(|state| state.shim)).await?;
        remove_socket(self, folder);
        Ok(ended)
    }
}

/// Kills the processes of the node until none is found: a process may fork between the search and the kill.
async fn kill_all(node: NodeId, shim: Option<ProcessId>) -> io::Result<usize> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut count = 0;
    loop {
        let found = tokio::task::spawn_blocking(move || find_processes(node, shim))
            .await
            .map_err(io::Error::other)??;
        if found.is_empty() {
            return Ok(count);
        }
        count += found.len();
        for (_, process) in &found {
            process.signal(Signal::KILL)?;
        }
        for (pid, process) in &found {
            timeout_at(deadline, process.wait_for_exit()).await.map_err(|_| {
                let wait = KILL_TIMEOUT.as_secs();
                io::Error::other(format!(
                    "process {pid} of node {node} was killed and has not ended in {wait} s"
                ))
            })??;
        }
    }
}

/// Finds the processes of the node, each with an open descriptor, so that a reused number is never signalled.
fn find_processes(node: NodeId, shim: Option<ProcessId>) -> io::Result<Vec<(i32, Pidfd)>> {
    let marker = format!("{NODE_MARKER}={node}");
    let is_of_node =
        |pid| sys::environment_has(pid, &marker) || shim.is_some_and(|shim| shim.led_session_of(pid));
    let mut found = Vec::new();
    for pid in sys::own_processes() {
        // The check is repeated on the open descriptor: the number may have been reused after the first check.
        if is_of_node(pid)
            && let Some(process) = Pidfd::open_pid(pid)?
            && is_of_node(pid)
        {
            found.push((pid, process));
        }
    }
    Ok(found)
}

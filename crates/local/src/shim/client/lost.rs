//! What is left of a node whose shim was killed.

use std::io;
use std::time::Duration;

use muster_core::ids::NodeId;
use rustix::process::Signal;
use tokio::time::{Instant, timeout_at};

use super::Shims;
use super::remove::remove_socket;
use crate::shim::folder::NodeFolder;
use crate::shim::launch::NODE_MARKER;
use crate::shim::lock::{Lock, NoLock};
use crate::sys::{self, Pidfd, ProcessId};

/// How long processes may take to end once they were killed: more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

impl Shims {
    /// Ends every process of a node whose shim is gone, and returns how many there were: those that carry its mark, and
    /// those of its session, since some overwrite their environment with their title.
    pub async fn clean_up_lost(&self, folder: &NodeFolder) -> io::Result<usize> {
        let _lock = match Lock::take(folder) {
            Ok(lock) => Some(lock),
            Err(NoLock::Gone) => None,
            Err(NoLock::Busy) => {
                let who = "the node's shim lives, or somebody else cleans up after it already";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, who));
            }
            Err(NoLock::Io(error)) => return Err(error),
        };
        self.clean_up(folder).await
    }

    /// The same for whoever has the node's lock.
    pub(super) async fn clean_up(&self, folder: &NodeFolder) -> io::Result<usize> {
        let known = folder.read_state().ok().flatten();
        let here = known.filter(|state| sys::boot_id().is_ok_and(|boot| boot == state.boot_id));
        let ended = end_all(folder.node(), here.map(|state| state.shim)).await?;
        remove_socket(self, folder);
        Ok(ended)
    }
}

/// Kills whatever is of the node, again and again: a process may have a child between look and kill.
async fn end_all(node: NodeId, shim: Option<ProcessId>) -> io::Result<usize> {
    let deadline = Instant::now() + PATIENCE;
    let mut count = 0;
    loop {
        let found =
            tokio::task::spawn_blocking(move || left(node, shim)).await.map_err(io::Error::other)??;
        if found.is_empty() {
            return Ok(count);
        }
        count += found.len();
        for (_, process) in &found {
            process.signal(Signal::KILL)?;
        }
        for (pid, process) in &found {
            timeout_at(deadline, process.ended()).await.map_err(|_| {
                let wait = PATIENCE.as_secs();
                io::Error::other(format!(
                    "process {pid} of node {node} was killed and has not ended in {wait} s"
                ))
            })??;
        }
    }
}

/// Every process of ours that is of the node, held so that its number cannot change hands.
fn left(node: NodeId, shim: Option<ProcessId>) -> io::Result<Vec<(i32, Pidfd)>> {
    let mark = format!("{NODE_MARKER}={node}");
    let is_of_node = |pid| sys::environment_has(pid, &mark) || shim.is_some_and(|shim| shim.led(pid));
    let mut found = Vec::new();
    for pid in sys::own_processes() {
        // Held before it is looked at: should it end and its number go to another, the signal goes to nobody.
        if is_of_node(pid)
            && let Some(process) = Pidfd::of_number(pid)?
            && is_of_node(pid)
        {
            found.push((pid, process));
        }
    }
    Ok(found)
}

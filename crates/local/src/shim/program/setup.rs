//! The beginning of a shim: from the order to a running command.

use std::fs;
use std::io::{self, IsTerminal as _, PipeWriter, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use muster_core::ids::NodeId;

use super::stage::{self, Failure};
use crate::shim::folder::NodeFolder;
use crate::shim::launch::{Launch, NODE_MARKER};
use crate::shim::lock::{Lock, NoLock};
use crate::shim::runtime::RuntimeFolder;
use crate::shim::wire::{Begun, Order};
use crate::sys::{self, ProcessId};

/// More than an environment can hold.
const LONGEST_ORDER: u64 = 8 * 1024 * 1024;

/// Reads the order from standard input.
pub(super) fn read_order() -> Result<Order, String> {
    let mut text = Vec::new();
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err("it reads its order from standard input".to_owned());
    }
    stdin.lock().take(LONGEST_ORDER).read_to_end(&mut text).map_err(|error| error.to_string())?;
    // A server that died while it wrote leaves half an order, which is none.
    let mut order: Order =
        serde_json::from_slice(&text).map_err(|error| format!("the order is not whole: {error}"))?;
    order.launch.environment.insert(NODE_MARKER.to_owned(), order.node.to_string());
    Ok(order)
}

/// Says what failed, in a sentence.
pub(super) fn failed(what: &str) -> impl Fn(io::Error) -> Begun {
    move |error| Begun::Failed { message: format!("{what}: {error}") }
}

/// Parts from whoever started us.
pub(super) fn part() -> io::Result<()> {
    sys::own_session()?;
    sys::adopt_orphans()?;
    // So that no folder is kept from being unmounted by us.
    std::env::set_current_dir("/")
}

/// Takes the node, if nobody has it and nobody with a higher generation was there before.
pub(super) fn take(folder: &NodeFolder, launch: &Launch) -> Result<Lock, Begun> {
    let mut lock = Lock::take(folder).map_err(|error| match error {
        NoLock::Busy => Begun::Busy,
        error => Begun::Failed { message: error.to_string() },
    })?;
    match lock.raise(launch.generation) {
        Ok(written) => written.map_err(failed("the generation cannot be written down"))?,
        Err(refused) => return Err(Begun::Refused { highest: refused.highest }),
    }
    Ok(lock)
}

/// A socket that goes with this value.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Listens there. What is found there was left by a shim that was killed: we have the node's lock.
    pub(super) fn bind(runtime: &Path, node: NodeId) -> io::Result<(Self, UnixListener)> {
        let path = RuntimeFolder::at(runtime)?.socket(node);
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let socket = Self { path };
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok((socket, listener))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Somebody may have tidied up the folder.
        let _ = fs::remove_file(&self.path);
    }
}

/// Starts the command, whose output goes to `output`.
pub(super) fn spawn(launch: &Launch, output: PipeWriter) -> io::Result<Result<ProcessId, Failure>> {
    let (mut report, reports) = io::pipe()?;
    let mut stage = stage::of(launch);
    stage.stdin(Stdio::from(reports)).stdout(output.try_clone()?).stderr(output);
    // Never waited for through this value: the supervisor reaps all children alike.
    let started = stage.spawn();
    // The command's builder keeps our ends open, and a pipe ends with its last writer.
    drop(stage);
    let pid = started?.id().cast_signed();
    let mut failure = String::new();
    report.read_to_string(&mut failure)?;
    if failure.is_empty() {
        let lost = || io::Error::other("the process ended before it was the command");
        return match ProcessId::of(pid) {
            Some(id) => Ok(Ok(id)),
            // It has ended already, and is there to be reaped: its start time is of no use to anybody.
            None if sys::has_ended(pid) => Ok(Ok(ProcessId { pid, start_time: 0 })),
            None => Err(lost()),
        };
    }
    sys::wait_for(pid);
    Ok(Err(serde_json::from_str(&failure)?))
}

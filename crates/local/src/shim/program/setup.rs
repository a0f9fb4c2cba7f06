//! The steps of a shim's start: it reads the start order, acquires the lock, opens the socket and starts the command.

use std::fs;
use std::io::{self, IsTerminal as _, PipeWriter, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use muster_core::ids::NodeId;

use super::stage::{self, StageFailure};
use crate::shim::folder::NodeFolder;
use crate::shim::launch::{LaunchSpec, NODE_MARKER};
use crate::shim::lock::{LockError, NodeLock};
use crate::shim::runtime::RuntimeFolder;
use crate::shim::wire::{StartOrder, StartReport};
use crate::sys::{self, ProcessId};

/// Largest start order; environments are smaller than this.
const MAX_ORDER_BYTES: u64 = 8 * 1024 * 1024;

/// Reads the start order from standard input.
pub(super) fn read_order() -> Result<StartOrder, String> {
    let mut text = Vec::new();
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err("it reads its start order from standard input".to_owned());
    }
    stdin.lock().take(MAX_ORDER_BYTES).read_to_end(&mut text).map_err(|error| error.to_string())?;
    // A server that dies while it writes leaves a partial order, which is refused.
    let mut order: StartOrder = serde_json::from_slice(&text)
        .map_err(|error| format!("the start order is incomplete or invalid: {error}"))?;
    order.launch.environment.insert(NODE_MARKER.to_owned(), order.node.to_string());
    Ok(order)
}

/// Returns a function that reports a failed step of the start.
pub(super) fn start_failure(what: &str) -> impl Fn(io::Error) -> StartReport {
    move |error| StartReport::Failed { message: format!("{what}: {error}") }
}

/// Detaches this process from the session and folder of the server that started it.
pub(super) fn detach_from_server() -> io::Result<()> {
    sys::start_session()?;
    sys::adopt_orphans()?;
    // A shim must not keep a file system from being unmounted.
    std::env::set_current_dir("/")
}

/// Acquires the lock of the node and records the generation, unless the node has seen a higher one.
pub(super) fn lock_node(folder: &NodeFolder, launch: &LaunchSpec) -> Result<NodeLock, StartReport> {
    let mut lock = NodeLock::acquire(folder).map_err(|error| match error {
        LockError::Busy => StartReport::Busy,
        error => StartReport::Failed { message: error.to_string() },
    })?;
    match lock.raise(launch.generation) {
        Ok(written) => written.map_err(start_failure("the generation cannot be recorded"))?,
        Err(refused) => return Err(StartReport::Refused { highest: refused.highest }),
    }
    Ok(lock)
}

/// A socket whose file is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Creates the socket. An existing file was left by a killed shim, since this shim holds the node's lock.
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
        // The file may have been removed by a clean-up of the folder.
        let _ = fs::remove_file(&self.path);
    }
}

/// Starts the command with its output going to `output`. The inner error says why the command cannot be executed.
pub(super) fn spawn_command(
    launch: &LaunchSpec,
    output: PipeWriter,
) -> io::Result<Result<ProcessId, StageFailure>> {
    let (mut report, reports) = io::pipe()?;
    let mut stage = stage::command(launch);
    stage.stdin(Stdio::from(reports)).stdout(output.try_clone()?).stderr(output);
    // The handle is dropped without waiting: the supervisor reaps all children.
    let started = stage.spawn();
    // The builder owns this process's ends of the pipes, which would otherwise keep the pipes open.
    drop(stage);
    let pid = started?.id().cast_signed();
    let mut failure = String::new();
    report.read_to_string(&mut failure)?;
    if failure.is_empty() {
        let lost = || io::Error::other("the process ended before it executed the command");
        return match ProcessId::find(pid) {
            Some(id) => Ok(Ok(id)),
            // The command has ended already and waits to be reaped; its start time is no longer needed.
            None if sys::has_ended(pid) => Ok(Ok(ProcessId { pid, start_time: 0 })),
            None => Err(lost()),
        };
    }
    sys::wait_for_child(pid);
    Ok(Err(serde_json::from_str(&failure)?))
}

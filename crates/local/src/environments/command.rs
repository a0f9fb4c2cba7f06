//! Runs commands that install or build environments, streams their output, and holds a lock until all of their
//! processes have ended.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use futures::SinkExt as _;
use futures::channel::mpsc::Sender;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;

use crate::sys::{Pidfd, own_processes};

/// Last lines of a failed command that an error contains.
const LAST_LINES: usize = 8;

/// Variables that would make pip install into another folder. Variables for package indexes are kept.
const PIP_TARGET_VARIABLES: [&str; 3] = ["PIP_PREFIX", "PIP_TARGET", "PIP_USER"];

/// Interval of attempts to lock a file: the release of a lock is not notified.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The failure of a command.
pub(super) enum CommandFailure {
    /// The command could not be started.
    NotStarted(String),
    /// The command ended with an error.
    Ended {
        /// The exit status.
        status: String,
        /// The last lines of its output.
        output: String,
    },
}

/// Sends the output lines of a command as messages.
#[derive(Clone)]
pub(super) struct LineSender<T> {
    sender: Sender<T>,
    message: fn(String) -> T,
}

impl<T> LineSender<T> {
    /// Sends lines to a channel, converted by `message`.
    pub(super) fn new(sender: Sender<T>, message: fn(String) -> T) -> Self {
        Self { sender, message }
    }

    pub(super) async fn send(&mut self, line: impl Into<String>) {
        // Fails if the receiver was dropped; then the stream that runs the command is dropped too.
        drop(self.sender.send((self.message)(line.into())).await);
    }
}

/// Kills every process whose standard input is this lock file, and returns their number. These are commands of a dead
/// server, which still hold the lock.
pub(super) fn kill_lock_holders(path: &Path) -> usize {
    let Ok(path) = path.canonicalize() else { return 0 };
    let is_input =
        |pid: &i32| std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|input| input == path);
    let holders = own_processes().filter(is_input).filter_map(|pid| Pidfd::open_pid(pid).ok().flatten());
    holders.filter(|holder| holder.signal(Signal::KILL).is_ok()).count()
}

/// The process group of a command, which is killed when this value is dropped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if the group has ended already.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// Locks a file. Sends the line of `waiting` if another process holds the lock.
pub(super) async fn lock_file<T>(
    path: &Path,
    mut waiting: Option<(&mut LineSender<T>, String)>,
) -> io::Result<File> {
    let lock = File::create(path)?;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {
                if let Some((lines, line)) = waiting.take() {
                    lines.send(line).await;
                }
            }
        }
        tokio::time::sleep(LOCK_INTERVAL).await;
    }
}

/// Runs a command to its end. Its processes inherit the lock, so that no other command starts while a command of a dead
/// server is still writing.
pub(super) async fn run_command<T>(
    mut command: Command,
    lock: &File,
    sender: &mut LineSender<T>,
) -> Result<(), CommandFailure> {
    let not_started = |error: io::Error| CommandFailure::NotStarted(error.to_string());
    let lock = lock.try_clone().map_err(not_started)?;
    // One pipe for output and errors keeps their order.
    let (reader, writer) = io::pipe().map_err(not_started)?;
    command.stdin(lock).stdout(writer.try_clone().map_err(not_started)?).stderr(writer);
    for name in PIP_TARGET_VARIABLES {
        command.env_remove(name);
    }
    let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(not_started)?;
    let group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    // Closes this process's write ends of the pipe, so that the pipe ends with the command's processes.
    drop(command);
    let reader = Receiver::from_owned_fd(reader.into()).map_err(not_started)?;
    let mut lines = BufReader::new(reader).split(b'\n');
    let mut last = VecDeque::with_capacity(LAST_LINES);
    let (mut ended, mut group) = (None, Some(group));
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next_segment() => line,
            status = child.wait(), if ended.is_none() => {
                ended = Some(status);
                // Kills remaining processes of the group, which would keep the pipe open.
                group.take();
                continue;
            }
        };
        let Ok(Some(line)) = line else { break };
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line.to_owned());
        sender.send(line).await;
    }
    let mut output = || last.make_contiguous().join("\n");
    let ended = match ended {
        Some(status) => status,
        None => child.wait().await,
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CommandFailure::Ended { status: status.to_string(), output: output() }),
        Err(error) => Err(CommandFailure::Ended { status: error.to_string(), output: output() }),
    }
}

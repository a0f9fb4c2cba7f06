//! Commands that make environments: run to their end, with their lines sent on, under a lock that lives as long as they do.

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

/// Lines of a command that tell what failed.
const LAST_LINES: usize = 8;

/// Settings of pip that would put packages elsewhere. Those that say where packages come from stay.
const ELSEWHERE: [&str; 3] = ["PIP_PREFIX", "PIP_TARGET", "PIP_USER"];

/// How often a lock is tried that another process may hold: nothing reports when it is free.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// How a command failed.
pub(super) enum Failed {
    /// It could not be started.
    NotStarted(String),
    /// It ended with an error.
    Ended {
        /// How it ended.
        status: String,
        /// Its last lines.
        said: String,
    },
}

/// Where the lines of a command go.
#[derive(Clone)]
pub(super) struct Lines<T> {
    sender: Sender<T>,
    message: fn(String) -> T,
}

impl<T> Lines<T> {
    /// Lines that are sent as these messages.
    pub(super) fn new(sender: Sender<T>, message: fn(String) -> T) -> Self {
        Self { sender, message }
    }

    pub(super) async fn send(&mut self, line: impl Into<String>) {
        // The receiver may have gone.
        drop(self.sender.send((self.message)(line.into())).await);
    }
}

/// Kills every process whose standard input is this file, and returns how many there were: commands of a server that is
/// dead, which hold the lock in it.
pub(super) fn kill_holders(path: &Path) -> usize {
    let Ok(path) = path.canonicalize() else { return 0 };
    let is_input =
        |pid: &i32| std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|input| input == path);
    let holders = own_processes().filter(is_input).filter_map(|pid| Pidfd::of_number(pid).ok().flatten());
    holders.filter(|holder| holder.signal(Signal::KILL).is_ok()).count()
}

/// The process group of a command, which ends with this value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended, which is as good.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

/// Takes the lock in a file; says so in a line if another process holds it.
pub(super) async fn lock<T>(path: &Path, mut waiting: Option<(&mut Lines<T>, String)>) -> io::Result<File> {
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
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Runs a command to its end. Whatever it started holds the lock too, so that nothing else begins while something still
/// writes there whose server is dead.
pub(super) async fn run<T>(mut command: Command, lock: &File, lines_to: &mut Lines<T>) -> Result<(), Failed> {
    let not_started = |error: io::Error| Failed::NotStarted(error.to_string());
    let lock = lock.try_clone().map_err(not_started)?;
    // One pipe for both, so that what it says stays in order.
    let (reader, writer) = io::pipe().map_err(not_started)?;
    command.stdin(lock).stdout(writer.try_clone().map_err(not_started)?).stderr(writer);
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(not_started)?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    // It has our ends of the pipe, too: without them the pipe ends with what was started.
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
                // What it started and left behind would keep the pipe open.
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
        lines_to.send(line).await;
    }
    let mut said = || last.make_contiguous().join("\n");
    let ended = match ended {
        Some(status) => status,
        None => child.wait().await,
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed::Ended { status: status.to_string(), said: said() }),
        Err(error) => Err(Failed::Ended { status: error.to_string(), said: said() }),
    }
}

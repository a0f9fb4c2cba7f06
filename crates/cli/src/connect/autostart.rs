//! Starts a server if none runs; a lock ensures that concurrent commands start only one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

use super::POLL_INTERVAL;
use super::channel::ServerConnection;
use super::folder::{Folder, FolderState};
use crate::failure::{Exit, Failure};
use crate::files::PRIVATE;
use crate::output::message;
use crate::serve::make_folder;

/// Time within which a server has to start. It is generous, since a server may have to migrate a large database first.
const START_LIMIT: Duration = Duration::from_mins(1);

/// Lock file of the command that starts a server.
const START_LOCK: &str = "start.lock";

/// Log file of a server that a command started.
const LOG_FILE: &str = "server.log";

/// Number of log lines that a failed start prints if none of them is an error.
const SHOWN_LINES: usize = 5;

/// The beginning of the line with which a failed server ends its log.
const ERROR: &str = "error: ";

/// Starts the server of a data folder, unless another command is starting it, and waits until it answers.
pub(super) async fn start(folder: &Folder, token: Option<&str>) -> Result<ServerConnection> {
    may_start(folder)?;
    make_folder(folder.path())?;
    let file = folder.path().join(START_LOCK);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(file);
    let lock = lock.context("cannot lock the data folder")?;
    let deadline = Instant::now() + START_LIMIT;
    let mut started: Option<Started> = None;
    // The lock is held until the server answers: the next command in line finds it running.
    let mut ours = false;
    loop {
        match folder.probe(token).await? {
            FolderState::Answering(connection) => {
                if let Some(started) = started {
                    started.print_started(folder);
                }
                return Ok(*connection);
            }
            FolderState::NoServer if started.is_none() => {
                ours = ours || try_lock(&lock)?;
                // Check again under the lock: another command may just have finished its start.
                if ours && matches!(folder.probe(token).await?, FolderState::NoServer) {
                    started = Some(Started::new(folder)?);
                }
            }
            FolderState::NoServer | FolderState::NotAnswering(_) => {}
        }
        if let Some(ended) = started.take_if(Started::has_ended) {
            // Ignore the failure if a server started by hand at the same moment holds the folder.
            if !folder.is_held()? {
                return Err(ended.into_error());
            }
        }
        if Instant::now() > deadline {
            let what = format!(
                "the server with the data folder {} did not start within {} s",
                folder.path().display(),
                START_LIMIT.as_secs()
            );
            let log = folder.path().join(LOG_FILE);
            return Err(Failure::new(Exit::Failed, what).hint(format!("see {}", log.display())).into());
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Fails if commands may not start servers here.
pub(super) fn may_start(folder: &Folder) -> Result<(), Failure> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let why = if set("MUSTER_NO_AUTOSTART") {
        "MUSTER_NO_AUTOSTART is set"
    } else if set("POD_NAME") {
        "this is a pod"
    } else {
        return Ok(());
    };
    let what = format!(
        "no server runs with the data folder {}, and none was started: {why}",
        folder.path().display()
    );
    Err(Failure::new(Exit::Failed, what).hint("start one with `muster serve`, or name one with --server"))
}

/// Tries to become the command that starts the server.
fn try_lock(lock: &File) -> Result<bool> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock the data folder"),
    }
}

/// A server process that was started and does not answer yet.
struct Started {
    child: Child,
    log: PathBuf,
    /// Offset in the log where the output of this process begins.
    begin: u64,
}

impl Started {
    fn new(folder: &Folder) -> Result<Self> {
        let log = folder.path().join(LOG_FILE);
        let opened = OpenOptions::new().create(true).append(true).mode(PRIVATE).open(&log);
        let output = opened.with_context(|| format!("cannot write {}", log.display()))?;
        let begin = output.metadata()?.len();
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let child = Command::new(program)
            .args(["serve", "--detached", "--data-dir"])
            .arg(folder.path())
            // Relative paths in its settings must not depend on where the command was run.
            .current_dir(folder.path())
            .env_remove("MUSTER_TOKEN")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start a server")?;
        Ok(Self { child, log, begin })
    }

    fn has_ended(&mut self) -> bool {
        // An error of the status query counts as running: the deadline ends the wait.
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Builds an error with the last lines of the server's log.
    fn into_error(self) -> anyhow::Error {
        let mut output = String::new();
        let read = File::open(&self.log).and_then(|mut log| {
            log.seek(SeekFrom::Start(self.begin))?;
            log.read_to_string(&mut output)
        });
        let last = match read {
            Ok(_) => last_lines(&output),
            Err(error) => format!("its log cannot be read: {error}"),
        };
        let what = format!("the server was started and ended at once; its last lines:\n  {last}");
        Failure::new(Exit::Failed, what).hint(format!("its log is {}", self.log.display())).into()
    }

    fn print_started(&self, folder: &Folder) {
        let at = folder.announced().map_or_else(String::new, |found| format!(" at {}", found.rest));
        message!("started a server{at} (log: {})", self.log.display());
    }
}

/// Returns the end of a server's log, indented: from its last error, if it has one.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.trim_end().lines().collect();
    let error = lines.iter().rposition(|line| line.starts_with(ERROR));
    lines[error.unwrap_or(lines.len().saturating_sub(SHOWN_LINES))..].join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_begins_with_its_last_error() {
        let error = "error: muster.toml is not valid: line 2, column 9\n  |\n2 | [[shape]\n  |         ^\nunclosed\n\n";
        let shown = last_lines(&format!("error: an older one\nserving\n{error}"));
        assert!(shown.starts_with("error: muster.toml") && shown.ends_with("\n  unclosed"), "{shown}");
        assert_eq!(last_lines("1\n2\n3\n4\n5\n6\n"), "2\n  3\n  4\n  5\n  6");
        assert_eq!(last_lines(""), "");
    }
}

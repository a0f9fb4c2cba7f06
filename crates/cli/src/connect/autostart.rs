//! Starting a server where none runs: once, however many commands want one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

use super::LOOK_AGAIN;
use super::channel::Way;
use super::folder::{Folder, Found};
use crate::failure::{Exit, Failure};
use crate::files::PRIVATE;
use crate::output::say;
use crate::serve::make_folder;

/// How long a server may take to come up: a large database is brought up to date first.
const COMING_UP: Duration = Duration::from_mins(1);

/// Held by the command that starts a server.
const START_LOCK: &str = "start.lock";

/// Where a server that a command started writes its log.
const LOG_FILE: &str = "server.log";

/// How much of the log a failed start shows.
const SHOWN_LINES: usize = 5;

/// Starts the folder's server, unless another command does at the same time, and waits until it answers.
pub(super) async fn start(folder: &Folder, token: Option<&str>) -> Result<Way> {
    may_start(folder)?;
    make_folder(folder.path())?;
    let file = folder.path().join(START_LOCK);
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(file);
    let lock = lock.context("cannot lock the data folder")?;
    let deadline = Instant::now() + COMING_UP;
    let mut started: Option<Started> = None;
    // Once held it stays so until the server answers: the next one in line finds it running.
    let mut ours = false;
    loop {
        match folder.look(token).await? {
            Found::Answers(way) => {
                if let Some(started) = started {
                    started.tell(folder);
                }
                return Ok(*way);
            }
            Found::Nobody if started.is_none() => {
                ours = ours || take(&lock)?;
                // Only what is seen under the lock counts: another command may just have finished its start.
                if ours && matches!(folder.look(token).await?, Found::Nobody) {
                    started = Some(Started::new(folder)?);
                }
            }
            Found::Nobody | Found::Silent(_) => {}
        }
        if let Some(ended) = started.take_if(Started::has_ended) {
            // Somebody may have started one by hand in the same moment, and was first.
            if !folder.is_held()? {
                return Err(ended.why());
            }
        }
        if Instant::now() > deadline {
            let what = format!(
                "no server came up with the data folder {} within {} s",
                folder.path().display(),
                COMING_UP.as_secs()
            );
            let log = folder.path().join(LOG_FILE);
            return Err(Failure::new(Exit::Failed, what).hint(format!("see {}", log.display())).into());
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn may_start(folder: &Folder) -> Result<(), Failure> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let why = if set("MUSTER_NO_AUTOSTART") {
        "MUSTER_NO_AUTOSTART is set"
    } else if set("POD_NAME") {
        "this is a pod"
    } else {
        return Ok(());
    };
    let what = format!(
        "no server runs with the data folder {}, and none is started: {why}",
        folder.path().display()
    );
    Err(Failure::new(Exit::Failed, what).hint("start one with `muster serve`, or name one with --server"))
}

/// Whether we are the one to start a server.
fn take(lock: &File) -> Result<bool> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock the data folder"),
    }
}

/// A server that was started and does not answer yet.
struct Started {
    child: Child,
    log: PathBuf,
    /// Where its part of the log begins.
    begin: u64,
}

impl Started {
    fn new(folder: &Folder) -> Result<Self> {
        let log = folder.path().join(LOG_FILE);
        let opened = OpenOptions::new().create(true).append(true).mode(PRIVATE).open(&log);
        let output = opened.with_context(|| format!("cannot write {}", log.display()))?;
        let begin = output.metadata()?.len();
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let child = Command::new(program)
            .args(["serve", "--detached", "--data-dir"])
            .arg(folder.path())
            // What it is told by a relative path would mean something else with every command that starts it.
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
        // One that cannot be asked about is waited for until the deadline.
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Its own words.
    fn why(self) -> anyhow::Error {
        let mut said = String::new();
        let read = File::open(&self.log).and_then(|mut log| {
            log.seek(SeekFrom::Start(self.begin))?;
            log.read_to_string(&mut said)
        });
        let lines: Vec<&str> = said.lines().collect();
        let last = match read {
            Ok(_) => lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n  "),
            Err(error) => format!("its log cannot be read: {error}"),
        };
        let what = format!("a server was started and ended at once; it said:\n  {last}");
        Failure::new(Exit::Failed, what).hint(format!("its log is {}", self.log.display())).into()
    }

    fn tell(&self, folder: &Folder) {
        let at = folder.announced().map_or_else(String::new, |found| format!(" at {}", found.rest));
        say!("no server was running: started one{at} (log: {})", self.log.display());
    }
}

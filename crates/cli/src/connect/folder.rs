//! The server of a data folder: it holds the folder's lock while it runs, and announces its address there.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::auth::Local;
use rustix::process::{Pid, test_kill_process};
use tokio::time::{Instant, sleep};

use super::POLL_INTERVAL;
use super::channel::{self, ServerConnection};
use crate::announcement::Announcement;
use crate::failure::{Exit, Failure};

/// Time within which a server has to start or stop before it counts as stuck.
const TRANSITION_LIMIT: Duration = Duration::from_secs(30);

/// A data folder, as commands use it.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
}

/// The state of a data folder's server.
pub(super) enum FolderState {
    /// No server holds the folder.
    NoServer,
    /// A server holds the folder and does not answer, for this reason: it is starting, stopping or stuck.
    NotAnswering(String),
    /// The server answers.
    Answering(Box<ServerConnection>),
}

impl Folder {
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).map_err(|error| {
            Failure::new(Exit::Usage, format!("data folder '{}': {error}", path.display()))
        })?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if a server has ever used the folder: its lock file remains.
    pub(super) fn was_used(&self) -> bool {
        self.path.join(crate::serve::LOCK_FILE).exists()
    }

    /// Returns true if a server holds the folder: the kernel releases the lock when it ends.
    pub(super) fn is_held(&self) -> Result<bool, Failure> {
        let unreadable = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("cannot use the data folder {}: {error}", self.path.display()))
                .hint("a data folder belongs to one user: choose your own with --data-dir")
        };
        let lock = match File::open(self.path.join(crate::serve::LOCK_FILE)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(unreadable(error)),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(unreadable(error)),
        }
    }

    /// Reads the announcement of the server; ignores one whose process is dead.
    pub(super) fn announced(&self) -> Option<Announcement> {
        let found = Announcement::read(&self.path)?;
        test_kill_process(Pid::from_raw(found.pid)?).ok()?;
        Some(found)
    }

    /// Returns true if a server that a command had started was killed. One that stops in order removes its
    /// announcement.
    pub(super) fn has_died(&self) -> bool {
        Announcement::read(&self.path).is_some_and(|left| left.detached)
    }

    /// Checks once. The token is sent only if the folder is held: the port may belong to another program by now.
    pub(super) async fn probe(&self, token: Option<&str>) -> Result<FolderState, Failure> {
        if !self.is_held()? {
            return Ok(FolderState::NoServer);
        }
        let Some(announced) = self.announced() else {
            return Ok(FolderState::NotAnswering("it has not announced its address".to_owned()));
        };
        let local = self.token()?;
        let scheme = if announced.tls { "https" } else { "http" };
        let address = format!("{scheme}://{}", announced.grpc);
        let connection = match channel::open(&address, token.or(local.as_deref())).await {
            Ok(connection) => connection,
            Err(failure) => return Ok(FolderState::NotAnswering(failure.what)),
        };
        let is_same = connection.info.as_ref().is_none_or(|info| info.server_id == announced.server_id);
        Ok(if is_same {
            FolderState::Answering(Box::new(connection))
        } else {
            FolderState::NotAnswering(format!("another server answers at {address}"))
        })
    }

    /// Reads the token of this machine's user; `None` if the server has none.
    fn token(&self) -> Result<Option<String>, Failure> {
        match Local::read_token(&self.path) {
            Ok(token) => Ok(Some(token)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::new(Exit::Failed, error.to_string())),
        }
    }

    /// Waits while a server is starting or stopping; returns the connection if it then answers.
    pub(super) async fn wait_until_settled(
        &self,
        token: Option<&str>,
    ) -> Result<Option<ServerConnection>, Failure> {
        let deadline = Instant::now() + TRANSITION_LIMIT;
        loop {
            match self.probe(token).await? {
                FolderState::NoServer => return Ok(None),
                FolderState::Answering(connection) => return Ok(Some(*connection)),
                FolderState::NotAnswering(why) if Instant::now() > deadline => {
                    return Err(self.stuck_error(&why));
                }
                FolderState::NotAnswering(_) => sleep(POLL_INTERVAL).await,
            }
        }
    }

    fn stuck_error(&self, why: &str) -> Failure {
        let process = self.announced().map_or_else(String::new, |found| format!(" (process {})", found.pid));
        let what = format!(
            "the server{process} of the data folder {} has not answered within {} s: {why}",
            self.path.display(),
            TRANSITION_LIMIT.as_secs()
        );
        Failure::new(Exit::Failed, what)
            .hint("see its log; end the process, and the next command starts a new server")
    }
}

//! The server of a data folder: who holds the folder lives, and says there where it answers.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::auth::Local;
use rustix::process::{Pid, test_kill_process};
use tokio::time::{Instant, sleep};

use super::LOOK_AGAIN;
use super::channel::{self, Way};
use crate::announcement::Announcement;
use crate::failure::{Exit, Failure};

/// How long a server may take to come up, or to go down, until that is called stuck.
const COMING_OR_GOING: Duration = Duration::from_secs(30);

/// A data folder, as a command sees it.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
}

/// What is found at a data folder.
pub(super) enum Found {
    /// No server has the folder.
    Nobody,
    /// A server has it and does not answer, for this reason: it comes up, goes down, or is stuck.
    Silent(String),
    /// Its server.
    Answers(Box<Way>),
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

    /// Whether a server has the folder: its lock ends with it, however it ends.
    pub(super) fn is_held(&self) -> Result<bool, Failure> {
        let unreadable = |error: std::io::Error| {
            Failure::new(
                Exit::Failed,
                format!("the data folder {} cannot be used: {error}", self.path.display()),
            )
            .hint("it belongs to one user: choose your own with --data-dir")
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

    /// Where its server says that it is; what a dead one left behind does not count.
    pub(super) fn announced(&self) -> Option<Announcement> {
        let found = Announcement::read(&self.path)?;
        test_kill_process(Pid::from_raw(found.pid)?).ok()?;
        Some(found)
    }

    /// Whether the server that had a folder which nobody has now was started by a command, and was killed: one that is
    /// told to stop takes its word back first.
    pub(super) fn has_died(&self) -> bool {
        Announcement::read(&self.path).is_some_and(|left| left.detached)
    }

    /// Looks once. The token goes only to whoever holds the folder: a port may be another program's by now.
    pub(super) async fn look(&self, token: Option<&str>) -> Result<Found, Failure> {
        if !self.is_held()? {
            return Ok(Found::Nobody);
        }
        let Some(announced) = self.announced() else {
            return Ok(Found::Silent("it does not say where it is".to_owned()));
        };
        let local = self.token()?;
        let scheme = if announced.tls { "https" } else { "http" };
        let address = format!("{scheme}://{}", announced.grpc);
        let way = match channel::reach(&address, token.or(local.as_deref())).await {
            Ok(way) => way,
            Err(failure) => return Ok(Found::Silent(failure.what)),
        };
        let is_it = way.info.as_ref().is_none_or(|info| info.server_id == announced.server_id);
        Ok(if is_it {
            Found::Answers(Box::new(way))
        } else {
            Found::Silent(format!("another server answers at {address}"))
        })
    }

    /// The token of this machine's user; a server may have none.
    fn token(&self) -> Result<Option<String>, Failure> {
        match Local::read_token(&self.path) {
            Ok(token) => Ok(Some(token)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::new(Exit::Failed, error.to_string())),
        }
    }

    /// Looks until it is clear whether there is a server: one that comes up or goes down is waited for.
    pub(super) async fn settled(&self, token: Option<&str>) -> Result<Option<Way>, Failure> {
        let deadline = Instant::now() + COMING_OR_GOING;
        loop {
            match self.look(token).await? {
                Found::Nobody => return Ok(None),
                Found::Answers(way) => return Ok(Some(*way)),
                Found::Silent(why) if Instant::now() > deadline => return Err(self.stuck(&why)),
                Found::Silent(_) => sleep(LOOK_AGAIN).await,
            }
        }
    }

    fn stuck(&self, why: &str) -> Failure {
        let who = self.announced().map_or_else(String::new, |found| format!(" (process {})", found.pid));
        let what = format!(
            "a server{who} has the data folder {} and has not answered within {} s: {why}",
            self.path.display(),
            COMING_OR_GOING.as_secs()
        );
        Failure::new(Exit::Failed, what)
            .hint("its log says why; once it is ended the next command starts another")
    }
}

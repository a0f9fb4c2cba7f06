//! Bringing a framework: at most one installation of each at a time, whoever asks, and whoever died in the middle.

use std::fs::File;
use std::path::{Path, PathBuf};

use futures::{SinkExt as _, StreamExt as _};
use muster_engine::ports::frameworks::{InstallProgress, Installation};
use muster_frameworks::LocalFramework;
use sha2::{Digest as _, Sha256};

use super::command::{self, Lines};
use super::make::Making;
use super::{Environment, Environments};

/// Written last: without it an environment is not used, and made again.
const COMPLETE: &str = "complete";

/// Lines that wait for a slow reader; pip writes a few hundred.
const LINES: usize = 64;

/// Where the environment of a framework is made: other pins, another folder.
pub(super) fn place(folder: &Path, framework: &dyn LocalFramework) -> PathBuf {
    let digest = Sha256::digest(framework.package().pins);
    folder.join(format!("{}-{:.12}", framework.framework(), format!("{digest:x}")))
}

/// The environment that was made for a framework, if it is whole.
pub(super) fn made(folder: &Path, framework: &dyn LocalFramework) -> Option<PathBuf> {
    let place = place(folder, framework);
    place.join(COMPLETE).exists().then_some(place)
}

/// To whom it is told how far an installation is.
#[derive(Clone)]
pub(super) struct Tell(futures::channel::mpsc::Sender<Result<InstallProgress, String>>);

impl Tell {
    /// What is being done now.
    pub(super) async fn doing(&mut self, what: impl Into<String>) {
        self.send(Ok(InstallProgress::Doing(what.into()))).await;
    }

    /// The same, line by line.
    pub(super) fn lines(&self) -> Lines<Result<InstallProgress, String>> {
        Lines::new(self.0.clone(), |line| Ok(InstallProgress::Doing(line)))
    }

    async fn send(&mut self, told: Result<InstallProgress, String>) {
        // Whoever asked may have gone.
        drop(self.0.send(told).await);
    }
}

impl Environments {
    /// Makes an environment with a framework, unless there is one, and tells of it as it goes. It ends with whoever
    /// listens: what is half made then is made again the next time.
    pub fn install(&self, framework: &'static dyn LocalFramework) -> Installation {
        let environments = self.clone();
        let (sender, told) = futures::channel::mpsc::channel(LINES);
        let installing = async move {
            let mut tell = Tell(sender);
            let brought = environments.bring(framework, &mut tell).await;
            tell.send(brought).await;
        };
        let installing = futures::stream::once(installing).filter_map(|()| std::future::ready(None));
        futures::stream::select(told, installing).boxed()
    }

    async fn bring(
        &self,
        framework: &'static dyn LocalFramework,
        tell: &mut Tell,
    ) -> Result<InstallProgress, String> {
        // Before anything is loaded that could not be used.
        self.require(framework).await.map_err(|unmet| unmet.to_string())?;
        let done = |found: Environment, already| InstallProgress::Done { found: found.into(), already };
        if let Ok(found) = self.find(framework, None).await {
            return Ok(done(found, true));
        }
        let lock = self.turn(framework, tell).await?;
        // Whoever had the turn before may have brought it.
        if let Ok(found) = self.find(framework, None).await {
            return Ok(done(found, true));
        }
        let place = place(&self.inner.folder, framework);
        let making = Making { framework, place: &place, base: &self.inner.base, lock: &lock };
        let completed = match making.run(tell).await {
            Ok(()) => File::create(place.join(COMPLETE)).map(drop).map_err(|error| making.on_disk(&error)),
            failed => failed,
        };
        if let Err(why) = completed {
            // What is left of it may be what fills the disk; if it cannot be removed now, the next try does.
            drop(std::fs::remove_dir_all(&place));
            return Err(why);
        }
        let found = self.find(framework, None).await;
        found.map(|found| done(found, false)).map_err(|missing| {
            format!("everything was installed in {}, and still {}", place.display(), missing.what())
        })
    }

    /// The lock of a framework's installation. What an installation starts holds it too, so that nobody begins while
    /// something still writes there whose server is dead.
    async fn turn(&self, framework: &dyn LocalFramework, tell: &mut Tell) -> Result<File, String> {
        let folder = &self.inner.folder;
        let name = framework.framework();
        let unusable = |error: &std::io::Error| {
            format!("{name} cannot be installed: the folder {} cannot be used: {error}", folder.display())
        };
        std::fs::create_dir_all(folder).map_err(|error| unusable(&error))?;
        let waiting = format!("{name} is being installed already: waiting for that");
        let lock =
            command::lock(&folder.join(format!("{name}.lock")), Some((&mut tell.lines(), waiting))).await;
        lock.map_err(|error| unusable(&error))
    }
}

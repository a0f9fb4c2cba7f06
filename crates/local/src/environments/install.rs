//! Installation, upgrade and removal of frameworks. A lock file ensures that only one runs per framework, even if a
//! server died during an earlier one.

use std::fs::File;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use muster_engine::ports::frameworks::{InstallProgress, Installation};
use muster_frameworks::LocalFramework;
use sha2::{Digest as _, Sha256};

use super::command::{self, LineSender};
use super::framework_build::FrameworkBuild;
use super::{Environment, EnvironmentSource, Environments, INTERPRETER, packages};

/// Marker file that is written last: environments without it are not used, and are created again.
const COMPLETE: &str = "complete";

/// Capacity of the progress channel; pip writes a few hundred lines.
const PROGRESS_CAPACITY: usize = 64;

/// Returns the folder of a framework's environment, which depends on the pinned versions.
pub(super) fn environment_folder(folder: &Path, framework: &dyn LocalFramework) -> PathBuf {
    let digest = Sha256::digest(framework.package().pins);
    folder.join(format!("{}-{:.12}", framework.framework(), format!("{digest:x}")))
}

/// Returns the folder of a framework's environment if the installation is complete.
pub(super) fn complete_environment(folder: &Path, framework: &dyn LocalFramework) -> Option<PathBuf> {
    let environment = environment_folder(folder, framework);
    environment.join(COMPLETE).exists().then_some(environment)
}

/// Sends the progress of an installation.
#[derive(Clone)]
pub(super) struct ProgressSender(futures::channel::mpsc::Sender<Result<InstallProgress, String>>);

impl ProgressSender {
    /// Reports the current step.
    pub(super) async fn report(&mut self, what: impl Into<String>) {
        self.send(Ok(InstallProgress::Doing(what.into()))).await;
    }

    /// Returns a sender for the output lines of a command.
    pub(super) fn lines(&self) -> LineSender<Result<InstallProgress, String>> {
        LineSender::new(self.0.clone(), |line| Ok(InstallProgress::Doing(line)))
    }

    async fn send(&mut self, progress: Result<InstallProgress, String>) {
        // Fails if the caller was dropped, which ends the installation.
        drop(self.0.send(progress).await);
    }
}

/// Runs a task as a stream of its progress, with the result last.
fn stream_progress<F>(task: impl FnOnce(ProgressSender) -> F + Send + 'static) -> Installation
where
    F: Future<Output = Result<InstallProgress, String>> + Send + 'static,
{
    let (sender, progress) = futures::channel::mpsc::channel(PROGRESS_CAPACITY);
    let working = async move {
        let mut progress_sender = ProgressSender(sender);
        let result = task(progress_sender.clone()).await;
        progress_sender.send(result).await;
    };
    let working = futures::stream::once(working).filter_map(|()| std::future::ready(None));
    futures::stream::select(progress, working).boxed()
}

/// Creates an environment with additional packages, and removes it if that fails.
async fn build_environment(
    build: &FrameworkBuild<'_>,
    packages: &[String],
    progress_sender: &mut ProgressSender,
) -> Result<(), String> {
    let completed = async {
        build.create(progress_sender).await?;
        if !packages.is_empty() {
            build.add_packages(packages, false, progress_sender).await?;
        }
        File::create(build.folder.join(COMPLETE)).map(drop).map_err(|error| build.on_disk(&error))
    };
    let completed = completed.await;
    if completed.is_err() {
        // Frees the disk space. If the removal fails, the next installation removes the folder.
        drop(std::fs::remove_dir_all(build.folder));
    }
    completed
}

impl Environments {
    /// Installs a framework unless it is installed, adds packages, and streams the progress. Dropping the stream
    /// cancels the installation; the next one starts over.
    pub fn install(&self, framework: &'static dyn LocalFramework, packages: Vec<String>) -> Installation {
        let environments = self.clone();
        stream_progress(move |mut progress_sender| async move {
            environments.perform_install(framework, packages, &mut progress_sender).await
        })
    }

    /// Upgrades an installed framework to the pinned versions, and added packages to the newest compatible ones.
    /// Environments of other pinned versions are removed unless `is_used`.
    pub fn upgrade(
        &self,
        framework: &'static dyn LocalFramework,
        is_used: BoxFuture<'static, bool>,
    ) -> Installation {
        let environments = self.clone();
        stream_progress(move |mut progress_sender| async move {
            environments.perform_upgrade(framework, is_used, &mut progress_sender).await
        })
    }

    /// Removes all installed environments of a framework. Returns false if there were none.
    pub async fn remove(&self, framework: &'static dyn LocalFramework) -> Result<bool, String> {
        let (sender, _) = futures::channel::mpsc::channel(PROGRESS_CAPACITY);
        let _lock = self.lock_installation(framework, &mut ProgressSender(sender)).await?;
        let folders = self.folders_of(framework);
        let name = framework.framework();
        for folder in &folders {
            // Removes the marker first, so that a partly removed environment is not used.
            drop(std::fs::remove_file(folder.join(COMPLETE)));
            std::fs::remove_dir_all(folder)
                .map_err(|error| format!("{name} cannot be removed from {}: {error}", folder.display()))?;
        }
        self.record_packages(framework, &[])?;
        self.forget_probes(framework);
        Ok(!folders.is_empty())
    }

    /// Lists the folders of a framework's environments, including those of other pinned versions.
    fn folders_of(&self, framework: &dyn LocalFramework) -> Vec<PathBuf> {
        let prefix = format!("{}-", framework.framework());
        let entries = std::fs::read_dir(&self.inner.folder).into_iter().flatten().flatten();
        let is_its = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&prefix)) && path.is_dir()
        };
        entries.map(|entry| entry.path()).filter(is_its).collect()
    }

    /// Returns true if Muster installed a framework, with the pinned versions of this or another release.
    pub(super) fn was_installed(&self, framework: &dyn LocalFramework) -> bool {
        !self.folders_of(framework).is_empty()
    }

    /// Returns true if an interpreter belongs to an environment that Muster installed or built.
    pub(super) fn is_installed_by_muster(&self, python: &Path) -> bool {
        python.starts_with(&self.inner.folder)
    }

    async fn perform_install(
        &self,
        framework: &'static dyn LocalFramework,
        packages: Vec<String>,
        progress_sender: &mut ProgressSender,
    ) -> Result<InstallProgress, String> {
        packages::check_packages(&packages)?;
        // Checked before the download of packages that could not be used.
        self.find_requirement(framework).await.map_err(|unmet| unmet.to_string())?;
        let done = |found: Environment, already| {
            let found = self.describe(framework, found);
            InstallProgress::Done { found, already }
        };
        if let Ok(found) = self.find(framework, None).await {
            if packages.is_empty() {
                return Ok(done(found, true));
            }
            if found.source != EnvironmentSource::Installed {
                return Err(packages::not_installed_by_muster(framework, &found, &packages));
            }
        }
        let lock = self.lock_installation(framework, progress_sender).await?;
        let environment = environment_folder(&self.inner.folder, framework);
        let build = FrameworkBuild { framework, folder: &environment, base: &self.inner.base, lock: &lock };
        // Another installation may have finished while this one waited for the lock.
        if let Ok(found) = self.find(framework, None).await {
            if packages.is_empty() {
                return Ok(done(found, true));
            }
            build.add_packages(&packages, false, progress_sender).await?;
            let all = packages::merge(self.added_packages(framework), packages);
            self.record_packages(framework, &all)?;
            return Ok(done(found, false));
        }
        let all = packages::merge(self.added_packages(framework), packages);
        build_environment(&build, &all, progress_sender).await?;
        self.record_packages(framework, &all)?;
        self.probe_installed(framework, &environment).await.map(|found| done(found, false))
    }

    async fn perform_upgrade(
        &self,
        framework: &'static dyn LocalFramework,
        is_used: BoxFuture<'static, bool>,
        progress_sender: &mut ProgressSender,
    ) -> Result<InstallProgress, String> {
        self.find_requirement(framework).await.map_err(|unmet| unmet.to_string())?;
        let lock = self.lock_installation(framework, progress_sender).await?;
        let before = self.folders_of(framework);
        if before.is_empty() {
            let name = framework.framework();
            return Err(format!(
                "{name} was not installed by Muster, so there is nothing to upgrade: `muster framework install {name}` \
                 installs it"
            ));
        }
        let environment = environment_folder(&self.inner.folder, framework);
        let build = FrameworkBuild { framework, folder: &environment, base: &self.inner.base, lock: &lock };
        let packages = self.added_packages(framework);
        if complete_environment(&self.inner.folder, framework).is_none() {
            build_environment(&build, &packages, progress_sender).await?;
        } else if !packages.is_empty() {
            build.add_packages(&packages, true, progress_sender).await?;
        }
        let older: Vec<PathBuf> = before.into_iter().filter(|folder| *folder != environment).collect();
        // Only asked now: the wait for the lock and the installation may take minutes.
        if !older.is_empty() && !is_used.await {
            for folder in &older {
                progress_sender.report(format!("removing {}", folder.display())).await;
                std::fs::remove_dir_all(folder)
                    .map_err(|error| format!("{} cannot be removed: {error}", folder.display()))?;
            }
        }
        self.forget_probes(framework);
        let found = self.probe_installed(framework, &environment).await?;
        Ok(InstallProgress::Done { found: self.describe(framework, found), already: false })
    }

    /// Probes the environment that was just installed.
    async fn probe_installed(
        &self,
        framework: &'static dyn LocalFramework,
        environment: &Path,
    ) -> Result<Environment, String> {
        let found =
            Environment::probe(environment.join(INTERPRETER), EnvironmentSource::Installed, framework).await;
        found.map_err(|why| {
            let name = framework.framework();
            format!("{name} was installed in {} but cannot be used: {why}", environment.display())
        })
    }

    /// Locks the installation of a framework. Its commands inherit the lock, so that no installation starts while a
    /// command of a dead server is still writing.
    async fn lock_installation(
        &self,
        framework: &dyn LocalFramework,
        progress_sender: &mut ProgressSender,
    ) -> Result<File, String> {
        let folder = &self.inner.folder;
        let name = framework.framework();
        let unusable = |error: &std::io::Error| {
            format!("{name} cannot be installed: the folder {} cannot be used: {error}", folder.display())
        };
        std::fs::create_dir_all(folder).map_err(|error| unusable(&error))?;
        let waiting = format!("another installation of {name} is running: waiting for it to end");
        let lock = command::lock_file(
            &folder.join(format!("{name}.lock")),
            Some((&mut progress_sender.lines(), waiting)),
        )
        .await;
        lock.map_err(|error| unusable(&error))
    }
}

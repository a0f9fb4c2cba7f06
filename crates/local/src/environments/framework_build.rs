//! Creates an environment with the pinned packages of a framework.

use std::fs::File;
use std::path::Path;

use muster_frameworks::LocalFramework;
use tokio::process::Command;

use super::INTERPRETER;
use super::command::{self, CommandFailure};
use super::install::ProgressSender;

/// The file with pinned versions, in the format of pip.
const PINS: &str = "pins.txt";

/// The system's message for a full disk.
const DISK_FULL: &str = "No space left on device";

/// Variables with the versions of build dependencies, for newer and older versions of pip.
const CONSTRAINTS: [&str; 2] = ["PIP_BUILD_CONSTRAINT", "PIP_CONSTRAINT"];

/// The option in the pins of frameworks whose packages are built from source.
const FROM_SOURCE: &str = "--no-binary";

/// The creation of one environment.
pub(super) struct FrameworkBuild<'a> {
    pub(super) framework: &'static dyn LocalFramework,
    /// The folder of the environment.
    pub(super) folder: &'a Path,
    /// The interpreter that creates the environment.
    pub(super) base: &'a Path,
    /// The lock that all writing processes hold.
    pub(super) lock: &'a File,
}

impl FrameworkBuild<'_> {
    /// Creates the environment, replacing an incomplete one.
    pub(super) async fn create(&self, progress_sender: &mut ProgressSender) -> Result<(), String> {
        if self.folder.exists() {
            std::fs::remove_dir_all(self.folder).map_err(|error| self.on_disk(&error))?;
        }
        progress_sender.report(format!("creating a Python environment in {}", self.folder.display())).await;
        let mut venv = Command::new(self.base);
        venv.args(["-I", "-m", "venv"]).arg(self.folder);
        self.run_command(venv, progress_sender).await.map_err(|failed| self.no_environment(&failed))?;
        let pins = self.framework.package().pins;
        std::fs::write(self.folder.join(PINS), pins).map_err(|error| self.on_disk(&error))?;
        let mut pip = Command::new(self.folder.join(INTERPRETER));
        pip.current_dir(self.folder);
        if pins.contains(FROM_SOURCE) {
            // Pins build dependencies as well. Only for source builds: with constraints, pip reports an unreachable
            // index as a version conflict. A relative file name, since pip splits the value at spaces.
            pip.envs(CONSTRAINTS.map(|name| (name, PINS)));
        }
        pip.args(["-I", "-m", "pip", "install", "--no-input", "--no-deps", "--only-binary", ":all:"]);
        pip.args(["--progress-bar", "off", "--disable-pip-version-check", "--requirement", PINS]);
        self.run_command(pip, progress_sender).await.map_err(|failed| self.no_packages(&failed))
    }

    /// Adds packages to the environment without changing the pinned versions.
    pub(super) async fn add_packages(
        &self,
        packages: &[String],
        upgrade: bool,
        progress_sender: &mut ProgressSender,
    ) -> Result<(), String> {
        progress_sender.report(format!("adding {}", packages.join(", "))).await;
        let mut pip = Command::new(self.folder.join(INTERPRETER));
        pip.current_dir(self.folder);
        pip.args(["-I", "-m", "pip", "install", "--no-input", "--constraint", PINS]);
        pip.args(["--progress-bar", "off", "--disable-pip-version-check"]);
        if upgrade {
            pip.arg("--upgrade");
        }
        pip.arg("--").args(packages);
        self.run_command(pip, progress_sender)
            .await
            .map_err(|failed| self.no_added_packages(packages, &failed))
    }

    fn no_added_packages(&self, packages: &[String], failed: &CommandFailure) -> String {
        let (name, packages) = (self.framework.framework(), packages.join(", "));
        match failed {
            CommandFailure::NotStarted(error) => {
                format!("the environment in {} cannot be run: {error}", self.folder.display())
            }
            CommandFailure::Ended { status, output } => self.disk_full(output).unwrap_or_else(|| {
                format!("{packages} cannot be added to {name} (pip: {status}). Last output of pip:\n{output}")
            }),
        }
    }

    /// Returns the message for a file or folder that cannot be written.
    pub(super) fn on_disk(&self, error: &std::io::Error) -> String {
        let error = error.to_string();
        self.disk_full(&error).unwrap_or_else(|| {
            format!(
                "{} cannot be installed in {}: {error}",
                self.framework.framework(),
                self.folder.display()
            )
        })
    }

    fn disk_full(&self, output: &str) -> Option<String> {
        output.contains(DISK_FULL).then(|| {
            let (name, folder) = (self.framework.framework(), self.folder.display());
            format!(
                "{name} cannot be installed in {folder}: the disk is full; free some space and install again"
            )
        })
    }

    fn no_environment(&self, failed: &CommandFailure) -> String {
        let python = self.base.display();
        match failed {
            CommandFailure::NotStarted(error) => format!(
                "{python} cannot be run, which creates the environment ({error}): install Python 3 with its \
                 module venv (on Debian: apt install python3-venv)"
            ),
            CommandFailure::Ended { output, .. }
                if output.contains("No module named venv") || output.contains("ensurepip") =>
            {
                format!(
                    "{python} has no module venv or ensurepip, which creates environments: install it (on \
                     Debian: apt install python3-venv). Last output:\n{output}"
                )
            }
            CommandFailure::Ended { status, output } => self.disk_full(output).unwrap_or_else(|| {
                format!("{python} could not create an environment ({status}). Last output:\n{output}")
            }),
        }
    }

    fn no_packages(&self, failed: &CommandFailure) -> String {
        let name = self.framework.framework();
        match failed {
            CommandFailure::NotStarted(error) => {
                format!("the environment in {} cannot be run: {error}", self.folder.display())
            }
            CommandFailure::Ended { output, .. } if output.contains("No module named pip") => format!(
                "the environment that {} creates has no pip: install its module ensurepip (on Debian: apt install \
                 python3-venv). Last output:\n{output}",
                self.base.display()
            ),
            CommandFailure::Ended { status, output } => self.disk_full(output).unwrap_or_else(|| {
                format!(
                    "the packages of {name} could not be installed (pip: {status}). If the package index cannot be \
                     reached, set PIP_INDEX_URL or PIP_PROXY where the server runs, or MUSTER_PYTHON to an \
                     interpreter that has {name}. Last output of pip:\n{output}"
                )
            }),
        }
    }

    async fn run_command(
        &self,
        command: Command,
        progress_sender: &mut ProgressSender,
    ) -> Result<(), CommandFailure> {
        command::run_command(command, self.lock, &mut progress_sender.lines()).await
    }
}

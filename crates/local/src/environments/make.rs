//! Making an environment with what a framework pins.

use std::fs::File;
use std::path::Path;

use muster_frameworks::LocalFramework;
use tokio::process::Command;

use super::INTERPRETER;
use super::command::{self, Failed};
use super::install::Tell;

/// The pins of an environment, as pip reads them.
const PINS: &str = "pins.txt";

/// What the system says when a disk has no room.
const DISK_FULL: &str = "No space left on device";

/// What tells pip the versions of packages that it needs to build others, in its younger and older versions.
const CONSTRAINTS: [&str; 2] = ["PIP_BUILD_CONSTRAINT", "PIP_CONSTRAINT"];

/// What stands in the pins of packages that are built here.
const FROM_SOURCE: &str = "--no-binary";

/// One environment that is being made.
pub(super) struct Making<'a> {
    pub(super) framework: &'static dyn LocalFramework,
    /// Where.
    pub(super) place: &'a Path,
    /// The interpreter that it is made of.
    pub(super) base: &'a Path,
    /// What everything that writes there holds.
    pub(super) lock: &'a File,
}

impl Making<'_> {
    /// Makes it anew.
    pub(super) async fn run(&self, tell: &mut Tell) -> Result<(), String> {
        if self.place.exists() {
            std::fs::remove_dir_all(self.place).map_err(|error| self.on_disk(&error))?;
        }
        tell.doing(format!("making a Python environment in {}", self.place.display())).await;
        let mut venv = Command::new(self.base);
        venv.args(["-I", "-m", "venv"]).arg(self.place);
        self.command(venv, tell).await.map_err(|failed| self.no_environment(&failed))?;
        let pins = self.framework.package().pins;
        std::fs::write(self.place.join(PINS), pins).map_err(|error| self.on_disk(&error))?;
        let mut pip = Command::new(self.place.join(INTERPRETER));
        pip.current_dir(self.place);
        if pins.contains(FROM_SOURCE) {
            // What builds a package is pinned, too. Only then: with constraints pip takes an index that does not answer
            // for a conflict of versions. Their name alone: it would take one with spaces for several.
            pip.envs(CONSTRAINTS.map(|name| (name, PINS)));
        }
        pip.args(["-I", "-m", "pip", "install", "--no-input", "--no-deps", "--only-binary", ":all:"]);
        pip.args(["--progress-bar", "off", "--disable-pip-version-check", "--requirement", PINS]);
        self.command(pip, tell).await.map_err(|failed| self.no_packages(&failed))
    }

    /// A file or folder cannot be written.
    pub(super) fn on_disk(&self, error: &std::io::Error) -> String {
        let error = error.to_string();
        self.disk_full(&error).unwrap_or_else(|| {
            format!("{} cannot be installed in {}: {error}", self.framework.framework(), self.place.display())
        })
    }

    fn disk_full(&self, said: &str) -> Option<String> {
        said.contains(DISK_FULL).then(|| {
            let (name, place) = (self.framework.framework(), self.place.display());
            format!(
                "{name} cannot be installed in {place}: the disk is full; free some space and install again"
            )
        })
    }

    fn no_environment(&self, failed: &Failed) -> String {
        let python = self.base.display();
        match failed {
            Failed::NotStarted(error) => format!(
                "{python} cannot be run, and environments are made with it ({error}): install Python 3 with its \
                 module venv (on Debian: apt install python3-venv)"
            ),
            Failed::Ended { said, .. }
                if said.contains("No module named venv") || said.contains("ensurepip") =>
            {
                format!(
                    "{python} has no module venv or ensurepip, with which environments are made: install it (on \
                     Debian: apt install python3-venv). It said last:\n{said}"
                )
            }
            Failed::Ended { status, said } => self.disk_full(said).unwrap_or_else(|| {
                format!("{python} could not make an environment ({status}). It said last:\n{said}")
            }),
        }
    }

    fn no_packages(&self, failed: &Failed) -> String {
        let name = self.framework.framework();
        match failed {
            Failed::NotStarted(error) => {
                format!("the environment in {} cannot be run: {error}", self.place.display())
            }
            Failed::Ended { said, .. } if said.contains("No module named pip") => format!(
                "the environment that {} makes has no pip: install its module ensurepip (on Debian: apt install \
                 python3-venv). It said last:\n{said}",
                self.base.display()
            ),
            Failed::Ended { status, said } => self.disk_full(said).unwrap_or_else(|| {
                format!(
                    "the packages of {name} could not be installed (pip: {status}). If the package index cannot be \
                     reached, set PIP_INDEX_URL or PIP_PROXY where the server runs, or MUSTER_PYTHON to an \
                     interpreter that has {name}. pip said last:\n{said}"
                )
            }),
        }
    }

    async fn command(&self, command: Command, tell: &mut Tell) -> Result<(), Failed> {
        command::run(command, self.lock, &mut tell.lines()).await
    }
}

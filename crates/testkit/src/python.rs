//! Python environments with the frameworks installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shared;
use crate::wire::PythonParts;

/// A package of a few kilobytes, to check whether the package index is reachable.
const SMALL: &str = "locket==1.0.0";

/// The Python environment of that name (`dask`), or `None` if the test is skipped.
pub async fn python(environment: &str) -> Option<Python> {
    let PythonParts { python } = shared::obtain(&format!("python/{environment}")).await?;
    Some(Python { path: python })
}

/// A Python environment.
#[derive(Debug, Clone)]
pub struct Python {
    path: PathBuf,
}

impl Python {
    /// The interpreter.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs the interpreter, with unbuffered output.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("PYTHONUNBUFFERED", "1");
        command
    }
}

/// Returns true if the package index is reachable; otherwise the test is skipped.
pub async fn package_index() -> bool {
    // This environment has a working pip.
    let Some(python) = python("dask").await else { return false };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut download = python.command();
    download.args(["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--retries", "1", "--quiet"]);
    download.args(["--disable-pip-version-check", "--dest"]).arg(folder.path()).arg(SMALL);
    let tried = download.output().expect("pip runs");
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        let last = said.lines().last().unwrap_or_default();
        crate::skip(&format!("the Python package index cannot be reached: {last}"));
    }
    tried.status.success()
}

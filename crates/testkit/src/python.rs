//! Python environments with the frameworks in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shared;
use crate::wire::PythonParts;

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

    /// A command that runs the interpreter, with output that is not held back in a buffer.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("PYTHONUNBUFFERED", "1");
        command
    }
}

//! Asking an interpreter whether it has a package.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// A slow disk may need seconds for the first start of Python.
const PATIENCE: Duration = Duration::from_secs(30);

/// Finds the package, and where it is, without importing it, which would take much longer.
const QUESTION: &str = "\
import importlib.metadata as m, importlib.util as u, os, sys
name = sys.argv[1]
print(m.version(name))
print(os.path.dirname(u.find_spec(name).origin))";

/// What an interpreter has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probed {
    pub(super) version: String,
    /// The folder of the package.
    pub(super) package: PathBuf,
}

pub(super) async fn probe(python: &Path, package: &str) -> Result<Probed, String> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", QUESTION, package]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let answer = tokio::time::timeout(PATIENCE, command.output());
    let answer = answer.await.map_err(|_| format!("no answer in {} seconds", PATIENCE.as_secs()))?;
    let answer = answer.map_err(|error| format!("cannot be run: {error}"))?;
    let said = |text: &[u8]| String::from_utf8_lossy(text).trim().to_owned();
    if answer.status.success() {
        let said = said(&answer.stdout);
        let mut lines = said.lines().map(str::to_owned);
        let version = lines.next().unwrap_or_default();
        return Ok(Probed { version, package: lines.next().unwrap_or_default().into() });
    }
    let why = said(&answer.stderr);
    if why.contains("PackageNotFoundError") {
        return Err(format!("has no {package}"));
    }
    Err(why.lines().last().unwrap_or("failed without a word").to_owned())
}

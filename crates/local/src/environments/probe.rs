//! Asking an interpreter whether it has a package.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// A slow disk may need seconds for the first start of Python.
const PATIENCE: Duration = Duration::from_secs(30);

/// Finds the package without importing it, which would take much longer.
const QUESTION: &str = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))";

/// What an interpreter has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probed {
    pub(super) version: String,
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
        return Ok(Probed { version: said(&answer.stdout) });
    }
    let why = said(&answer.stderr);
    if why.contains("PackageNotFoundError") {
        return Err(format!("has no {package}"));
    }
    Err(why.lines().last().unwrap_or("failed without a word").to_owned())
}

//! Probes an interpreter for a package.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Time limit of a probe: the first start of Python may take seconds on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program that prints version and folder of a package, without the much slower import.
const PROGRAM: &str = "\
import importlib.metadata as m, importlib.util as u, os, sys
name = sys.argv[1]
print(m.version(name))
print(os.path.dirname(u.find_spec(name).origin))
print('.'.join(map(str, sys.version_info[:3])))";

/// The version and folder of a package in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProbedPackage {
    pub(super) version: String,
    /// The folder of the package.
    pub(super) package: PathBuf,
    /// The version of Python; empty if the interpreter did not print it.
    pub(super) python_version: String,
}

pub(super) async fn probe(python: &Path, package: &str) -> Result<ProbedPackage, String> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", PROGRAM, package]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let answer = tokio::time::timeout(TIMEOUT, command.output());
    let answer = answer.await.map_err(|_| format!("no answer in {} seconds", TIMEOUT.as_secs()))?;
    let answer = answer.map_err(|error| format!("cannot be run: {error}"))?;
    let trimmed = |text: &[u8]| String::from_utf8_lossy(text).trim().to_owned();
    if answer.status.success() {
        let output = trimmed(&answer.stdout);
        let mut lines = output.lines().map(str::to_owned);
        let version = lines.next().unwrap_or_default();
        let package = lines.next().unwrap_or_default().into();
        return Ok(ProbedPackage { version, package, python_version: lines.next().unwrap_or_default() });
    }
    let why = trimmed(&answer.stderr);
    if why.contains("PackageNotFoundError") {
        return Err(format!("has no {package}"));
    }
    Err(why.lines().last().unwrap_or("failed without output").to_owned())
}

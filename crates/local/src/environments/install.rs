//! Making an environment with what a framework pins.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use muster_frameworks::LocalFramework;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{Environments, INTERPRETER};

/// Written last: without it an environment is not used, and made again.
const COMPLETE: &str = "complete";

/// The pins of an environment, as pip reads them.
const PINS: &str = "pins.txt";

/// What is told on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// What is being done now, in a line.
    Doing(String),
    /// It is there.
    Done(PathBuf),
}

/// Lines that wait for a slow reader; pip writes a few hundred.
const LINES: usize = 64;

/// Lines of pip that tell what failed.
const LAST_LINES: usize = 8;

/// Where the environment of a framework is made: other pins, another folder.
fn place(folder: &Path, framework: &dyn LocalFramework) -> PathBuf {
    let digest = Sha256::digest(framework.package().pins);
    folder.join(format!("{}-{:.12}", framework.framework(), format!("{digest:x}")))
}

/// The environment that was made for a framework, if it is whole.
pub(super) fn made(folder: &Path, framework: &dyn LocalFramework) -> Option<PathBuf> {
    let place = place(folder, framework);
    place.join(COMPLETE).exists().then_some(place)
}

impl Environments {
    /// Makes an environment with a framework, and tells of it as it goes. One that is there is not made again.
    pub fn install(
        &self,
        framework: &'static dyn LocalFramework,
    ) -> BoxStream<'static, Result<Progress, String>> {
        let folder = self.inner.folder.clone();
        let (mut tell, told) = futures::channel::mpsc::channel(LINES);
        let making = async move {
            let made = make(&folder, framework, &mut tell).await;
            // Whoever asked may have gone.
            drop(tell.send(made.map(Progress::Done)).await);
        };
        // Ends with whoever listens: a half-made environment is made again the next time.
        let making = futures::stream::once(making).filter_map(|()| std::future::ready(None));
        futures::stream::select(told, making).boxed()
    }
}

type Tell = futures::channel::mpsc::Sender<Result<Progress, String>>;

async fn make(folder: &Path, framework: &dyn LocalFramework, tell: &mut Tell) -> Result<PathBuf, String> {
    let cannot = |what: &str, why: &dyn std::fmt::Display| format!("cannot {what}: {why}");
    std::fs::create_dir_all(folder).map_err(|why| cannot("make the folder for environments", &why))?;
    let name = framework.framework();
    let lock = File::create(folder.join(format!("{name}.lock"))).map_err(|why| cannot("lock", &why))?;
    if lock.try_lock().is_err() {
        return Err(format!("{name} is being installed already: wait for that"));
    }
    let place = place(folder, framework);
    if made(folder, framework).is_some() {
        return Ok(place.join(INTERPRETER));
    }
    if place.exists() {
        std::fs::remove_dir_all(&place).map_err(|why| cannot("remove what was half made", &why))?;
    }
    doing(tell, format!("making a Python environment in {}", place.display())).await;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&place);
    run(venv, tell, "python3 with its module venv is needed (on Debian: apt install python3-venv)").await?;
    let pins = place.join(PINS);
    std::fs::write(&pins, framework.package().pins).map_err(|why| cannot("write the pins", &why))?;
    let mut pip = Command::new(place.join(INTERPRETER));
    pip.args(["-m", "pip", "install", "--no-input", "--no-deps", "--only-binary", ":all:"]);
    pip.args(["--progress-bar", "off", "--disable-pip-version-check", "--requirement"]).arg(&pins);
    run(pip, tell, "its packages could not be installed").await?;
    std::fs::write(place.join(COMPLETE), "").map_err(|why| cannot("finish", &why))?;
    Ok(place.join(INTERPRETER))
}

async fn doing(tell: &mut Tell, what: String) {
    drop(tell.send(Ok(Progress::Doing(what))).await);
}

/// Runs a command, tells what it says, and says what failed if it does.
async fn run(mut command: Command, tell: &mut Tell, failed: &str) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("{failed}: {error}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let lines = |pipe: Option<_>| pipe.map(|pipe| BufReader::new(pipe).lines());
    let (mut out, mut err) = (lines(out), err.map(|pipe| BufReader::new(pipe).lines()));
    let mut last: Vec<String> = Vec::new();
    loop {
        let line = tokio::select! {
            Some(line) = next(&mut out) => line,
            Some(line) = next(&mut err) => line,
            else => break,
        };
        last.push(line.clone());
        if last.len() > LAST_LINES {
            last.remove(0);
        }
        doing(tell, line).await;
    }
    match child.wait().await {
        Ok(status) if ExitStatus::success(&status) => Ok(()),
        Ok(status) => Err(format!("{failed} ({status}): {}", last.join("\n"))),
        Err(error) => Err(format!("{failed}: {error}")),
    }
}

async fn next<R: tokio::io::AsyncRead + Unpin>(
    lines: &mut Option<tokio::io::Lines<BufReader<R>>>,
) -> Option<String> {
    match lines.as_mut()?.next_line().await {
        Ok(Some(line)) => Some(line),
        Ok(None) | Err(_) => {
            *lines = None;
            None
        }
    }
}

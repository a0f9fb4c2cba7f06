//! Running one long command: what it is, that it still runs, how long it took, and its last words if it failed.

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often a silent step says that it still runs.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// Lines of a failed step's output that are shown.
const TAIL: usize = 25;

/// Runs `command` with its output on the terminal.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<()> {
    eprintln!("» {what}");
    let status = command.stdin(Stdio::null()).status().with_context(|| cannot_start(command))?;
    if status.success() { Ok(()) } else { bail!("{what}: {}", describe(status)) }
}

/// Runs `command` with its output in `log`, and shows the end of that only if it failed.
pub(crate) fn run_quietly(what: &str, command: &mut Command, log: &Path) -> Result<()> {
    eprintln!("» {what}");
    let started = Instant::now();
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| cannot_start(command))?;
    let status = heartbeat(what, started, move || child.wait())?;
    if status.success() {
        eprintln!("  done in {:.0?}", started.elapsed());
        return Ok(());
    }
    bail!("{what}: {}\n{}", describe(status), tail(log));
}

/// Waits for `work`, saying every now and then that it still goes on.
fn heartbeat(
    what: &str,
    started: Instant,
    work: impl FnOnce() -> std::io::Result<ExitStatus> + Send + 'static,
) -> Result<ExitStatus> {
    let (done, ended) = mpsc::channel();
    let waiter = thread::spawn(move || done.send(work()));
    loop {
        match ended.recv_timeout(HEARTBEAT) {
            Ok(status) => {
                drop(waiter.join());
                return Ok(status?);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                eprintln!("  still at it after {} s: {what}", started.elapsed().as_secs());
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => bail!("{what}: its watcher ended early"),
        }
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    format!("    {}", lines[lines.len().saturating_sub(TAIL)..].join("\n    "))
}

fn describe(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("failed with exit code {code}"))
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start {}", command.get_program().to_string_lossy())
}

/// Whether a program can be started, by its version.
pub(crate) fn version_of(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

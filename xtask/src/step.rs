//! The execution of a long command, with messages about its progress, its duration, and the end of its log if it
//! failed.

mod failure;

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

pub(crate) use failure::StepFailure;

/// The interval of progress messages of a silent step.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// Runs `command` with its output on the terminal.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<()> {
    eprintln!("» {what}");
    let status = command.stdin(Stdio::null()).status().with_context(|| cannot_start(command))?;
    if status.success() { Ok(()) } else { bail!("{what}: {}", failure::describe(status)) }
}

/// Runs `command` with its output in `log`, whose end is shown only if the command failed.
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
    Err(StepFailure::new(what, status, log).into())
}

/// Wraps a command so that the kernel kills it when the thread that starts it ends, also if xtask is killed.
pub(crate) fn dying_with_us(command: &Command) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

/// Waits for `work`, with a progress message at intervals.
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

fn cannot_start(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let whose = if program == "setpriv" { " (of util-linux)" } else { "" };
    format!("cannot start {program}{whose}")
}

/// The version that a program prints; `None` if it cannot be run.
pub(crate) fn version_of(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

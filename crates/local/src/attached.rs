//! Commands that end with the process that started them, their launcher.
//!
//! A stage process sets the parent-death signal and then executes the command. That signal does not reach children of
//! the command, so a guard process ends the whole process group if the launcher is killed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::sys;

/// The first argument of the stage.
const STAGE: &str = "attached-stage";

/// The first argument of the guard.
const GUARD: &str = "attached-guard";

/// Time between SIGTERM and SIGKILL for a process group whose launcher was killed.
const GRACE: Duration = Duration::from_secs(10);

/// The interval at which the guard checks if the group has ended.
const PERIOD: Duration = Duration::from_millis(50);

/// Exit code of a command that does not exist, as in shells.
pub(crate) const NO_SUCH_COMMAND: u8 = 127;

/// Exit code of a command that cannot be executed, as in shells.
pub(crate) const CANNOT_RUN: u8 = 126;

/// Returns a command that gets SIGTERM when the thread that starts it ends.
pub fn command(program: &OsStr, arguments: &[OsString], own_group: bool) -> Command {
    // This path executes the running program, even if an upgrade has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("muster").arg(STAGE).arg(sys::own_pid().to_string()).arg(program).args(arguments);
    if own_group {
        command.process_group(0);
    }
    command
}

/// A process that ends a process group once the launcher of that group is killed.
#[derive(Debug)]
pub struct GroupGuard(Child);

impl GroupGuard {
    /// Starts a guard of the process group of `leader`, which must be a child that is not reaped yet.
    pub fn start(leader: u32) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("muster").arg(GUARD).arg(leader.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In its own group Ctrl-C does not reach the guard.
        command.process_group(0).spawn().map(Self)
    }

    /// Ends the guard without ending the process group.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // The write fails if the guard was killed, which is harmless.
            let _ = pipe.write_all(b"dismissed");
        }
        let _ = self.0.wait();
    }
}

/// Runs the stage or the guard if this process was started as one; returns `None` otherwise.
pub fn run_if_invoked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    if first == GUARD {
        let leader = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
        return Some(leader.map_or(ExitCode::FAILURE, guard));
    }
    (first == STAGE).then(|| stage(arguments))
}

/// Waits until the launcher dismisses the guard through the pipe. If the pipe closes first, the launcher has died, and
/// the guard ends the process group of `leader`.
fn guard(leader: i32) -> ExitCode {
    let is_dismissed = io::stdin().read(&mut [0]).is_ok_and(|read| read > 0);
    if !is_dismissed {
        sys::signal_group(leader, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while sys::has_group(leader) && Instant::now() < deadline {
            std::thread::sleep(PERIOD);
        }
        sys::signal_group(leader, Signal::KILL);
    }
    ExitCode::SUCCESS
}

fn stage(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, arguments.next()) else { return CANNOT_RUN.into() };
    match sys::set_parent_death_signal(parent, Signal::TERM) {
        Ok(true) => {}
        // The launcher ended before the signal was set.
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => {
            drop(write_error(&format!("the command cannot be tied to its launcher: {error}")));
            return CANNOT_RUN.into();
        }
    }
    let error = Command::new(&program).args(arguments).exec();
    drop(write_error(&format!("cannot run '{}': {error}", program.display())));
    if error.kind() == io::ErrorKind::NotFound { NO_SUCH_COMMAND } else { CANNOT_RUN }.into()
}

fn write_error(why: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{why}")
}

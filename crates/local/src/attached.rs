//! Commands that end with the process that started them. A stage sets the parent-death signal, then becomes the command.
//! That signal reaches the command alone, so a guard ends what the command started, if their launcher is killed.

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

/// How long a process group has to end after its launcher was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a group that has to end is checked.
const PERIOD: Duration = Duration::from_millis(50);

/// As shells say that there is no such command.
pub(crate) const NO_SUCH_COMMAND: u8 = 127;

/// As shells say that a command cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;

/// A command that gets SIGTERM when the thread that starts it ends, in a process group of its own if that is wanted.
pub fn command(program: &OsStr, arguments: &[OsString], own_group: bool) -> Command {
    // This very program, also when its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("muster").arg(STAGE).arg(sys::own_pid().to_string()).arg(program).args(arguments);
    if own_group {
        command.process_group(0);
    }
    command
}

/// A process that ends a process group once the launcher of that group is killed.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts a guard over the group of this leader, a child of ours that was not reaped yet.
    pub fn over(leader: u32) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("muster").arg(GUARD).arg(leader.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C is not for it.
        command.process_group(0).spawn().map(Self)
    }

    /// Ends the guard, and only the guard.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // A guard that was killed cannot read it and need not.
            let _ = pipe.write_all(b"dismissed");
        }
        let _ = self.0.wait();
    }
}

/// Becomes the command, or does the guard's work, if this process was started for that.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    if first == GUARD {
        let leader = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
        return Some(leader.map_or(ExitCode::FAILURE, guard));
    }
    (first == STAGE).then(|| stage(arguments))
}

/// Waits for a word from the launcher. If its end of the pipe is closed without one, the launcher was killed.
fn guard(leader: i32) -> ExitCode {
    let is_dismissed = io::stdin().read(&mut [0]).is_ok_and(|read| read > 0);
    if !is_dismissed {
        sys::signal_group(leader, Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
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
    match sys::end_with(parent, Signal::TERM) {
        Ok(true) => {}
        // Its launcher has ended meanwhile.
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => {
            drop(explain(&format!("the command cannot be tied to its launcher: {error}")));
            return CANNOT_RUN.into();
        }
    }
    let error = Command::new(&program).args(arguments).exec();
    drop(explain(&format!("cannot run '{}': {error}", program.display())));
    if error.kind() == io::ErrorKind::NotFound { NO_SUCH_COMMAND } else { CANNOT_RUN }.into()
}

fn explain(why: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{why}")
}

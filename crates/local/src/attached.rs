//! Commands that end with the process that started them: a stage sets the parent-death signal, then becomes the command.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

use crate::sys;

/// The first argument of the stage.
const STAGE: &str = "attached-stage";

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

/// Becomes the command, if this process was started as its stage.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != STAGE {
        return None;
    }
    let parent = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, arguments.next()) else { return Some(CANNOT_RUN.into()) };
    match sys::end_with(parent, Signal::TERM) {
        Ok(true) => {}
        // Its launcher has ended meanwhile.
        Ok(false) => return Some(ExitCode::FAILURE),
        Err(error) => {
            drop(explain(&format!("the command cannot be tied to its launcher: {error}")));
            return Some(CANNOT_RUN.into());
        }
    }
    let error = Command::new(&program).args(arguments).exec();
    drop(explain(&format!("cannot run '{}': {error}", program.display())));
    Some(if error.kind() == io::ErrorKind::NotFound { NO_SUCH_COMMAND } else { CANNOT_RUN }.into())
}

fn explain(why: &str) -> io::Result<()> {
    use std::io::Write as _;
    writeln!(io::stderr(), "{why}")
}

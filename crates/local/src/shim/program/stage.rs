//! The stage between the shim and the node's command: it arranges what only the process itself can, then becomes
//! the command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::STAGE;
use crate::attached::{CANNOT_RUN, NO_SUCH_COMMAND};
use crate::shim::launch::Launch;
use crate::sys;

/// Why the command was not reached.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) code: i32,
    pub(super) message: String,
}

/// The stage of a launch, to be started by the shim. Its standard input is where it reports.
pub(super) fn of(launch: &Launch) -> Command {
    // This very program, also when its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("muster").arg(STAGE).arg(sys::own_pid().to_string()).arg(&launch.working_folder);
    command.args(&launch.command).env_clear().envs(&launch.environment);
    command
}

/// Becomes the command, or reports why not and ends.
pub(super) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Ok(mut report) = sys::keep_stdin() else { return ExitCode::FAILURE };
    // Without a shim nobody is there to be told.
    let Some(failure) = become_command(&mut arguments) else { return ExitCode::FAILURE };
    tell(&mut report, &failure);
    ExitCode::from(u8::try_from(failure.code).unwrap_or(1))
}

fn tell(report: &mut File, failure: &Failure) {
    let _ = report.write_all(&serde_json::to_vec(failure).unwrap_or_default());
}

fn become_command(arguments: &mut impl Iterator<Item = OsString>) -> Option<Failure> {
    let refuse = |message: String| Some(Failure { code: CANNOT_RUN.into(), message });
    let shim = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(shim), Some(folder)) = (shim, arguments.next()) else {
        return refuse("the stage was started without the shim's number and a folder".to_owned());
    };
    match sys::end_with(shim, Signal::KILL) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return refuse(format!("the process cannot be tied to its shim: {error}")),
    }
    if let Err(error) = sys::own_group() {
        return refuse(format!("the process cannot have a group of its own: {error}"));
    }
    let folder = Path::new(&folder);
    if let Err(error) = std::env::set_current_dir(folder) {
        return refuse(format!("the working folder '{}' cannot be entered: {error}", folder.display()));
    }
    let Some(program) = arguments.next().filter(|program| !program.is_empty()) else {
        return refuse("the node has no command".to_owned());
    };
    let error = Command::new(&program).args(arguments).exec();
    Some(explain(&program, &error))
}

fn explain(program: &OsStr, error: &io::Error) -> Failure {
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => Failure {
            code: NO_SUCH_COMMAND.into(),
            message: format!("there is no command '{program}', or what its first line names is missing"),
        },
        io::ErrorKind::PermissionDenied => Failure {
            code: CANNOT_RUN.into(),
            message: format!("the command '{program}' may not be run: it is not executable"),
        },
        _ => Failure {
            code: CANNOT_RUN.into(),
            message: format!("the command '{program}' cannot be run: {error}"),
        },
    }
}

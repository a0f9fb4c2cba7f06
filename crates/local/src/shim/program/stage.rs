//! The stage: sets the parent-death signal, process group and working folder, which a process can only set for itself,
//! and then executes the node's command.

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
use crate::shim::launch::LaunchSpec;
use crate::sys;

/// The reason why the command was not executed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StageFailure {
    pub(super) code: i32,
    pub(super) message: String,
}

/// Returns the command that starts the stage. The stage reports failures to its standard input, which must be a pipe.
pub(super) fn command(launch: &LaunchSpec) -> Command {
    // This path executes the running program, even if an upgrade has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("muster").arg(STAGE).arg(sys::own_pid().to_string()).arg(&launch.working_folder);
    command.args(&launch.command).env_clear().envs(&launch.environment);
    command
}

/// Executes the command; returns only if that fails.
pub(super) fn run_stage(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Ok(mut report) = sys::take_stdin() else { return ExitCode::FAILURE };
    // Without a failure to report, the shim has ended, and no process reads the pipe.
    let Some(failure) = execute_command(&mut arguments) else { return ExitCode::FAILURE };
    report_failure(&mut report, &failure);
    ExitCode::from(u8::try_from(failure.code).unwrap_or(1))
}

fn report_failure(report: &mut File, failure: &StageFailure) {
    let _ = report.write_all(&serde_json::to_vec(failure).unwrap_or_default());
}

fn execute_command(arguments: &mut impl Iterator<Item = OsString>) -> Option<StageFailure> {
    let refuse = |message: String| Some(StageFailure { code: CANNOT_RUN.into(), message });
    let shim = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(shim), Some(folder)) = (shim, arguments.next()) else {
        return refuse("the stage needs the process number of the shim and a folder as arguments".to_owned());
    };
    match sys::set_parent_death_signal(shim, Signal::KILL) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return refuse(format!("the parent-death signal cannot be set: {error}")),
    }
    if let Err(error) = sys::start_process_group() {
        return refuse(format!("the process group cannot be created: {error}"));
    }
    let folder = Path::new(&folder);
    if let Err(error) = std::env::set_current_dir(folder) {
        return refuse(format!("the working folder '{}' cannot be entered: {error}", folder.display()));
    }
    let Some(program) = arguments.next().filter(|program| !program.is_empty()) else {
        return refuse("the node has no command".to_owned());
    };
    let error = Command::new(&program).args(arguments).exec();
    Some(describe_error(&program, &error))
}

fn describe_error(program: &OsStr, error: &io::Error) -> StageFailure {
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => StageFailure {
            code: NO_SUCH_COMMAND.into(),
            message: format!(
                "command '{program}' not found, or the interpreter in its first line is missing"
            ),
        },
        io::ErrorKind::PermissionDenied => StageFailure {
            code: CANNOT_RUN.into(),
            message: format!("command '{program}' cannot be run: it is not executable"),
        },
        _ => StageFailure {
            code: CANNOT_RUN.into(),
            message: format!("command '{program}' cannot be run: {error}"),
        },
    }
}

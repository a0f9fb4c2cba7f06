//! What commands print, and how they end.

use std::io::Write as _;
use std::process::ExitCode;

/// Prints to standard output; a closed pipe is no reason to panic.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The exit code of a command; an error is told on standard error, with its causes.
pub(crate) fn exit(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The exit code of a refusal by the server, which is told on standard error.
pub(crate) fn refused(status: &tonic::Status) -> ExitCode {
    use tonic::Code;
    eprintln!("error: {}", status.message());
    ExitCode::from(match status.code() {
        Code::InvalidArgument => 2,
        Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::Aborted => 3,
        Code::NotFound => 4,
        Code::DeadlineExceeded => 5,
        _ => 1,
    })
}

//! What commands print, and how they end.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

/// Prints to standard output; a closed pipe is no reason to panic.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// An error whose exit code says more than that it failed.
#[derive(Debug)]
pub(crate) struct Coded {
    code: u8,
    error: anyhow::Error,
}

impl Coded {
    /// A value, or a file of values, that cannot be used.
    pub(crate) fn bad_value(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 2, error: error.into() }
    }

    /// Refused by a rule: somebody else has it.
    pub(crate) fn in_use(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 3, error: error.into() }
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl std::error::Error for Coded {}

/// The exit code of a command; an error is told on standard error, with its causes.
pub(crate) fn exit(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        tell(format_args!("{error:#}"));
        ExitCode::from(error.downcast_ref::<Coded>().map_or(1, |coded| coded.code))
    })
}

/// Says on standard error what went wrong; if not even that can be written, the exit code has to do.
fn tell(what: fmt::Arguments<'_>) {
    drop(writeln!(std::io::stderr(), "error: {what}"));
}

/// The exit code of a refusal by the server, which is told on standard error.
pub(crate) fn refused(status: &tonic::Status) -> ExitCode {
    use tonic::Code;
    tell(format_args!("{}", status.message()));
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

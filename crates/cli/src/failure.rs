//! Errors of commands, and their exit codes.

use std::fmt;
use std::process::ExitCode;

use muster_api::error::ERROR_HEADER;
use tonic::{Code, Status};

/// Exit codes, which scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command failed, or the server is unreachable.
    Failed = 1,
    /// Wrong usage or invalid values.
    Usage = 2,
    /// A rule refused the request.
    Refused = 3,
    /// The object was not found.
    NotFound = 4,
    /// The time limit passed.
    TimedOut = 5,
    /// The program cannot be executed (as in shells).
    CannotRun = 126,
    /// The program does not exist (as in shells).
    NoSuchCommand = 127,
    /// Ctrl-C: 128 + SIGINT (as in shells).
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with its reason and a hint on what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    hint: String,
    /// True if the name of the object to create is in use already.
    pub(crate) is_taken: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), hint: String::new(), is_taken: false }
    }

    /// Returns the failure for an invalid value or settings file.
    pub(crate) fn bad_value(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Exit::Usage, format!("{:#}", error.into()))
    }

    /// Returns the failure of a command that needs something which another user or program uses already.
    pub(crate) fn in_use(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Exit::Refused, format!("{:#}", error.into()))
    }

    /// Adds advice on what the user can do about the failure.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\nhint: {}", self.hint) }
    }
}

impl std::error::Error for Failure {}

/// Returns the stable error code, if Muster itself answered.
pub(crate) fn error_code(status: &Status) -> Option<&str> {
    status.metadata().get(ERROR_HEADER).and_then(|code| code.to_str().ok())
}

/// Returns true if a retry may succeed: no answer, or a server that is shutting down.
pub(crate) fn is_retryable(status: &Status) -> bool {
    let unknown_app = error_code(status) == Some("AppUnknown");
    connection_lost(status) || (status.code() == Code::Unavailable && !unknown_app)
}

/// Returns true if no server answered, as opposed to an answer with an error.
pub(crate) fn connection_lost(status: &Status) -> bool {
    let from_transport =
        matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal);
    from_transport && error_code(status).is_none()
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let exit = match (error_code(&status), status.code()) {
            (Some("ActionFailed" | "InstallFailed" | "FrameworkMissing" | "RequirementMissing"), _) => {
                Exit::Failed
            }
            (_, Code::InvalidArgument | Code::OutOfRange) => Exit::Usage,
            (
                _,
                Code::AlreadyExists
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::FailedPrecondition
                | Code::Aborted,
            ) => Exit::Refused,
            (_, Code::NotFound) => Exit::NotFound,
            (_, Code::DeadlineExceeded) => Exit::TimedOut,
            _ => Exit::Failed,
        };
        let what = if connection_lost(&status) {
            format!("lost the connection to the server: {}", status.message())
        } else {
            status.message().to_owned()
        };
        let is_taken = status.code() == Code::AlreadyExists;
        Self { is_taken, ..Self::new(exit, what).hint(hint(&status)) }
    }
}

fn hint(status: &Status) -> &'static str {
    match error_code(status).unwrap_or_default() {
        "ClusterNotFound" => "`muster get -A` lists the clusters of all namespaces, -n selects a namespace",
        "ActionNotFound" => "`muster actions` lists them",
        "Unauthenticated" => "set --token or MUSTER_TOKEN",
        "QuotaExceeded" => "delete what you no longer need, or ask an admin for a higher quota",
        "Unimplemented" => "the server may be older than this program: `muster whoami` warns if so",
        "ActionFailed" => "`muster events NAME` and `muster actions NAME` show details",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use muster_api::ApiError;

    use super::*;

    #[test]
    fn every_refusal_has_its_exit_code() {
        let cases = [
            (ApiError::invalid("x"), Exit::Usage),
            (ApiError::not_json("x"), Exit::Usage),
            (ApiError::exists("x"), Exit::Refused),
            (ApiError::forbidden("x"), Exit::Refused),
            (ApiError::unauthenticated("x"), Exit::Refused),
            (ApiError::quota("x"), Exit::Refused),
            (ApiError::conflict("x"), Exit::Refused),
            (ApiError::impossible("x"), Exit::Refused),
            (ApiError::impossible("x").code("ActionFailed"), Exit::Failed),
            (ApiError::impossible("x").code("InstallFailed"), Exit::Failed),
            (ApiError::not_found("x"), Exit::NotFound),
            (ApiError::timed_out("x"), Exit::TimedOut),
            (ApiError::unavailable("x"), Exit::Failed),
            (ApiError::unimplemented("x"), Exit::Failed),
            (ApiError::internal("x"), Exit::Failed),
        ];
        for (error, exit) in cases {
            let status = Status::from(error.clone());
            assert!(!connection_lost(&status), "{error:?}");
            assert_eq!(Failure::from(status).exit, exit, "{error:?}");
        }
    }

    #[test]
    fn a_broken_connection_is_retryable_and_fails() {
        let status = Status::unknown("transport error");
        assert!(connection_lost(&status) && is_retryable(&status));
        let stopping = Status::from(ApiError::unavailable("the server stops"));
        assert!(is_retryable(&stopping) && !is_retryable(&ApiError::internal("a defect").into()));
        assert_eq!(Failure::from(status).exit, Exit::Failed);
    }

    #[test]
    fn the_hint_is_printed_below_the_error() {
        let missing = Failure::from(Status::from(ApiError::not_found("no 'x'").code("ActionNotFound")));
        assert_eq!(missing.to_string(), "no 'x'\nhint: `muster actions` lists them");
        assert_eq!(Failure::new(Exit::Failed, "no").to_string(), "no");
    }
}

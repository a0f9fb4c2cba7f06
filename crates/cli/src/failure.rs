//! Why a command did not do what it was asked, and the exit code that says so.

use std::fmt;
use std::process::ExitCode;

use muster_api::error::ERROR_HEADER;
use tonic::{Code, Status};

/// How a command ended, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It failed, or the server could not be reached.
    Failed = 1,
    /// Usage and bad values.
    Usage = 2,
    /// A rule refused it.
    Refused = 3,
    /// What it is about is not there.
    NotFound = 4,
    /// It took too long.
    TimedOut = 5,
    /// A command that cannot be run, as shells say it.
    CannotRun = 126,
    /// A command that does not exist, as shells say it.
    NoSuchCommand = 127,
    /// Ctrl-C: as shells count signals.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What went wrong and why, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    hint: String,
    /// The name of what should be created is taken.
    pub(crate) is_taken: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), hint: String::new(), is_taken: false }
    }

    /// A value, or a file of values, that cannot be used.
    pub(crate) fn bad_value(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Exit::Usage, format!("{:#}", error.into()))
    }

    /// Refused by a rule: somebody else has it.
    pub(crate) fn in_use(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Exit::Refused, format!("{:#}", error.into()))
    }

    /// The same, with what to do about it.
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

/// The stable word of a refusal, if it is one of Muster's.
pub(crate) fn word(status: &Status) -> Option<&str> {
    status.metadata().get(ERROR_HEADER).and_then(|word| word.to_str().ok())
}

/// Whether it is worth asking again: nobody answered, or a server that is about to stop.
pub(crate) fn is_passing(status: &Status) -> bool {
    let unknown_app = word(status) == Some("AppUnknown");
    connection_lost(status) || (status.code() == Code::Unavailable && !unknown_app)
}

/// Whether nobody answered, rather than somebody refused.
pub(crate) fn connection_lost(status: &Status) -> bool {
    let by_nobody =
        matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal);
    by_nobody && word(status).is_none()
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let exit = match (word(&status), status.code()) {
            (Some("ActionFailed" | "InstallFailed"), _) => Exit::Failed,
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
            format!("the server does not answer any more: {}", status.message())
        } else {
            status.message().to_owned()
        };
        let is_taken = status.code() == Code::AlreadyExists;
        Self { is_taken, ..Self::new(exit, what).hint(hint(&status)) }
    }
}

fn hint(status: &Status) -> &'static str {
    match word(status).unwrap_or_default() {
        "ClusterNotFound" => "`muster get -A` lists the clusters of all namespaces; -n chooses one",
        "ActionNotFound" => "`muster actions` lists them",
        "Unauthenticated" => "say who you are with --token or MUSTER_TOKEN",
        "QuotaExceeded" => "delete what is not needed any more, or ask an admin for more",
        "Unimplemented" => "the server may be older than this program: `muster whoami` says if so",
        "ActionFailed" => "`muster events NAME` and `muster actions NAME` say more",
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
    fn a_broken_connection_is_no_refusal() {
        let status = Status::unknown("transport error");
        assert!(connection_lost(&status) && is_passing(&status));
        let stopping = Status::from(ApiError::unavailable("the server stops"));
        assert!(is_passing(&stopping) && !is_passing(&ApiError::internal("a defect").into()));
        assert_eq!(Failure::from(status).exit, Exit::Failed);
    }

    #[test]
    fn what_to_do_stands_below_what_is_wrong() {
        let missing = Failure::from(Status::from(ApiError::not_found("no 'x'").code("ActionNotFound")));
        assert_eq!(missing.to_string(), "no 'x'\nhint: `muster actions` lists them");
        assert_eq!(Failure::new(Exit::Failed, "no").to_string(), "no");
    }
}

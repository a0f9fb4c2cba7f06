//! Conversion of errors of the API server to provider errors, with a reason, and transient if a retry may help.

use kube::Error;
use kube::core::Status;
use kube::core::response::reason::NOT_FOUND;
use kube::runtime::watcher;
use muster_engine::ports::provider::ProviderError;

/// The reason of changes that an admission webhook or an admission policy denied.
const REJECTED: &str = "Rejected";

/// Returns the error of a request that failed. `doing` completes the sentence "cannot …".
pub(crate) fn request_error(doing: &str, error: Error) -> ProviderError {
    match error {
        Error::Api(status) => status_error(doing, &status),
        error => ProviderError::transient(
            "Unreachable",
            format!("cannot {doing}: Kubernetes API unreachable: {error}"),
        ),
    }
}

/// Returns the error of a request that timed out.
pub(crate) fn timeout_error(doing: &str) -> ProviderError {
    ProviderError::transient("TimedOut", format!("cannot {doing}: the Kubernetes API did not answer in time"))
}

/// Returns true if a watch ended because the server's account may not watch.
pub(crate) fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => has_status(error, 403),
        watcher::Error::WatchError(status) => status.code == 403,
        watcher::Error::NoResourceVersion => false,
    }
}

/// Returns the message of an error that ended a watch.
pub(crate) fn watch_error_message(error: watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => request_error("watch", error).message,
        watcher::Error::WatchError(status) => status_error("watch", &status).message,
        watcher::Error::NoResourceVersion => "cannot watch: answers have no resource version".to_owned(),
    }
}

fn status_error(doing: &str, status: &Status) -> ProviderError {
    let message = status.message.trim();
    let full_message = format!("cannot {doing}: {message}");
    let has_cause = |reason: &str| {
        status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    };
    match status.code {
        // A webhook chooses the status of its denial.
        400..=499 if message.contains("denied the request") || message.contains("denied request") => {
            ProviderError::permanent(REJECTED, full_message)
        }
        401 => ProviderError::transient(
            "Unauthenticated",
            format!("{full_message}: the Kubernetes API rejects the server's credentials"),
        ),
        403 if message.contains("exceeded quota") => ProviderError::permanent("QuotaExceeded", full_message),
        403 if has_cause("NamespaceTerminating") => {
            ProviderError::permanent("NamespaceTerminating", full_message)
        }
        403 => ProviderError::permanent("Forbidden", full_message),
        404 if status.reason == NOT_FOUND => ProviderError::permanent("NotFound", full_message),
        404 => ProviderError::transient(
            "NotNow",
            format!("{full_message}: Kubernetes does not serve this kind now"),
        ),
        409 => ProviderError::transient("Conflict", full_message),
        413 => ProviderError::permanent("TooLarge", full_message),
        // Requests beyond etcd's own limits fail as errors of the server.
        500 if is_too_large(message) => ProviderError::permanent(
            "TooLarge",
            format!("{full_message}: the object is too large for Kubernetes"),
        ),
        400 | 405 | 406 | 415 | 422 => ProviderError::permanent("Invalid", full_message),
        _ => ProviderError::transient("NotNow", full_message),
    }
}

fn is_too_large(message: &str) -> bool {
    message.contains("request is too large") || message.contains("message larger than max")
}

/// Returns true if the API server answered that the object does not exist. Not every 404 says so: the page for a path
/// that is not served, which has no reason, is also the answer for custom resources while the API server sets up their
/// definition, and that of some proxies while the API server is unreachable.
pub(crate) fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404 && status.reason == NOT_FOUND)
}

/// Returns true if the API server does not serve the kind, for good or for a moment.
pub(crate) fn is_not_served(error: &Error) -> bool {
    has_status(error, 404) && !is_not_found(error)
}

/// Returns the object that was read; none if it does not exist.
pub(crate) fn found<T>(doing: &str, result: kube::Result<T>) -> Result<Option<T>, ProviderError> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(request_error(doing, error)),
    }
}

/// Returns true if the API server answered with this status code.
pub(crate) fn has_status(error: &Error, code: u16) -> bool {
    matches!(error, Error::Api(status) if status.code == code)
}

#[cfg(test)]
mod tests {
    use kube::core::response::{StatusCause, StatusDetails};
    use rstest::rstest;

    use super::*;

    fn status(code: u16, message: &str, cause: &str) -> Status {
        let cause = StatusCause { reason: cause.to_owned(), message: String::new(), field: String::new() };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        };
        Status { code, message: message.to_owned(), details: Some(details), ..Status::default() }
    }

    #[rstest]
    #[case(403, "pods \"x\" is forbidden: exceeded quota: few", "", "QuotaExceeded", false)]
    #[case(403, "namespace demo is being terminated", "NamespaceTerminating", "NamespaceTerminating", false)]
    #[case(403, "User \"x\" cannot create resource \"rayclusters\"", "", "Forbidden", false)]
    #[case(422, "spec.x: Invalid value", "", "Invalid", false)]
    #[case(403, "admission webhook \"x\" denied the request: no", "", "Rejected", false)]
    #[case(422, "admission webhook \"x\" denied the request: no", "", "Rejected", false)]
    #[case(403, "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no", "", "Rejected", false)]
    #[case(409, "the object has been modified", "", "Conflict", true)]
    #[case(500, "etcdserver: request is too large", "", "TooLarge", false)]
    #[case(500, "failed calling webhook \"x\"", "", "NotNow", true)]
    #[case(503, "try again", "", "NotNow", true)]
    fn an_error_has_a_reason_and_says_whether_a_retry_may_help(
        #[case] code: u16,
        #[case] message: &str,
        #[case] cause: &str,
        #[case] reason: &str,
        #[case] transient: bool,
    ) {
        let error = request_error("create it", Error::Api(Box::new(status(code, message, cause))));
        assert_eq!((error.reason.as_str(), error.transient), (reason, transient));
        assert!(error.message.starts_with(&format!("cannot create it: {message}")), "{}", error.message);
    }
}

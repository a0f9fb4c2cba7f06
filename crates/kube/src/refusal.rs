//! What the API server's refusals mean, in words for those who asked.

use kube::Error;
use kube::core::Status;
use kube::runtime::watcher;
use muster_engine::ports::provider::ProviderError;

/// The reason of changes that a webhook of the operator or the rules of the kind do not accept.
const REJECTED: &str = "Rejected";

/// What a refused request comes to.
pub(crate) fn of(doing: &str, error: Error) -> ProviderError {
    match error {
        Error::Api(status) => of_status(doing, &status),
        error => ProviderError::transient(
            "Unreachable",
            format!("cannot {doing}: Kubernetes does not answer: {error}"),
        ),
    }
}

/// The same for a request whose time was up.
pub(crate) fn late(doing: &str) -> ProviderError {
    ProviderError::transient("TimedOut", format!("cannot {doing}: Kubernetes has not answered in time"))
}

/// Why a watch ended.
pub(crate) fn of_watch(error: watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => of("watch", error).message,
        watcher::Error::WatchError(status) => of_status("watch", &status).message,
        watcher::Error::NoResourceVersion => "cannot watch: answers have no version".to_owned(),
    }
}

fn of_status(doing: &str, status: &Status) -> ProviderError {
    let message = &status.message;
    let sentence = format!("cannot {doing}: {message}");
    let has_cause = |reason: &str| {
        status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    };
    match status.code {
        // With the status of the webhook's choice.
        400..=499 if message.contains("denied the request") || message.contains("denied request") => {
            ProviderError::permanent(REJECTED, sentence)
        }
        401 => ProviderError::transient(
            "Unauthenticated",
            format!("{sentence}: Kubernetes does not take our token"),
        ),
        403 if message.contains("exceeded quota") => ProviderError::permanent("QuotaExceeded", sentence),
        403 if has_cause("NamespaceTerminating") => {
            ProviderError::permanent("NamespaceTerminating", sentence)
        }
        403 => ProviderError::permanent("Forbidden", sentence),
        404 => ProviderError::permanent("NotFound", sentence),
        409 => ProviderError::transient("Conflict", sentence),
        413 => ProviderError::permanent("TooLarge", sentence),
        // Etcd's own limits come as errors of the server.
        500 if is_too_large(message) => ProviderError::permanent(
            "TooLarge",
            format!("{sentence}: the object is too large for Kubernetes"),
        ),
        400 | 405 | 406 | 415 | 422 => ProviderError::permanent("Invalid", sentence),
        _ => ProviderError::transient("NotNow", sentence),
    }
}

fn is_too_large(message: &str) -> bool {
    message.contains("request is too large") || message.contains("message larger than max")
}

/// Whether an answer is this status.
pub(crate) fn is(error: &Error, code: u16) -> bool {
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
    fn what_helps_is_known(
        #[case] code: u16,
        #[case] message: &str,
        #[case] cause: &str,
        #[case] reason: &str,
        #[case] transient: bool,
    ) {
        let error = of("create it", Error::Api(Box::new(status(code, message, cause))));
        assert_eq!((error.reason.as_str(), error.transient), (reason, transient));
        assert!(error.message.starts_with(&format!("cannot create it: {message}")), "{}", error.message);
    }
}

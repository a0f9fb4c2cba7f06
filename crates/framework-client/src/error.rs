//! Errors of requests to frameworks.

use std::error::Error;
use std::time::Duration;

use muster_frameworks::UnreadableResponse;
use reqwest::StatusCode;

/// The reason why a request to a framework has no usable response.
#[derive(Debug, thiserror::Error)]
pub enum FrameworkRequestError {
    /// The response was not complete in time.
    #[error("{url}: no complete response within {timeout:?}")]
    Timeout {
        /// The requested URL.
        url: String,
        /// The time allowed for the whole exchange.
        timeout: Duration,
    },
    /// The URL is invalid, the connection failed, or it broke before the response was complete.
    #[error("{url}: {reason}")]
    Transport {
        /// The requested URL.
        url: String,
        /// The innermost cause.
        reason: String,
    },
    /// The status is not a 2xx.
    #[error("{url}: {status}")]
    Status {
        /// The requested URL.
        url: String,
        /// The status of the response.
        status: StatusCode,
    },
    /// The body is larger than this client reads.
    #[error("{url}: the response is larger than {limit} bytes")]
    TooLarge {
        /// The requested URL.
        url: String,
        /// The largest body that is read.
        limit: usize,
    },
    /// The body has another format than expected.
    #[error(transparent)]
    Unreadable(#[from] UnreadableResponse),
}

impl FrameworkRequestError {
    pub(crate) fn from_reqwest(url: &str, timeout: Duration, error: &reqwest::Error) -> Self {
        let url = url.to_owned();
        // A connection attempt has a shorter limit of its own: only its cause says that, and `timeout` would be wrong.
        if error.is_timeout() && !error.is_connect() {
            return Self::Timeout { url, timeout };
        }
        Self::Transport { url, reason: innermost_cause(error) }
    }
}

/// Returns the innermost cause: the outer errors name only the step that failed, and repeat the URL.
fn innermost_cause(error: &reqwest::Error) -> String {
    let outermost: &(dyn Error + 'static) = error;
    let causes = std::iter::successors(Some(outermost), |cause| (*cause).source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

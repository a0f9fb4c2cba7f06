//! HTTP requests to a framework, and responses that cannot be read.

use crate::head_access::Secret;

/// The HTTP method of a request to a framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestMethod {
    /// GET: reads something.
    Get,
    /// POST: changes something.
    Post,
}

/// A request to a framework's own HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkRequest {
    /// The HTTP method.
    pub method: RequestMethod,
    /// The complete URL.
    pub url: String,
    /// The bearer token that authenticates the caller, if the framework asks for one.
    pub bearer: Option<Secret>,
}

impl FrameworkRequest {
    pub(crate) fn get(url: String) -> Self {
        Self { method: RequestMethod::Get, url, bearer: None }
    }

    pub(crate) fn post(url: String) -> Self {
        Self { method: RequestMethod::Post, ..Self::get(url) }
    }

    /// Returns the same request with the secret as its bearer token.
    pub(crate) fn with_bearer(self, secret: &Secret) -> Self {
        Self { bearer: Some(secret.clone()), ..self }
    }
}

/// A framework sent a response in another format than expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct UnreadableResponse {
    /// The content of the response, such as "the head's list of nodes".
    pub what: &'static str,
    /// The reason why it cannot be read.
    pub why: String,
}

/// Parses JSON that a framework wrote; `what` describes it in the error.
pub(crate) fn parse_json<T: serde::de::DeserializeOwned>(
    what: &'static str,
    text: &[u8],
) -> Result<T, UnreadableResponse> {
    serde_json::from_slice(text).map_err(|error| UnreadableResponse { what, why: error.to_string() })
}

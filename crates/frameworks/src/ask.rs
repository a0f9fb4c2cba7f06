//! Questions to a framework, and answers that cannot be read.

use crate::contact::Secret;

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Asks.
    Get,
    /// Tells.
    Post,
}

/// A request to a framework's own HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The verb.
    pub method: Method,
    /// Where to.
    pub url: String,
    /// Who asks is known by this.
    pub bearer: Option<Secret>,
}

impl Ask {
    pub(crate) fn get(url: String) -> Self {
        Self { method: Method::Get, url, bearer: None }
    }

    pub(crate) fn post(url: String) -> Self {
        Self { method: Method::Post, ..Self::get(url) }
    }

    /// The same by somebody who knows the secret.
    pub(crate) fn knowing(self, secret: &Secret) -> Self {
        Self { bearer: Some(secret.clone()), ..self }
    }
}

/// What a framework answered is not what it is known to answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct Unreadable {
    /// Which answer.
    pub what: &'static str,
    /// Why not.
    pub why: String,
}

/// Reads JSON that a framework wrote.
pub(crate) fn json<T: serde::de::DeserializeOwned>(what: &'static str, text: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(text).map_err(|error| Unreadable { what, why: error.to_string() })
}

//! The endpoints and the secret of a head.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;

/// A secret that the nodes and clients of one cluster share. `Debug` hides it, so that no log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text of a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the secret; callers must not log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Secret(…)")
    }
}

/// A running head: its addresses, and the secret that it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadAccess {
    /// The addresses of the head.
    pub endpoints: Endpoints,
    /// The secret of the cluster.
    pub secret: Secret,
}

impl HeadAccess {
    /// Returns the address for a purpose; empty if there is none, so that a request to it fails.
    pub(crate) fn address(&self, purpose: &str) -> &str {
        self.endpoints.get(purpose).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_secret() {
        let access = HeadAccess { endpoints: Endpoints::default(), secret: Secret::new("abracadabra") };
        assert!(!format!("{access:?}").contains("abracadabra"));
    }
}

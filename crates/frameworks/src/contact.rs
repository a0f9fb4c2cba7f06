//! How a head is reached by those who may.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::endpoints::Endpoints;

/// What only nodes and clients of a cluster know. It is not shown by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// These words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The words, for whoever may know them.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Secret(…)")
    }
}

/// Where a head answers, and what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Where it answers.
    pub endpoints: Endpoints,
    /// What its nodes and clients know.
    pub secret: Secret,
}

impl Contact {
    /// The address for a purpose; empty if it has none, which no request reaches.
    pub(crate) fn of(&self, purpose: &str) -> &str {
        self.endpoints.get(purpose).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_in_what_is_printed_for_debugging() {
        let contact = Contact { endpoints: Endpoints::default(), secret: Secret::new("abracadabra") };
        assert!(!format!("{contact:?}").contains("abracadabra"));
    }
}

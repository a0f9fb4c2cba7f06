//! The port to an external service that identifies tokens.

use async_trait::async_trait;

/// The owner of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// The user name in the external service.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// Why a token could not be identified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotTell {
    /// A retry may succeed.
    #[error("{0}")]
    ForNow(String),
    /// A retry does not help: an administrator has to allow the request first.
    #[error("{0}")]
    NotAllowed(String),
}

/// Identifies tokens.
#[async_trait]
pub trait Identity: Send + Sync + 'static {
    /// The owner of a token; none if the token is invalid. Implementations bound their own time.
    async fn of_token(&self, token: &str) -> Result<Option<Vouched>, CannotTell>;
}

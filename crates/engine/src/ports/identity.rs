//! The port to an external service that identifies tokens.

use async_trait::async_trait;

/// The owner of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenIdentity {
    /// The user name in the external service.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// The error of a token that could not be identified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A retry may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// A retry does not help: an administrator has to allow the request first.
    #[error("{0}")]
    NotAllowed(String),
}

/// Identifies tokens, and decides what their owners may do at the external service.
#[async_trait]
pub trait Identity: Send + Sync + 'static {
    /// Returns the owner of a token; none if the token is invalid. Implementations set their own timeout.
    async fn identify_token(&self, token: &str) -> Result<Option<TokenIdentity>, IdentityError>;

    /// Returns true if a user may create pods in a namespace. A user without that right must not be a member of the
    /// project, because a member creates pods through Muster, with Muster's rights.
    async fn may_create_pods(&self, user: &TokenIdentity, namespace: &str) -> Result<bool, IdentityError>;
}

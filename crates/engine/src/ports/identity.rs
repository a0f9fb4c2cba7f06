//! The port to somebody outside who knows whose a token is.

use async_trait::async_trait;

/// Whom a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// The user, as whoever vouches for it calls it.
    pub user: String,
    /// The groups that it is in.
    pub groups: Vec<String>,
}

/// Nobody could say whose it is; the sentence says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotTell {
    /// Asking again may help.
    #[error("{0}")]
    ForNow(String),
    /// Asking again does not help: somebody has to allow it first.
    #[error("{0}")]
    NotAllowed(String),
}

/// Somebody who knows whose a token is.
#[async_trait]
pub trait Identity: Send + Sync + 'static {
    /// Whom a token belongs to; nobody if it is not good. It bounds its own time.
    async fn of_token(&self, token: &str) -> Result<Option<Vouched>, CannotTell>;
}

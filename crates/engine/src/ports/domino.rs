//! The ports to Domino, for the identity of callers and the hardware tiers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::tier::HardwareTier;

/// The credentials of a request, which are forwarded to Domino.
#[derive(Clone, PartialEq, Eq)]
pub enum DominoCredentials {
    /// The value of `X-Domino-Api-Key`.
    ApiKey(String),
    /// The value of `Authorization`, whatever its scheme.
    Authorization(String),
}

impl fmt::Debug for DominoCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey(_) => "ApiKey(…)",
            Self::Authorization(_) => "Authorization(…)",
        })
    }
}

/// A user of Domino.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DominoUser {
    /// The canonical id.
    pub id: String,
    /// The canonical name.
    pub name: String,
    /// True if the user is an admin of Domino.
    pub is_admin: bool,
}

/// The error if Domino does not answer, or its answer cannot be used; the message says why. A retry may succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DominoUnavailable(pub String);

/// Identifies the users of Domino.
#[async_trait]
pub trait DominoIdentity: Send + Sync + 'static {
    /// Returns the user that credentials belong to; none if Domino does not know them. Implementations set their own
    /// timeout.
    async fn identify(
        &self,
        credentials: &DominoCredentials,
    ) -> Result<Option<DominoUser>, DominoUnavailable>;
}

/// Lists the hardware tiers of Domino.
#[async_trait]
pub trait DominoTiers: Send + Sync + 'static {
    /// Returns the tiers that a user may choose from. Implementations set their own timeout.
    async fn tiers(&self, credentials: &DominoCredentials) -> Result<Arc<[HardwareTier]>, DominoUnavailable>;
}

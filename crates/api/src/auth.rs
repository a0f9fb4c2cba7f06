//! Authentication: the configured schemes, which identify the principal of a request by its credentials.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, header};
use muster_core::principal::{Principal, Role};

use crate::error::ApiError;

mod accounts;
mod concurrency_limit;
mod domino;
mod kubernetes;
mod local;
mod none;
mod reloaded_file;
mod secret;
mod tokens;

#[cfg(test)]
mod tests;

pub(crate) use concurrency_limit::ConcurrencyLimit;
pub(crate) use domino::API_KEY;

pub use accounts::{Account, Accounts, AccountsFile, LoggedIn, TOKEN_LIFE};
pub use domino::DominoUsers;
pub use kubernetes::{KUBERNETES_SCHEME, KubernetesTokens};
pub use local::{LOCAL_SCHEME, Local, OsUser, TOKEN_FILE};
pub use muster_core::domino::SCHEME as DOMINO_SCHEME;
pub use none::{NoAuthentication, NotAllowed};
pub use secret::{hash, new_token};
pub use tokens::{TokenEntry, Tokens, TokensFile};

/// The header in which clients of OpenStack services send their token.
pub(crate) const OPENSTACK_TOKEN: &str = "x-auth-token";

/// The error code if the service that verifies the caller's credentials is unreachable.
pub(crate) const IDENTITY_UNAVAILABLE: &str = "IdentityUnavailable";

/// Builds a principal of a scheme that uses names as ids.
fn named_principal(scheme: &str, name: &str, project: &str, roles: &BTreeSet<Role>) -> Principal {
    Principal {
        scheme: scheme.to_owned(),
        id: name.to_owned(),
        name: name.to_owned(),
        project: project.to_owned(),
        roles: roles.clone(),
    }
}

/// A caller that is not authenticated yet.
#[derive(Debug, Clone, Copy)]
pub struct UnauthenticatedCaller<'a> {
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl UnauthenticatedCaller<'_> {
    /// The token of the `Authorization` header, with or without `Bearer`, or else of `X-Auth-Token`.
    pub fn token(&self) -> Option<&str> {
        let Some(given) = self.headers.get(header::AUTHORIZATION) else {
            let token = self.headers.get(OPENSTACK_TOKEN)?.to_str().ok()?.trim();
            return (!token.is_empty()).then_some(token);
        };
        let value = given.to_str().ok()?.trim();
        let token = match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            Some(_) => return None,
            None if value.eq_ignore_ascii_case("bearer") => return None,
            None => value,
        };
        (!token.is_empty()).then_some(token)
    }
}

/// The reason why a caller is not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The credentials belong to this scheme and are invalid.
    #[error("{0}")]
    Refused(String),
    /// The service that may know the credentials is unreachable at present; another scheme may still accept them.
    #[error("{0}")]
    Unavailable(String),
    /// The credentials belong to this scheme only, and the service that verifies them is unreachable at present.
    #[error("{0}")]
    NotVerifiable(String),
    /// The service that verifies credentials refuses the requests of Muster.
    #[error("{0}")]
    Misconfigured(String),
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Refused(message) => Self::unauthenticated(message),
            AuthError::Unavailable(message) | AuthError::NotVerifiable(message) => {
                Self::unavailable(message).code(IDENTITY_UNAVAILABLE)
            }
            AuthError::Misconfigured(message) => Self::internal(message),
        }
    }
}

/// A scheme that authenticates callers.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// The scheme's name, in the configuration and in principals.
    fn scheme(&self) -> &'static str;

    /// Authenticates a caller; returns none if the credentials do not belong to this scheme.
    async fn authenticate(&self, caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError>;

    /// Returns a principal that this scheme authenticated earlier, with its present roles; none if it no longer exists.
    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError>;
}

/// The configured schemes, tried in order.
#[derive(Clone, Default)]
pub struct Authenticators(Vec<Arc<dyn Authenticator>>);

impl std::fmt::Debug for Authenticators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.schemes()).finish()
    }
}

impl Authenticators {
    /// Creates an empty list of schemes, which refuses every caller.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a scheme.
    #[must_use]
    pub fn with(self, scheme: impl Authenticator) -> Self {
        self.with_shared(Arc::new(scheme))
    }

    /// Appends a scheme that is shared with other code.
    #[must_use]
    pub fn with_shared(mut self, scheme: Arc<dyn Authenticator>) -> Self {
        self.0.push(scheme);
        self
    }

    /// The names of the schemes, in order.
    pub fn schemes(&self) -> Vec<&'static str> {
        self.0.iter().map(|scheme| scheme.scheme()).collect()
    }

    /// Returns a principal that was authenticated earlier, with its present roles; none if it no longer exists, or if
    /// its scheme is no longer configured.
    pub async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        match self.0.iter().find(|scheme| scheme.scheme() == known.scheme) {
            Some(scheme) => scheme.resolve(known).await,
            None => Ok(None),
        }
    }

    /// Authenticates the caller by the first scheme that accepts its credentials.
    pub async fn identify(&self, caller: UnauthenticatedCaller<'_>) -> Result<Principal, AuthError> {
        // If a scheme is unavailable, a later scheme may still accept the credentials.
        let mut unavailable = None;
        for scheme in &self.0 {
            match scheme.authenticate(caller).await {
                Ok(Some(principal)) => return Ok(principal),
                Ok(None) => {}
                Err(error @ (AuthError::Unavailable(_) | AuthError::Misconfigured(_))) => {
                    unavailable = Some(error);
                }
                Err(error @ (AuthError::Refused(_) | AuthError::NotVerifiable(_))) => return Err(error),
            }
        }
        if let Some(unavailable) = unavailable {
            return Err(unavailable);
        }
        let schemes = self.schemes().join(", ");
        let is_of_domino = self.schemes().contains(&DOMINO_SCHEME);
        let given = caller.headers.contains_key(header::AUTHORIZATION)
            || (is_of_domino && caller.headers.get(API_KEY).is_some_and(|key| !key.is_empty()));
        let accepted = match self.schemes().as_slice() {
            [DOMINO_SCHEME] => "X-Domino-Api-Key or Authorization",
            _ if is_of_domino => "X-Domino-Api-Key, Authorization or X-Auth-Token",
            _ => "Authorization or X-Auth-Token",
        };
        Err(AuthError::Refused(if given {
            format!(
                "the credentials in the {accepted} header are not valid (authentication schemes: {schemes})"
            )
        } else {
            let what = if is_of_domino { "an API key or a token" } else { "a token" };
            format!(
                "credentials are needed: send {what} in the {accepted} header (authentication schemes: {schemes})"
            )
        }))
    }
}

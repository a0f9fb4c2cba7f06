//! Authentication: each configured scheme can turn a request's credentials into a principal.

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

/// The code of the error if the service that knows the caller's credentials is unreachable.
pub(crate) const IDENTITY_UNAVAILABLE: &str = "IdentityUnavailable";

/// A principal of a scheme whose names are its ids.
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
pub struct Caller<'a> {
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl Caller<'_> {
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

/// Why a caller is not authenticated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The credentials are of this scheme and invalid.
    #[error("{0}")]
    Refused(String),
    /// The service that knows the credentials is unreachable at present; another scheme may know them too.
    #[error("{0}")]
    Unavailable(String),
    /// The credentials are of this scheme, and the service that knows them is unreachable at present.
    #[error("{0}")]
    NotVerifiable(String),
    /// The service that knows the credentials does not let Muster ask.
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

    /// Authenticates a caller; none if the credentials are not of this scheme.
    async fn authenticate(&self, caller: Caller<'_>) -> Result<Option<Principal>, AuthError>;

    /// A principal that this scheme authenticated earlier, with the roles that it has now; none if it is unknown now.
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
    /// No scheme: every caller is refused.
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

    /// A principal that was authenticated earlier, with the roles that it has now; none if it is unknown now, or if its
    /// scheme is not configured any more.
    pub async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        match self.0.iter().find(|scheme| scheme.scheme() == known.scheme) {
            Some(scheme) => scheme.resolve(known).await,
            None => Ok(None),
        }
    }

    /// The caller's principal, by the first scheme that knows the credentials.
    pub async fn identify(&self, caller: Caller<'_>) -> Result<Principal, AuthError> {
        // If a scheme is unavailable, a later one may still know the caller.
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
        let asked = self.schemes().join(", ");
        let is_of_domino = self.schemes().contains(&DOMINO_SCHEME);
        let given = caller.headers.contains_key(header::AUTHORIZATION)
            || (is_of_domino && caller.domino_credentials().is_some());
        let accepted = match self.schemes().as_slice() {
            [DOMINO_SCHEME] => "X-Domino-Api-Key or Authorization",
            _ if is_of_domino => "X-Domino-Api-Key, Authorization or X-Auth-Token",
            _ => "Authorization or X-Auth-Token",
        };
        Err(AuthError::Refused(if given {
            format!("the credentials in the {accepted} header are not known here (asked: {asked})")
        } else {
            let what = if is_of_domino { "an API key or a token" } else { "a token" };
            format!("credentials are needed: send {what} in the {accepted} header (asked: {asked})")
        }))
    }
}

//! Scheme `domino`: API keys and tokens of Domino, which are forwarded to Domino for verification.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header;
use muster_core::domino::SCHEME;
use muster_core::principal::{Principal, Role};
use muster_service::ports::domino::{DominoCredentials, DominoIdentity, DominoUser};

use super::secret::PREFIX;
use super::{AuthError, Authenticator, UnauthenticatedCaller};

/// The header of API keys.
pub(crate) const API_KEY: &str = "x-domino-api-key";

/// Decodes everything that some server may decode.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// Authenticates callers by asking Domino who owns the credentials.
///
/// The clusters of all users of Domino share a namespace, so these users have no role in any project: they reach their
/// own clusters through the scaler API only. Admins of Domino are admins.
pub struct DominoUsers {
    domino: Arc<dyn DominoIdentity>,
}

impl DominoUsers {
    /// Authenticates the users of one deployment of Domino.
    pub const fn new(domino: Arc<dyn DominoIdentity>) -> Self {
        Self { domino }
    }
}

impl UnauthenticatedCaller<'_> {
    /// Returns the credentials to forward to Domino: the API key, else the `Authorization` header. Credentials that
    /// contain a token of Muster are not forwarded.
    pub fn domino_credentials(&self) -> Option<DominoCredentials> {
        let text =
            |name: &str| Some(self.headers.get(name)?.to_str().ok()?.trim()).filter(|text| !text.is_empty());
        if self.headers.get(API_KEY).is_some_and(|key| !key.is_empty()) {
            let key = text(API_KEY).filter(|key| !contains_own_token(key));
            return key.map(|key| DominoCredentials::ApiKey(key.to_owned()));
        }
        let value = text(header::AUTHORIZATION.as_str()).filter(|value| !contains_own_token(value))?;
        Some(DominoCredentials::Authorization(value.to_owned()))
    }
}

/// Returns true if credentials contain a token of Muster, as it is or encoded as in `Basic` credentials.
fn contains_own_token(credentials: &str) -> bool {
    let prefix = PREFIX.as_bytes();
    credentials.split([' ', '\t', ',', '"']).any(|part| {
        // JWTs begin so and are long, so that some contain the prefix by chance.
        let is_jwt = part.starts_with("eyJ");
        (part.contains(PREFIX) && !is_jwt)
            || [STANDARD, URL_SAFE].iter().any(|alphabet| {
                let decoded = GeneralPurpose::new(alphabet, LENIENT).decode(part);
                decoded.is_ok_and(|decoded| decoded.windows(prefix.len()).any(|bytes| bytes == prefix))
            })
    })
}

fn principal(user: DominoUser) -> Principal {
    let DominoUser { id, name, is_admin } = user;
    let roles = is_admin.then_some(Role::Admin);
    Principal {
        scheme: SCHEME.to_owned(),
        id,
        name,
        project: String::new(),
        roles: BTreeSet::from_iter(roles),
    }
}

#[async_trait]
impl Authenticator for DominoUsers {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    async fn authenticate(&self, caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        let Some(credentials) = caller.domino_credentials() else { return Ok(None) };
        let user = self.domino.identify(&credentials).await.map_err(|error| {
            let message = format!("cannot identify the caller: {error}");
            match credentials {
                DominoCredentials::ApiKey(_) => AuthError::NotVerifiable(message),
                DominoCredentials::Authorization(_) => AuthError::Unavailable(message),
            }
        })?;
        Ok(user.map(principal))
    }

    /// Returns none: Domino identifies users only by their credentials, which are not stored.
    async fn resolve(&self, _: &Principal) -> Result<Option<Principal>, AuthError> {
        Ok(None)
    }
}

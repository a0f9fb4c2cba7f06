//! Scheme `none`: every caller is accepted.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use async_trait::async_trait;
use muster_core::principal::{Principal, Role};

use super::{AuthError, Authenticator, UnauthenticatedCaller};

/// The reason why the scheme cannot be configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// The server does not run with `--dev`.
    #[error("the scheme 'none' authenticates every caller: it needs --dev")]
    NotDev,
    /// Other machines can reach this listener.
    #[error(
        "the scheme 'none' authenticates every caller, and {0} can be reached from elsewhere: listen on 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
}

/// Authenticates every caller as the admin `dev`.
#[derive(Debug)]
pub struct NoAuthentication(());

impl NoAuthentication {
    /// Creates the scheme; refused without `--dev`, and if a listener is not on loopback.
    pub fn new(dev: bool, listeners: &[SocketAddr]) -> Result<Self, NotAllowed> {
        if !dev {
            return Err(NotAllowed::NotDev);
        }
        match listeners.iter().find(|listener| !listener.ip().is_loopback()) {
            Some(listener) => Err(NotAllowed::NotLoopback(*listener)),
            None => Ok(Self(())),
        }
    }
}

/// The name of the scheme.
const SCHEME: &str = "none";

fn principal() -> Principal {
    Principal {
        scheme: SCHEME.to_owned(),
        id: "dev".to_owned(),
        name: "dev".to_owned(),
        project: "default".to_owned(),
        roles: BTreeSet::from([Role::Admin]),
    }
}

#[async_trait]
impl Authenticator for NoAuthentication {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    async fn authenticate(&self, _caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        Ok(Some(principal()))
    }

    async fn resolve(&self, _known: &Principal) -> Result<Option<Principal>, AuthError> {
        Ok(Some(principal()))
    }
}

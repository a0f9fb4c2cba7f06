//! Scheme `kubernetes`: tokens of service accounts and users, which the API server reviews.

#[cfg(test)]
mod tests;
mod token_cache;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::principal::{Principal, Role};
use muster_core::projects::ProjectNamespaces;
use muster_service::ports::clock::Clock;
use muster_service::ports::identity::{Identity, IdentityError, TokenIdentity};

use super::secret::{PREFIX, hash};
use super::{AuthError, Authenticator, Caller, ConcurrencyLimit};
use token_cache::{CachedUser, TokenCache};

/// The scheme's name.
pub const KUBERNETES_SCHEME: &str = "kubernetes";

/// Reviews that run at once, and those that may wait.
const MOST_REVIEWS: usize = 16;
const MOST_WAITING: usize = 256;

/// The prefix of service accounts' user names; a namespace and a name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Authenticates by asking Kubernetes whose a token is; results are cached briefly.
pub struct KubernetesTokens {
    kubernetes: Arc<dyn Identity>,
    /// The project of users, since users belong to no namespace.
    project: String,
    /// Groups whose members are admins.
    admin_groups: BTreeSet<String>,
    projects: ProjectNamespaces,
    cache: TokenCache,
    /// Bounds the reviews that callers with made-up tokens cause.
    reviews: ConcurrencyLimit,
}

impl KubernetesTokens {
    /// Users act in `project`, service accounts in the project of their namespace; members of `admin_groups` are admins.
    pub fn new(
        kubernetes: Arc<dyn Identity>,
        project: impl Into<String>,
        admin_groups: impl IntoIterator<Item = String>,
        projects: ProjectNamespaces,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let admin_groups = admin_groups.into_iter().collect();
        let (project, cache) = (project.into(), TokenCache::new(clock));
        let reviews = ConcurrencyLimit::new(MOST_REVIEWS, MOST_WAITING);
        Self { kubernetes, project, admin_groups, projects, cache, reviews }
    }

    async fn review(&self, token: &str) -> Result<Option<TokenIdentity>, AuthError> {
        let key = hash(token);
        if let Some(CachedUser(known)) = self.cache.get(&key) {
            return Ok(known);
        }
        let message = |why: String| format!("cannot tell who is calling: {why}");
        let Some(_turn) = self.reviews.turn().await else {
            let why = "too many tokens wait to be reviewed, try again in a moment".to_owned();
            return Err(AuthError::Unavailable(message(why)));
        };
        // Another request may have asked for the same token meanwhile.
        if let Some(CachedUser(known)) = self.cache.get(&key) {
            return Ok(known);
        }
        let answer = self.kubernetes.identify_token(token).await.map_err(|error| match error {
            IdentityError::Unavailable(why) => AuthError::Unavailable(message(why)),
            IdentityError::NotAllowed(why) => AuthError::Misconfigured(message(why)),
        })?;
        self.cache.put(key, CachedUser(answer.clone()));
        Ok(answer)
    }

    fn principal(&self, TokenIdentity { user, groups }: TokenIdentity) -> Result<Principal, AuthError> {
        let account = user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
        let (name, project) = match account {
            Some((namespace, name)) => {
                let no_project = || {
                    let message = format!(
                        "service account '{user}' is in namespace '{namespace}', which is no project's: \
                         ask an admin to name it in [project_namespaces]"
                    );
                    AuthError::Refused(message)
                };
                (name.to_owned(), self.projects.project_of(namespace).ok_or_else(no_project)?.to_owned())
            }
            None => (user.clone(), self.project.clone()),
        };
        let is_admin = groups.iter().any(|group| self.admin_groups.contains(group));
        let role = if is_admin { Role::Admin } else { Role::Member };
        let scheme = KUBERNETES_SCHEME.to_owned();
        Ok(Principal { scheme, id: user, name, project, roles: BTreeSet::from([role]) })
    }
}

#[async_trait]
impl Authenticator for KubernetesTokens {
    fn scheme(&self) -> &'static str {
        KUBERNETES_SCHEME
    }

    async fn authenticate(&self, caller: Caller<'_>) -> Result<Option<Principal>, AuthError> {
        // Tokens of Muster are not sent to Kubernetes.
        let Some(token) = caller.token().filter(|token| !token.starts_with(PREFIX)) else { return Ok(None) };
        self.review(token).await?.map(|user| self.principal(user)).transpose()
    }

    /// Groups come with a token only, so they make no admin here.
    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        let user = TokenIdentity { user: known.id.clone(), groups: Vec::new() };
        self.principal(user).map(Some)
    }
}

//! Scheme `kubernetes`: tokens of service accounts and users, which the API server verifies (`TokenReview`).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::principal::{Principal, Role};
use muster_core::projects::ProjectNamespaces;
use muster_service::ports::answer_cache::AnswerCache;
use muster_service::ports::clock::Clock;
use muster_service::ports::identity::{Identity, IdentityError, TokenIdentity};
use tokio::sync::OwnedSemaphorePermit;

use super::secret::PREFIX;
use super::{AuthError, Authenticator, ConcurrencyLimit, UnauthenticatedCaller};

/// The scheme's name.
pub const KUBERNETES_SCHEME: &str = "kubernetes";

/// The limit of reviews that run at once, and of requests that wait for a review.
const MOST_REVIEWS: usize = 16;
const MOST_WAITING: usize = 256;

/// The prefix of the user names of service accounts; a namespace and a name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The group of all service accounts; a namespace may follow.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Authenticates callers by asking Kubernetes who owns a token; results are cached briefly.
pub struct KubernetesTokens {
    kubernetes: Arc<dyn Identity>,
    /// The project of users who are not service accounts, since such users belong to no namespace.
    project: String,
    /// Groups whose members are admins.
    admin_groups: BTreeSet<String>,
    projects: ProjectNamespaces,
    /// The owner of a token with its role; none if the token is invalid.
    cache: AnswerCache<Option<Principal>>,
    /// Bounds the reviews that callers with made-up tokens cause.
    reviews: ConcurrencyLimit,
}

impl KubernetesTokens {
    /// Creates the scheme. Users act in `project`, service accounts in the project of their namespace; members of
    /// `admin_groups` are admins.
    pub fn new(
        kubernetes: Arc<dyn Identity>,
        project: impl Into<String>,
        admin_groups: impl IntoIterator<Item = String>,
        projects: ProjectNamespaces,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let admin_groups = admin_groups.into_iter().collect();
        let (project, cache) = (project.into(), AnswerCache::new(clock));
        let reviews = ConcurrencyLimit::new(MOST_REVIEWS, MOST_WAITING);
        Self { kubernetes, project, admin_groups, projects, cache, reviews }
    }

    async fn review(&self, token: &str) -> Result<Option<Principal>, AuthError> {
        if let Some(known) = self.cache.get(token) {
            return Ok(known);
        }
        let _turn = self.turn().await?;
        // Another request may have reviewed the same token meanwhile.
        if let Some(known) = self.cache.get(token) {
            return Ok(known);
        }
        let answer = match self.kubernetes.identify_token(token).await.map_err(failed)? {
            Some(user) => Some(self.principal(user).await?),
            None => None,
        };
        self.cache.put(token, answer.clone());
        Ok(answer)
    }

    /// Waits for the permit to run a review.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, AuthError> {
        self.reviews.turn().await.ok_or_else(|| {
            let why = "too many tokens wait to be reviewed, try again in a moment".to_owned();
            failed(IdentityError::Unavailable(why))
        })
    }

    /// Returns the role of a user. Members of admin groups are admins. Others are members of their project only if they
    /// may create pods in its namespace themselves, since a member creates pods with Muster's rights; else readers.
    async fn role(&self, identity: &TokenIdentity, project: &str) -> Result<Role, AuthError> {
        if identity.groups.iter().any(|group| self.admin_groups.contains(group)) {
            return Ok(Role::Admin);
        }
        let Some(namespace) = self.projects.namespace_of(project) else { return Ok(Role::Reader) };
        let may = self.kubernetes.may_create_pods(identity, namespace).await.map_err(failed)?;
        Ok(if may { Role::Member } else { Role::Reader })
    }

    async fn principal(&self, identity: TokenIdentity) -> Result<Principal, AuthError> {
        let user = &identity.user;
        let (name, project) = match service_account(user) {
            Some((namespace, name)) => {
                let no_project = || {
                    let message = format!(
                        "service account '{user}' is in namespace '{namespace}', which belongs to no project: \
                         ask an admin to add it to [project_namespaces]"
                    );
                    AuthError::Refused(message)
                };
                (name.to_owned(), self.projects.project_of(namespace).ok_or_else(no_project)?.to_owned())
            }
            None => (user.clone(), self.project.clone()),
        };
        let role = self.role(&identity, &project).await?;
        let scheme = KUBERNETES_SCHEME.to_owned();
        Ok(Principal { scheme, id: identity.user, name, project, roles: BTreeSet::from([role]) })
    }
}

/// Returns the namespace and the name of a service account; none for other users.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')
}

fn failed(error: IdentityError) -> AuthError {
    let message = |why: String| format!("cannot identify the caller: {why}");
    match error {
        IdentityError::Unavailable(why) => AuthError::Unavailable(message(why)),
        IdentityError::NotAllowed(why) => AuthError::Misconfigured(message(why)),
    }
}

/// Returns the groups that Kubernetes derives from the user name alone.
fn implied_groups(user: &str) -> Vec<String> {
    let of_account = service_account(user)
        .map(|(namespace, _)| [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]);
    of_account.into_iter().flatten().chain(["system:authenticated".to_owned()]).collect()
}

#[async_trait]
impl Authenticator for KubernetesTokens {
    fn scheme(&self) -> &'static str {
        KUBERNETES_SCHEME
    }

    async fn authenticate(&self, caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        // Tokens of Muster are not sent to Kubernetes.
        let Some(token) = caller.token().filter(|token| !token.starts_with(PREFIX)) else { return Ok(None) };
        self.review(token).await
    }

    /// Uses only the groups that Kubernetes derives from the name, since others are known only with a token.
    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        let _turn = self.turn().await?;
        let user = TokenIdentity { user: known.id.clone(), groups: implied_groups(&known.id) };
        self.principal(user).await.map(Some)
    }
}

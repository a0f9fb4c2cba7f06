//! Scheme `kubernetes`: tokens of service accounts and users, by the word of the API server.

mod remembered;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::principal::{Principal, Role};
use muster_core::projects::ProjectNamespaces;
use muster_service::ports::clock::Clock;
use muster_service::ports::identity::{CannotTell, Identity, Vouched};

use super::secret::{PREFIX, hash};
use super::{AuthError, Authenticator, Caller};
use remembered::{Answer, Remembered};

/// The scheme's name.
pub const KUBERNETES_SCHEME: &str = "kubernetes";

/// How the names of service accounts begin; a namespace and a name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Knows whose a token is by asking Kubernetes, and remembers the answer for a moment.
pub struct KubernetesTokens {
    kubernetes: Arc<dyn Identity>,
    /// The project of users, who are in no namespace.
    project: String,
    /// Groups whose members are admins.
    admin_groups: BTreeSet<String>,
    projects: ProjectNamespaces,
    remembered: Remembered,
}

impl KubernetesTokens {
    /// Users act in this project, service accounts in that of their namespace; members of these groups are admins.
    pub fn new(
        kubernetes: Arc<dyn Identity>,
        project: impl Into<String>,
        admin_groups: impl IntoIterator<Item = String>,
        projects: ProjectNamespaces,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let admin_groups = admin_groups.into_iter().collect();
        let (project, remembered) = (project.into(), Remembered::new(clock));
        Self { kubernetes, project, admin_groups, projects, remembered }
    }

    async fn vouched(&self, token: &str) -> Result<Option<Vouched>, AuthError> {
        let key = hash(token);
        if let Some(Answer(known)) = self.remembered.get(&key) {
            return Ok(known);
        }
        let sentence = |why: String| format!("cannot tell who is calling: {why}");
        let answer = self.kubernetes.of_token(token).await.map_err(|error| match error {
            CannotTell::ForNow(why) => AuthError::Unavailable(sentence(why)),
            CannotTell::NotAllowed(why) => AuthError::Misconfigured(sentence(why)),
        })?;
        self.remembered.put(key, Answer(answer.clone()));
        Ok(answer)
    }

    fn principal(&self, Vouched { user, groups }: Vouched) -> Result<Principal, AuthError> {
        let account = user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
        let (name, project) = match account {
            Some((namespace, name)) => {
                let homeless = || {
                    let sentence = format!(
                        "service account '{user}' is in namespace '{namespace}', which is no project's: \
                         ask an admin to name it in [project_namespaces]"
                    );
                    AuthError::Refused(sentence)
                };
                (name.to_owned(), self.projects.project_of(namespace).ok_or_else(homeless)?.to_owned())
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
        // A token of Muster's own is nobody else's business.
        let Some(token) = caller.token().filter(|token| !token.starts_with(PREFIX)) else { return Ok(None) };
        self.vouched(token).await?.map(|vouched| self.principal(vouched)).transpose()
    }
}

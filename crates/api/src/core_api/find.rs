//! Finding what a request is about, as far as the caller may see it.

use muster_core::action::{Action, Milestone};
use muster_core::cluster::Cluster;
use muster_core::principal::{Owner, Principal};
use muster_core::words::UnknownWord;
use muster_store::StoreError;
use muster_store::commands::SignalKind;

use super::CoreApi;
use super::mutate::Wait;
use crate::access::Verb;
use crate::auth::{Resource, Rule, authorize};
use crate::error::ApiError;

/// How a request names a cluster.
pub(super) struct Named<'r> {
    pub(super) namespace: &'r str,
    pub(super) name: &'r str,
    pub(super) framework: &'r str,
    pub(super) provider: &'r str,
    pub(super) id: &'r str,
}

/// What a request names, whatever its type.
macro_rules! named {
    ($request:expr) => {
        $crate::core_api::find::Named {
            namespace: &$request.namespace,
            name: &$request.name,
            framework: &$request.framework,
            provider: &$request.provider,
            id: &$request.id,
        }
    };
}

pub(super) use named;

impl CoreApi {
    /// The cluster that is named, if the caller may do this to it.
    pub(super) async fn find(
        &self,
        principal: &Principal,
        verb: Verb,
        named: &Named<'_>,
    ) -> Result<Cluster, ApiError> {
        let missing = || {
            let name = if named.id.is_empty() { named.name } else { named.id };
            ApiError::not_found(format!("cluster '{name}' could not be found")).word("ClusterNotFound")
        };
        let cluster = if named.id.is_empty() {
            self.by_name(principal, named).await?
        } else {
            self.by_id(named).await?
        };
        let cluster = cluster.ok_or_else(missing)?;
        let what = format!("cluster '{}'", cluster.name);
        let on = Resource { what: &what, project: &cluster.project, owner: &cluster.owner };
        match authorize(principal, verb, on, Rule::Members) {
            Ok(()) => Ok(cluster),
            Err(crate::auth::Denied::Unseen(_)) => Err(missing()),
            Err(denied) => Err(denied.into()),
        }
    }

    async fn by_id(&self, named: &Named<'_>) -> Result<Option<Cluster>, ApiError> {
        let id = named
            .id
            .parse()
            .map_err(|error: muster_core::ids::InvalidId| ApiError::invalid(error.to_string()))?;
        Ok(self.engine.store().cluster(id).await?)
    }

    async fn by_name(&self, principal: &Principal, named: &Named<'_>) -> Result<Option<Cluster>, ApiError> {
        let found = self.engine.store().clusters_named(named.namespace, named.name).await?;
        let fits = |cluster: &Cluster| {
            let framework = cluster.framework.map_or("", muster_core::cluster::Framework::as_str);
            let seen = principal.is_admin() || principal.project == cluster.project;
            seen && (named.framework.is_empty() || named.framework == framework)
                && (named.provider.is_empty() || named.provider == cluster.instance.provider())
        };
        let mut fitting: Vec<Cluster> = found.into_iter().filter(fits).collect();
        if fitting.len() > 1 {
            let ids: Vec<String> = fitting.iter().map(|cluster| cluster.id.to_string()).collect();
            return Err(ApiError::invalid(format!(
                "{} clusters are named '{}': say which by framework, provider or id ({})",
                fitting.len(),
                named.name,
                ids.join(", ")
            )));
        }
        Ok(fitting.pop())
    }

    /// The action of this id, if the caller may do this to it.
    pub(super) async fn find_action(
        &self,
        principal: &Principal,
        verb: Verb,
        given: &str,
    ) -> Result<Action, ApiError> {
        let missing =
            || ApiError::not_found(format!("action '{given}' could not be found")).word("ActionNotFound");
        let id = given.parse().map_err(|_| missing())?;
        let action = self.engine.store().action(id).await?.ok_or_else(missing)?;
        // An action of Muster itself belongs to whom its cluster belongs to.
        let owner = Owner::default();
        let on = Resource {
            what: &format!("action '{given}'"),
            project: &action.principal.project,
            owner: &owner,
        };
        match authorize(principal, verb, on, Rule::Members) {
            Ok(()) => Ok(action),
            Err(crate::auth::Denied::Unseen(_)) => Err(missing()),
            Err(denied) => Err(denied.into()),
        }
    }

    /// Tells an action something; where a wait is asked for, until it has ended.
    pub(super) async fn signal(
        &self,
        action: &Action,
        kind: SignalKind,
        wait: Option<Wait>,
    ) -> Result<Action, ApiError> {
        let told = self.engine.signal(action.id, kind).await?;
        match wait {
            Some(wait) => Ok(self.engine.wait(told.id, Milestone::Reached, wait.at_most).await?),
            None => Ok(told),
        }
    }
}

/// An id that may be left out.
pub(super) fn optional_id<T: std::str::FromStr<Err = muster_core::ids::InvalidId>>(
    given: &str,
) -> Result<Option<T>, ApiError> {
    let given = Some(given).filter(|given| !given.is_empty());
    given.map(|given| given.parse().map_err(|error: T::Err| ApiError::invalid(error.to_string()))).transpose()
}

impl From<UnknownWord> for ApiError {
    fn from(error: UnknownWord) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let sentence = error.to_string();
        match error {
            StoreError::Unavailable(_) | StoreError::Contended(_) => Self::unavailable(sentence),
            StoreError::Unstorable(_) => Self::invalid(sentence),
            StoreError::NameTaken { .. } => Self::exists(sentence).word("ClusterNameTaken"),
            StoreError::OverQuota { .. } => Self::quota(sentence),
            StoreError::RequestIdReused(_) => Self::reused(sentence),
            StoreError::NotFound { .. } => Self::not_found(sentence),
            StoreError::Conflict(_) | StoreError::PartOf { .. } => Self::conflict(sentence),
            StoreError::WrongState { .. } => Self::impossible(sentence),
            StoreError::Corrupt(_)
            | StoreError::TooNew { .. }
            | StoreError::Fenced(_)
            | StoreError::Duplicate(_) => {
                tracing::error!(%sentence, "the store answered what it should not");
                Self::internal("something is wrong with the database; the server's log says more")
            }
        }
    }
}

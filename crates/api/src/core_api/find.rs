//! Finding what a request is about, as far as the caller may see it.

use std::str::FromStr;

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::ids::InvalidId;
use muster_core::principal::Owner;
use muster_core::string_enum::UnknownVariant;
use muster_service::placement::is_of;
use muster_service::{Denied, Resource};
use muster_store::Direction;
use muster_store::reads::{ClusterQuery, ClusterSort, Deleted};

use super::CoreApi;
use crate::access::Access;
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

impl Named<'_> {
    /// What is named twice has to be the same; what is not may be left out, or `-` in a path.
    fn agrees_with(&self, cluster: &Cluster) -> Result<(), ApiError> {
        let same = |given: &str, found: &str| given.is_empty() || given == "-" || given == found;
        if same(self.name, &cluster.name) && same(self.namespace, &cluster.namespace) {
            return Ok(());
        }
        Err(ApiError::invalid(format!(
            "id is that of '{}' in namespace '{}', and the request is about '{}' in '{}': say `-` there, or leave the id out",
            cluster.name, cluster.namespace, self.name, self.namespace
        )))
    }
}

impl CoreApi {
    /// The cluster that is named, if the caller may do this to it.
    pub(super) async fn find(&self, access: &Access, named: &Named<'_>) -> Result<Cluster, ApiError> {
        let found =
            if named.id.is_empty() { self.by_name(access, named).await? } else { self.by_id(named).await? };
        check(access, named, found)
    }

    /// The same, and where nothing is called so any more, what was called so last: its history stays.
    pub(super) async fn find_past(&self, access: &Access, named: &Named<'_>) -> Result<Cluster, ApiError> {
        if !named.id.is_empty() {
            return self.find(access, named).await;
        }
        let found = match self.by_name(access, named).await? {
            None => self.gone(access, named).await?,
            found => found,
        };
        check(access, named, found)
    }

    async fn gone(&self, access: &Access, named: &Named<'_>) -> Result<Option<Cluster>, ApiError> {
        let query = ClusterQuery {
            project: access.scope().map(str::to_owned),
            namespace: Some(named.namespace.to_owned()),
            names: vec![named.name.to_owned()],
            framework: optional_word("framework", named.framework)?,
            deleted: Deleted::Only,
            sort: vec![(ClusterSort::InitAt, Direction::Descending)],
            limit: Some(1),
            ..ClusterQuery::default()
        };
        Ok(self.service.store().clusters(&query).await?.items.pop())
    }

    async fn by_id(&self, named: &Named<'_>) -> Result<Option<Cluster>, ApiError> {
        let id = named.id.parse().map_err(|error: InvalidId| ApiError::invalid(format!("id: {error}")))?;
        Ok(self.service.store().cluster(id).await?)
    }

    async fn by_name(&self, access: &Access, named: &Named<'_>) -> Result<Option<Cluster>, ApiError> {
        let found = self.service.store().clusters_named(named.namespace, named.name).await?;
        let fits = |cluster: &Cluster| {
            let framework = cluster.framework.map_or("", muster_core::cluster::Framework::as_str);
            let seen = access.scope().is_none_or(|project| project == cluster.project);
            seen && (named.framework.is_empty() || named.framework == framework)
                && (named.provider.is_empty() || is_of(&cluster.instance, named.provider))
        };
        let mut fitting: Vec<Cluster> = found.into_iter().filter(fits).collect();
        if fitting.is_empty()
            && let Ok(id) = named.name.parse()
        {
            // Whoever has been told to say which of several by its id says it where the name would stand.
            let found = self.service.store().cluster(id).await?;
            return Ok(found.filter(|cluster| fits(cluster) && cluster.namespace == named.namespace));
        }
        if fitting.len() > 1 {
            let which = |cluster: &Cluster| {
                let what =
                    cluster.framework.map_or_else(|| cluster.profile_type.to_string(), |f| f.to_string());
                format!("{what} on {}: {}", cluster.instance.provider(), cluster.id)
            };
            let ids: Vec<String> = fitting.iter().map(which).collect();
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
    pub(super) async fn find_action(&self, access: &Access, given: &str) -> Result<Action, ApiError> {
        let missing =
            || ApiError::not_found(format!("action '{given}' could not be found")).word("ActionNotFound");
        let id = given.parse().map_err(|_| missing())?;
        let action = self.service.store().action(id).await?.ok_or_else(missing)?;
        // Whoever asked for it, an action belongs to the project of its cluster.
        let owner = Owner::default();
        let on = Resource {
            what: &format!("action '{given}'"),
            project: &action.principal.project,
            owner: &owner,
        };
        match access.check(on) {
            Ok(()) => Ok(action),
            Err(Denied::Unseen(_)) => Err(missing()),
            Err(denied) => Err(denied.into()),
        }
    }
}

/// What was found, if the caller may do this to it.
fn check(access: &Access, named: &Named<'_>, found: Option<Cluster>) -> Result<Cluster, ApiError> {
    let missing = || {
        let what = if named.id.is_empty() {
            format!("cluster '{}' could not be found in namespace '{}'", named.name, named.namespace)
        } else {
            format!("cluster '{}' could not be found", named.id)
        };
        ApiError::not_found(what).word("ClusterNotFound")
    };
    let cluster = found.ok_or_else(missing)?;
    let what = format!("cluster '{}'", cluster.name);
    let on = Resource { what: &what, project: &cluster.project, owner: &cluster.owner };
    match access.check(on) {
        Ok(()) if named.id.is_empty() => Ok(cluster),
        Ok(()) => named.agrees_with(&cluster).map(|()| cluster),
        Err(Denied::Unseen(_)) => Err(missing()),
        Err(denied) => Err(denied.into()),
    }
}

/// One of an enumeration's words, as a field gives it.
pub(super) fn word<T: FromStr<Err = UnknownVariant>>(field: &str, given: &str) -> Result<T, ApiError> {
    given.parse().map_err(|error: UnknownVariant| ApiError::invalid(format!("{field}: {error}")))
}

/// A text that may be left out.
pub(super) fn optional(given: &str) -> Option<String> {
    (!given.is_empty()).then(|| given.to_owned())
}

/// A word that may be left out.
pub(super) fn optional_word<T: FromStr<Err = UnknownVariant>>(
    field: &str,
    given: &str,
) -> Result<Option<T>, ApiError> {
    (!given.is_empty()).then(|| word(field, given)).transpose()
}

/// An id that may be left out.
pub(super) fn optional_id<T: FromStr<Err = InvalidId>>(
    field: &str,
    given: &str,
) -> Result<Option<T>, ApiError> {
    let parse = || given.parse().map_err(|error| ApiError::invalid(format!("{field}: {error}")));
    (!given.is_empty()).then(parse).transpose()
}

//! Finds clusters by name within a namespace, or by a whole id.

use muster_core::cluster::{Cluster, Framework};
use muster_core::ids::ClusterId;
use muster_core::string_enum::UnknownVariant;
use muster_store::reads::{ClusterQuery, ClusterSort, Deleted};
use muster_store::{Direction, StoreError};

use super::is_permitted;
use crate::access::Access;
use crate::authorize::Resource;
use crate::error::ServiceError;
use crate::placement::is_of;
use crate::service::Service;

/// The fields by which a request names a cluster; empty texts count as absent.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRef<'r> {
    /// The namespace.
    pub namespace: &'r str,
    /// The name, or an id if the name is ambiguous.
    pub name: &'r str,
    /// The framework, to choose among clusters with the same name.
    pub framework: &'r str,
    /// The provider or its instance, to choose among clusters with the same name.
    pub provider: &'r str,
    /// The id; if it is given, name and namespace may be empty or `-`.
    pub id: Option<ClusterId>,
}

impl ClusterRef<'_> {
    fn agrees_with(&self, cluster: &Cluster) -> bool {
        let same = |given: &str, found: &str| given.is_empty() || given == "-" || given == found;
        same(self.name, &cluster.name) && same(self.namespace, &cluster.namespace)
    }
}

/// The reason why a cluster was not found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FindError {
    /// No such cluster exists that the caller may see.
    #[error("cluster not found")]
    Missing,
    /// Several clusters have this name.
    #[error("{} clusters have this name", .0.len())]
    Ambiguous(Vec<Cluster>),
    /// The id belongs to a cluster with another name or namespace than the request gives.
    #[error("the id is that of '{}' in namespace '{}'", .0.name, .0.namespace)]
    OtherCluster(Box<Cluster>),
    /// The caller may see the cluster but may not perform the operation, or the cluster could not be read.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for FindError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

impl Service {
    /// The cluster that a request names, if the caller may perform the operation on it.
    pub async fn find_cluster(&self, access: &Access, named: &ClusterRef<'_>) -> Result<Cluster, FindError> {
        let found = match named.id {
            Some(id) => self.store().cluster(id).await?,
            None => self.by_name(access, named).await?,
        };
        authorized(access, named, found)
    }

    /// Like [`Self::find_cluster`], but falls back to the last deleted cluster with this name whose history is still
    /// stored.
    pub async fn find_past_cluster(
        &self,
        access: &Access,
        named: &ClusterRef<'_>,
    ) -> Result<Cluster, FindError> {
        if named.id.is_some() {
            return self.find_cluster(access, named).await;
        }
        let found = match self.by_name(access, named).await? {
            None => self.last_deleted(access, named).await?,
            found => found,
        };
        authorized(access, named, found)
    }

    async fn by_name(&self, access: &Access, named: &ClusterRef<'_>) -> Result<Option<Cluster>, FindError> {
        let found = self.store().clusters_named(named.namespace, named.name).await?;
        let fits = |cluster: &Cluster| {
            let framework = cluster.framework.map_or("", Framework::as_str);
            let seen = access.scope().is_none_or(|project| project == cluster.project);
            seen && (named.framework.is_empty() || named.framework == framework)
                && (named.provider.is_empty() || is_of(&cluster.instance, named.provider))
        };
        let mut fitting: Vec<Cluster> = found.into_iter().filter(fits).collect();
        if fitting.is_empty()
            && let Ok(id) = named.name.parse()
        {
            // The error for an ambiguous name lists ids, and clients then give an id as the name.
            let found = self.store().cluster(id).await?;
            return Ok(found.filter(|cluster| fits(cluster) && cluster.namespace == named.namespace));
        }
        if fitting.len() > 1 {
            return Err(FindError::Ambiguous(fitting));
        }
        Ok(fitting.pop())
    }

    async fn last_deleted(
        &self,
        access: &Access,
        named: &ClusterRef<'_>,
    ) -> Result<Option<Cluster>, FindError> {
        let framework = (!named.framework.is_empty()).then(|| named.framework.parse()).transpose();
        let unknown = |error: UnknownVariant| ServiceError::invalid(format!("framework: {error}"));
        let query = ClusterQuery {
            project: access.scope().map(str::to_owned),
            namespace: Some(named.namespace.to_owned()),
            names: vec![named.name.to_owned()],
            framework: framework.map_err(unknown)?,
            deleted: Deleted::Only,
            sort: vec![(ClusterSort::InitAt, Direction::Descending)],
            limit: Some(1),
            ..ClusterQuery::default()
        };
        Ok(self.store().clusters(&query).await?.items.pop())
    }
}

fn authorized(access: &Access, named: &ClusterRef<'_>, found: Option<Cluster>) -> Result<Cluster, FindError> {
    let cluster = found.ok_or(FindError::Missing)?;
    let what = format!("cluster '{}'", cluster.name);
    if !is_permitted(access, Resource { what: &what, project: &cluster.project, owner: &cluster.owner })? {
        return Err(FindError::Missing);
    }
    if named.id.is_some() && !named.agrees_with(&cluster) {
        return Err(FindError::OtherCluster(Box::new(cluster)));
    }
    Ok(cluster)
}

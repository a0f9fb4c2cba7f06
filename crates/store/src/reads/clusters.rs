//! Reads of clusters.

use std::collections::{HashMap, HashSet};

use muster_core::cluster::{Cluster, ClusterStatus, Framework};
use muster_core::ids::{ClusterId, InstanceId, LOCAL_PROVIDER};
use muster_core::profile::Profile;

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::cluster_objects::{self, StoredObject};
use crate::rows::clusters;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::value::args;

/// The largest number of objects that are read on the caller's thread.
const FEW: usize = 8;

/// The selection of deleted clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deleted {
    /// Without deleted clusters.
    #[default]
    Exclude,
    /// Only deleted clusters.
    Only,
    /// All clusters.
    Include,
}

sort_keys! {
    /// The keys by which clusters can be sorted.
    ClusterSort {
        /// By name.
        Name = text("c.name"),
        /// By status.
        Status = text("c.status"),
        /// By framework.
        Framework = text("coalesce(c.framework, '')"),
        /// By namespace.
        Namespace = text("c.namespace"),
        /// By the time of the insertion.
        InitAt = number("c.init_at"),
        /// By the time at which their creation ended.
        CreatedAt = number("coalesce(c.created_at, -1)"),
        /// By the time of the last change.
        UpdatedAt = number("coalesce(c.updated_at, -1)"),
    }
}

/// The query for a list of clusters.
#[derive(Debug, Clone, Default)]
pub struct ClusterQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// Of this instance only.
    pub instance: Option<InstanceId>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// With one of these names.
    pub names: Vec<String>,
    /// Only those whose name has this prefix.
    pub name_prefix: Option<String>,
    /// In one of these states.
    pub statuses: Vec<ClusterStatus>,
    /// Of this framework.
    pub framework: Option<Framework>,
    /// Of this owner, by scheme and id.
    pub owner: Option<(String, String)>,
    /// Recorded for this user.
    pub user: Option<String>,
    /// With all these labels.
    pub labels: Vec<(String, String)>,
    /// Only clusters whose object this program manages, by its label, and local clusters, which have no object.
    pub managed_by: Option<String>,
    /// Without those of this flavor whose object is stored.
    pub unless_stored_as: Option<String>,
    /// The selection of deleted clusters.
    pub deleted: Deleted,
    /// The order; ids break ties.
    pub sort: Vec<(ClusterSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<String>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

/// The subject of an action: a cluster, and its profile.
#[derive(Debug, Clone)]
pub struct ClusterWithProfile {
    /// The cluster.
    pub cluster: Cluster,
    /// The profile of the cluster.
    pub profile: Profile,
}

listed!(Cluster, ClusterSort, "clusters c", "c.id", clusters);

listed!(
    StoredObject,
    ClusterSort,
    "clusters c JOIN cluster_objects o ON o.cluster_id = c.id",
    "c.id",
    cluster_objects
);

impl Store {
    /// The cluster of this id with its profile; `None` if one of them does not exist.
    pub async fn subject(&self, id: ClusterId) -> Result<Option<ClusterWithProfile>, StoreError> {
        Ok(self.read(async |tx| clusters::subjects(tx, &[id]).await).await?.remove(&id))
    }

    /// The cluster of this id, also a deleted one.
    pub async fn cluster(&self, id: ClusterId) -> Result<Option<Cluster>, StoreError> {
        let found =
            self.read(async |tx| clusters::fetch(tx, "WHERE c.id = $1", args![id.to_string()]).await).await?;
        Ok(found.into_iter().next())
    }

    /// The clusters among these that are not deleted.
    pub async fn living_clusters(&self, ids: &[ClusterId]) -> Result<HashSet<ClusterId>, StoreError> {
        self.existing(ids, "id", |these| {
            format!("SELECT id FROM clusters WHERE {these} AND deleted_at IS NULL")
        })
        .await
    }

    /// The clusters among these that an action has locked.
    pub async fn held(&self, ids: &[ClusterId]) -> Result<HashSet<ClusterId>, StoreError> {
        self.existing(ids, "target", |these| format!("SELECT DISTINCT target FROM locks WHERE {these}")).await
    }

    /// The clusters of this name in a namespace: several, if one was created through an API that allows equal names.
    pub async fn clusters_named(&self, namespace: &str, name: &str) -> Result<Vec<Cluster>, StoreError> {
        const REST: &str = "WHERE c.namespace = $1 AND c.name = $2 AND c.deleted_at IS NULL ORDER BY c.id";
        self.read(async |tx| clusters::fetch(tx, REST, args![namespace, name]).await).await
    }

    /// The clusters of this name and framework in all namespaces.
    pub async fn clusters_of_name(
        &self,
        name: &str,
        framework: Framework,
    ) -> Result<Vec<Cluster>, StoreError> {
        const REST: &str = "WHERE c.name = $1 AND c.framework = $2 AND c.deleted_at IS NULL \
                            ORDER BY c.namespace, c.id";
        self.read(async |tx| clusters::fetch(tx, REST, args![name, framework.as_str()]).await).await
    }

    /// The stored objects of these clusters as APIs show them: JSON with sorted keys.
    pub async fn cluster_objects(&self, ids: &[ClusterId]) -> Result<HashMap<ClusterId, String>, StoreError> {
        let read = async |tx: &mut Transaction<'_>| cluster_objects::fetch(tx, ids).await;
        if ids.len() <= FEW { self.read(read).await } else { self.read_many(read).await }
    }

    /// A page of clusters.
    pub async fn clusters(&self, query: &ClusterQuery) -> Result<Page<Cluster>, StoreError> {
        let filter = filter(query, self.dialect());
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, query.marker.as_ref(), query.limit)
        };
        self.read_many(async |tx| {
            let mut page: Page<Cluster> = selection.read(tx, filter).await?;
            clusters::attach_groups(tx, &mut page.items).await?;
            Ok(page)
        })
        .await
    }

    /// The stored objects of the clusters of a flavor that a query selects.
    pub async fn stored_objects(
        &self,
        query: &ClusterQuery,
        flavor: &str,
    ) -> Result<Vec<StoredObject>, StoreError> {
        let mut filter = filter(query, self.dialect());
        filter.equal("c.flavor", Some(flavor));
        Ok(self.list(filter, Selection::new(&query.sort, None::<&str>, None)).await?.items)
    }
}

fn filter(query: &ClusterQuery, dialect: Dialect) -> Filter {
    let mut filter = Filter::default();
    match query.deleted {
        Deleted::Exclude => filter.add("c.deleted_at IS NULL"),
        Deleted::Only => filter.add("c.deleted_at IS NOT NULL"),
        Deleted::Include => {}
    }
    filter.equal("c.project", query.project.as_ref());
    filter.equal("c.namespace", query.namespace.as_ref());
    filter.equal("c.owner_scheme", query.owner.as_ref().map(|(scheme, _)| scheme));
    filter.equal("c.owner_id", query.owner.as_ref().map(|(_, id)| id));
    filter.equal("c.user_id", query.user.as_ref());
    filter.any_of("c.instance", query.instance.iter().map(InstanceId::as_str));
    filter.any_of("c.name", query.names.iter());
    filter.any_of("c.status", query.statuses.iter().map(|status| status.as_str()));
    filter.any_of("c.framework", query.framework.iter().map(|framework| framework.as_str()));
    if let Some(program) = &query.managed_by {
        let program = filter.place(program);
        filter.add(format!(
            "(c.instance LIKE '{LOCAL_PROVIDER}:%' OR EXISTS \
             (SELECT 1 FROM cluster_objects o WHERE o.cluster_id = c.id AND o.managed_by = {program}))"
        ));
    }
    if let Some(flavor) = &query.unless_stored_as {
        let flavor = filter.place(flavor);
        filter.add(format!(
            "(c.flavor IS DISTINCT FROM {flavor} OR NOT EXISTS \
             (SELECT 1 FROM cluster_objects o WHERE o.cluster_id = c.id))"
        ));
    }
    if let Some(prefix) = &query.name_prefix {
        filter.prefix("c.name", prefix);
    }
    for (key, value) in &query.labels {
        let (key, value) = (filter.place(key), filter.place(value));
        let column = match dialect {
            Dialect::Sqlite => "c.labels",
            Dialect::Postgres => "c.labels::jsonb",
        };
        filter.add(format!("{column} ->> {key} = {value}"));
    }
    filter
}

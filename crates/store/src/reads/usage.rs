//! Reads of the recorded usage of clusters that existed within a window of time.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, ProfileId};
use muster_core::profile::Profile;
use muster_core::usage::{AmountsRecord, STORED_AFTER, Window};

use crate::error::StoreError;
use crate::keyset::{Filter, Page};
use crate::rows::{clusters, profiles};
use crate::store::Store;
use crate::transaction::Transaction;
use crate::value::args;

/// The query for used clusters, which are returned in the order of their ids.
#[derive(Debug, Clone)]
pub struct UsageQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// The window in which they existed.
    pub window: Window,
    /// Only clusters with a higher id.
    pub after: Option<ClusterId>,
    /// The largest number of rows.
    pub limit: u32,
}

/// A cluster that existed, deleted or not.
#[derive(Debug, Clone)]
pub struct UsedCluster {
    /// The cluster.
    pub cluster: Cluster,
    /// The profile of the cluster, unless it was deleted with the cluster.
    pub profile: Option<Profile>,
    /// The requested amounts over time, the oldest first.
    pub records: Vec<AmountsRecord>,
}

impl Store {
    /// The clusters that existed within a window, with their records, in four queries whatever their number.
    pub async fn used_clusters(&self, query: &UsageQuery) -> Result<Page<UsedCluster>, StoreError> {
        let UsageQuery { project, namespace, window, after, limit } = query;
        let mut filter = Filter::default();
        filter.equal("c.project", project.as_ref());
        filter.equal("c.namespace", namespace.as_ref());
        let (since, until) = (filter.place(window.since), filter.place(window.until));
        filter.add(format!("c.init_at < {until} AND (c.deleted_at IS NULL OR c.deleted_at >= {since})"));
        if let Some(after) = after {
            let after = filter.place(after.to_string());
            filter.add(format!("c.id > {after}"));
        }
        let rest = format!("{} ORDER BY c.id LIMIT {limit}", filter.to_where());
        let items = self
            .read_many(async |tx| {
                let found = clusters::fetch(tx, &rest, filter.arguments).await?;
                with_records(tx, found).await
            })
            .await?;
        Ok(Page { items, next: None, total: None })
    }
}

async fn with_records(tx: &mut Transaction<'_>, found: Vec<Cluster>) -> Result<Vec<UsedCluster>, StoreError> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<ClusterId> = found.iter().map(|cluster| cluster.id).collect();
    let mut records = records(tx, &ids).await?;
    let recipes: Vec<ProfileId> = found.iter().map(|cluster| cluster.profile_id).collect();
    let recipes = profiles::fetch(tx, &recipes).await?;
    let recipes: HashMap<ProfileId, Profile> =
        recipes.into_iter().map(|profile| (profile.id, profile)).collect();
    let with_records = |cluster: Cluster| UsedCluster {
        profile: recipes.get(&cluster.profile_id).cloned(),
        records: records.remove(&cluster.id).unwrap_or_default(),
        cluster,
    };
    Ok(found.into_iter().map(with_records).collect())
}

/// The records of amounts in the events of these clusters.
async fn records(
    tx: &mut Transaction<'_>,
    ids: &[ClusterId],
) -> Result<HashMap<ClusterId, Vec<AmountsRecord>>, StoreError> {
    let (these, ids) = tx.dialect().any_of("cluster_id", "$1", ids);
    let sql = format!(
        "SELECT cluster_id, at, data FROM events WHERE {these} AND data LIKE $2 ORDER BY cluster_id, at, id"
    );
    let mut records: HashMap<ClusterId, Vec<AmountsRecord>> = HashMap::new();
    for row in tx.rows(sql, args![ids, format!("%{STORED_AFTER}%")]).await? {
        if let Some(record) = AmountsRecord::read(row.time(1)?, &row.map(2)?) {
            records.entry(row.parse(0)?).or_default().push(record);
        }
    }
    Ok(records)
}

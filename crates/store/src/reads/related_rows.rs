//! Reads of the rows related to clusters, which lists of clusters show.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId, PolicyId, ProfileId};
use muster_core::node::NodeRole;

use crate::error::StoreError;
use crate::readers::ResultSize;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::value::args;

/// The number of rows from which a read is moved off the caller's thread.
const MANY: u64 = 100;

/// The profiles, workers and policies of clusters.
#[derive(Debug, Default)]
pub struct RelatedRows {
    /// The names of the profiles.
    pub profiles: HashMap<ProfileId, String>,
    /// The workers of each cluster.
    pub nodes: HashMap<ClusterId, Vec<NodeId>>,
    /// The bound policies of each cluster.
    pub policies: HashMap<ClusterId, Vec<PolicyId>>,
}

impl Store {
    /// Reads the related rows of these clusters.
    pub async fn related_rows(&self, clusters: &[Cluster]) -> Result<RelatedRows, StoreError> {
        let ids: Vec<ClusterId> = clusters.iter().map(|cluster| cluster.id).collect();
        let profiles = distinct(clusters.iter().map(|cluster| cluster.profile_id));
        let rows: u64 = clusters.iter().map(|cluster| u64::from(cluster.desired())).sum();
        let size = if rows < MANY { ResultSize::Few } else { ResultSize::Many };
        self.measured(size, async |tx| {
            let mut found = RelatedRows { profiles: names(tx, &profiles).await?, ..RelatedRows::default() };
            let (these, of) = tx.dialect().any_of("cluster_id", "$1", &ids);
            let sql =
                format!("SELECT cluster_id, id FROM nodes WHERE {these} AND role = $2 ORDER BY idx, id");
            for row in tx.rows(sql, args![of, NodeRole::Worker.as_str()]).await? {
                found.nodes.entry(row.parse(0)?).or_default().push(row.parse(1)?);
            }
            let (these, of) = tx.dialect().any_of("cluster_id", "$1", &ids);
            let sql =
                format!("SELECT cluster_id, policy_id FROM bindings WHERE {these} ORDER BY priority, id");
            for row in tx.rows(sql, args![of]).await? {
                found.policies.entry(row.parse(0)?).or_default().push(row.parse(1)?);
            }
            Ok(found)
        })
        .await
    }

    /// The names of profiles.
    pub async fn profile_names(
        &self,
        ids: impl IntoIterator<Item = ProfileId>,
    ) -> Result<HashMap<ProfileId, String>, StoreError> {
        let ids = distinct(ids);
        self.read(async |tx| names(tx, &ids).await).await
    }
}

fn distinct(ids: impl IntoIterator<Item = ProfileId>) -> Vec<ProfileId> {
    let mut ids: Vec<ProfileId> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

async fn names(
    tx: &mut Transaction<'_>,
    ids: &[ProfileId],
) -> Result<HashMap<ProfileId, String>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let (these, ids) = tx.dialect().any_of("id", "$1", ids);
    let rows = tx.rows(format!("SELECT id, name FROM profiles WHERE {these}"), args![ids]).await?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.text(1)?))).collect()
}

//! Reads of clusters with an idle timeout or a lifetime.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, ProfileId};
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::rows::{clusters, profiles};
use crate::store::Store;
use crate::value::args;

/// The condition of the partial index, word for word: otherwise SQLite does not use the index.
const LIMITED: &str =
    "c.deleted_at IS NULL AND (c.idle_timeout IS NOT NULL OR c.max_lifetime IS NOT NULL) AND c.instance = $1";

impl Store {
    /// The clusters of an instance that have a limit.
    pub async fn limited(&self, instance: &InstanceId) -> Result<Vec<ClusterId>, StoreError> {
        let sql = format!("SELECT c.id FROM clusters c WHERE {LIMITED} ORDER BY c.id");
        let rows = self.read_many(async |tx| tx.rows(sql, args![instance.as_str()]).await).await?;
        rows.iter().map(|row| row.parse(0)).collect()
    }

    /// The clusters of an instance among these that have a limit, with their profiles.
    pub async fn limited_among(
        &self,
        instance: &InstanceId,
        ids: &[ClusterId],
    ) -> Result<Vec<(Cluster, Profile)>, StoreError> {
        self.read_many(async |tx| {
            let (these, ids) = tx.dialect().any_of("c.id", "$2", ids);
            let rest = format!("WHERE {LIMITED} AND {these}");
            let found = clusters::fetch(tx, &rest, args![instance.as_str(), ids]).await?;
            let recipes: Vec<ProfileId> = found.iter().map(|cluster| cluster.profile_id).collect();
            let recipes = profiles::fetch(tx, &recipes).await?;
            let by_id: HashMap<ProfileId, Profile> =
                recipes.into_iter().map(|profile| (profile.id, profile)).collect();
            let with_recipe = |cluster: Cluster| {
                let profile = by_id.get(&cluster.profile_id)?.clone();
                Some((cluster, profile))
            };
            Ok(found.into_iter().filter_map(with_recipe).collect())
        })
        .await
    }
}

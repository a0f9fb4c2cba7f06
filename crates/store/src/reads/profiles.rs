//! Profiles and bindings.

use muster_core::ids::{ClusterId, ProfileId};
use muster_core::policy::{Binding, Policy};
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::rows::profiles;
use crate::store::Store;
use crate::value::{Row, args};

impl Store {
    /// The profile of this id.
    pub async fn profile(&self, id: ProfileId) -> Result<Option<Profile>, StoreError> {
        Ok(self.read(async |tx| profiles::fetch(tx, &[id]).await).await?.into_iter().next())
    }

    /// The profiles of these ids, those that are there.
    pub async fn profiles_of(&self, ids: &[ProfileId]) -> Result<Vec<Profile>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.read(async |tx| profiles::fetch(tx, ids).await).await
    }

    /// The policies bound to a cluster, in the order in which they are asked.
    pub async fn bindings(&self, cluster: ClusterId) -> Result<Vec<Binding>, StoreError> {
        const SELECT: &str = "SELECT b.id, b.cluster_id, b.enabled, b.priority, b.data, b.last_op, p.id, p.name, p.type, \
                              p.project, p.user_id, p.spec, p.data, p.created_at, p.updated_at FROM bindings b \
                              JOIN policies p ON p.id = b.policy_id WHERE b.cluster_id = $1 ORDER BY b.priority, b.id";
        let rows = self.read(async |tx| tx.rows(SELECT, args![cluster.to_string()]).await).await?;
        rows.iter().map(read_binding).collect()
    }
}

fn read_binding(row: &Row) -> Result<Binding, StoreError> {
    Ok(Binding {
        id: row.parse(0)?,
        cluster_id: row.parse(1)?,
        enabled: row.bool(2)?,
        priority: row.number(3)?,
        data: row.json(4)?,
        last_op: row.opt_time(5)?,
        policy: Policy {
            id: row.parse(6)?,
            name: row.text(7)?,
            kind: row.text(8)?,
            project: row.text(9)?,
            user: row.text(10)?,
            spec: row.json(11)?,
            data: row.json(12)?,
            created_at: row.time(13)?,
            updated_at: row.opt_time(14)?,
        },
    })
}

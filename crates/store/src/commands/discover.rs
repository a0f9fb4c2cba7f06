//! Rows for clusters that others made.

use futures::future::BoxFuture;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::EngineId;
use muster_core::profile::Profile;
use serde_json::Value;

use super::duty;
use crate::error::StoreError;
use crate::rows::{cluster_objects, clusters, events, profiles};
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Stores a cluster that is there already, with the recipe that was read from it.
#[derive(Debug, Clone)]
pub struct Discover {
    /// The duty that the writer has to have still.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The cluster.
    pub cluster: Cluster,
    /// Its object as APIs show it, if one does.
    pub object: Option<Value>,
    /// The profile for it.
    pub profile: Profile,
    /// The event that is recorded with it.
    pub event: Event,
}

impl Command for Discover {
    /// Whether it has a row now.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const KNOWN: &str = "SELECT 1 FROM clusters WHERE id = $1";
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(false);
            }
            if tx.row(KNOWN, args![self.cluster.id.to_string()]).await?.is_some() {
                return Ok(true);
            }
            profiles::insert(tx, &self.profile).await?;
            // Others may have used a name twice: it is not claimed.
            clusters::insert(tx, &self.cluster, None).await?;
            if let Some(object) = &self.object {
                cluster_objects::write(tx, self.cluster.id, object).await?;
            }
            events::insert(tx, std::slice::from_ref(&self.event)).await?;
            Ok(true)
        })
    }
}

//! The command that stores a discovered cluster.

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

/// Stores an existing cluster, with the profile that was read from it.
#[derive(Debug, Clone)]
pub struct Discover {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The cluster.
    pub cluster: Cluster,
    /// The root object as APIs show it, if any API shows it.
    pub object: Option<Value>,
    /// The profile of the cluster.
    pub profile: Profile,
    /// The event that is recorded with it.
    pub event: Event,
}

impl Command for Discover {
    /// True if the cluster has a row now; false if another engine holds the duty.
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
            // External clusters may share a name, so that the name is not claimed.
            clusters::insert(tx, &self.cluster, None).await?;
            if let Some(object) = &self.object {
                cluster_objects::write(tx, self.cluster.id, object).await?;
            }
            events::insert(tx, std::slice::from_ref(&self.event)).await?;
            Ok(true)
        })
    }
}

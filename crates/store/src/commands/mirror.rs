//! The command that mirrors observed changes of a delegated cluster to its rows, outside any action.

use futures::future::BoxFuture;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{EngineId, NodeId};
use muster_core::node::Node;
use muster_core::time::Timestamp;
use serde_json::Value;

use super::duty;
use super::record::{delete_nodes, forget_cluster};
use crate::error::StoreError;
use crate::rows::{cluster_objects, clusters, events, nodes};
use crate::transaction::{Command, MANY, Transaction};
use crate::value::args;

/// Writes a cluster and its nodes as they were observed, or nothing if an action holds the cluster.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The `updated_at` of the row that the observation was compared with.
    pub read_at: Option<Timestamp>,
    /// The observed cluster; with a time of deletion its row becomes history.
    pub cluster: Cluster,
    /// Nodes that are new.
    pub new_nodes: Vec<Node>,
    /// Nodes that changed.
    pub nodes: Vec<Node>,
    /// Nodes that are gone.
    pub gone_nodes: Vec<NodeId>,
    /// The root object as APIs show it, if it changed.
    pub object: Option<Value>,
    /// The events to record.
    pub events: Vec<Event>,
}

/// The outcome of an observer's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mirrored {
    /// The rows were written.
    Written,
    /// An action holds the cluster, or the row has changed since it was read.
    Busy,
    /// Another engine holds the duty now.
    NotOurs,
}

impl Command for Mirror {
    type Output = Mirrored;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Mirrored, StoreError>> {
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(Mirrored::NotOurs);
            }
            if !self.is_free(tx).await? {
                return Ok(Mirrored::Busy);
            }
            nodes::insert(tx, &self.new_nodes).await?;
            nodes::update(tx, &self.nodes).await?;
            delete_nodes(tx, &self.gone_nodes).await?;
            clusters::update(tx, &self.cluster).await?;
            if let Some(object) = &self.object {
                cluster_objects::write(tx, self.cluster.id, object).await?;
            }
            if self.cluster.deleted_at.is_some() {
                forget_cluster(tx, &self.cluster).await?;
            }
            events::insert(tx, &self.events).await?;
            Ok(Mirrored::Written)
        })
    }
}

impl Mirror {
    /// Returns true if the row has not changed since it was read, and no action holds the cluster.
    async fn is_free(&self, tx: &mut Transaction<'_>) -> Result<bool, StoreError> {
        const PRESENT: &str = "SELECT updated_at FROM clusters WHERE id = $1 AND deleted_at IS NULL";
        const HELD: &str = "SELECT 1 FROM locks WHERE target = $1 LIMIT 1";
        let id = self.cluster.id.to_string();
        let lock = tx.dialect().for_update();
        let Some(row) = tx.row(format!("{PRESENT}{lock}"), args![&id]).await? else { return Ok(false) };
        Ok(row.opt_time(0)? == self.read_at && tx.row(HELD, args![&id]).await?.is_none())
    }
}

//! Rows that follow what an operator and others made of a cluster, outside any action.

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

/// Writes a cluster and its nodes as they were observed: all of it, or nothing if an action holds the cluster.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// The duty that the writer has to have still.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The `updated_at` of the row that was compared.
    pub read_at: Option<Timestamp>,
    /// The cluster as it is now; with the time of its deletion its row becomes history.
    pub cluster: Cluster,
    /// Nodes that are new.
    pub new_nodes: Vec<Node>,
    /// Nodes that changed.
    pub nodes: Vec<Node>,
    /// Nodes that are gone.
    pub gone_nodes: Vec<NodeId>,
    /// Its object as APIs show it, if that changed.
    pub object: Option<Value>,
    /// The events to record.
    pub events: Vec<Event>,
}

/// The outcome of an observer's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mirrored {
    /// It was written.
    Written,
    /// An action has the cluster, or has changed it since it was read.
    Busy,
    /// The duty is another engine's by now.
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
    /// Whether the cluster is as it was read, and no action has it.
    async fn is_free(&self, tx: &mut Transaction<'_>) -> Result<bool, StoreError> {
        const PRESENT: &str = "SELECT updated_at FROM clusters WHERE id = $1 AND deleted_at IS NULL";
        const HELD: &str = "SELECT 1 FROM locks WHERE target = $1 LIMIT 1";
        let id = self.cluster.id.to_string();
        let lock = tx.dialect().for_update();
        let Some(row) = tx.row(format!("{PRESENT}{lock}"), args![&id]).await? else { return Ok(false) };
        Ok(row.opt_time(0)? == self.read_at && tx.row(HELD, args![&id]).await?.is_none())
    }
}

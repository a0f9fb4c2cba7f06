//! What observers saw, outside any action.

use std::collections::HashMap;

use futures::future::BoxFuture;
use muster_core::cluster::{ClusterStatus, ObservedSummary};
use muster_core::event::Event;
use muster_core::ids::{ClusterId, EngineId, NodeId};
use muster_core::node::Node;
use muster_core::time::Timestamp;

use super::{Accept, duty};
use crate::error::StoreError;
use crate::rows::{events, nodes};
use crate::transaction::{Command, MANY, Touched, Transaction};
use crate::value::{args, json};

/// Writes what was seen of clusters.
#[derive(Debug, Clone)]
pub struct Observe {
    /// The duty that the writer has to have still.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// What was seen.
    pub clusters: Vec<ObservedCluster>,
    /// Nodes in no cluster that are other than their rows said; not written while an action has them.
    pub orphans: Vec<Node>,
    /// What is worth telling.
    pub events: Vec<Event>,
    /// What brings back what is lost: accepted in the same commit, unless another action is in the way. A writer that
    /// dies in between would leave a loss that nobody sees any more.
    pub healing: Vec<Accept>,
    /// Now.
    pub now: Timestamp,
}

/// What was seen of one cluster.
#[derive(Debug, Clone)]
pub struct ObservedCluster {
    /// The cluster.
    pub id: ClusterId,
    /// The summary.
    pub observed: ObservedSummary,
    /// How it is now, and why; not written while an action has the cluster.
    pub status: Option<(ClusterStatus, String)>,
    /// Nodes that are other than their rows said; not written while an action has the cluster.
    pub nodes: Vec<Node>,
}

impl Command for Observe {
    /// Whether it was written: false if the duty is another engine's by now.
    type Output = bool;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const SUMMARY: &str =
            "UPDATE clusters SET observed = $2, change = $3 WHERE id = $1 AND deleted_at IS NULL";
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(false);
            }
            self.accept_healing(tx).await?;
            let change = tx.change().await?;
            for seen in &self.clusters {
                let id = seen.id.to_string();
                tx.execute(SUMMARY, args![&id, json(&seen.observed), change]).await?;
                self.write_unlocked(tx, seen).await?;
                tx.touch(Touched::Cluster(seen.id));
            }
            self.write_orphans(tx).await?;
            events::insert(tx, &self.events).await?;
            self.events
                .iter()
                .filter_map(|event| event.cluster_id)
                .for_each(|id| tx.touch(Touched::Cluster(id)));
            Ok(true)
        })
    }
}

impl Observe {
    /// Accepts what brings back what is lost. Where another action is in the way, the nodes record that this is due.
    async fn accept_healing(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        for accept in &self.healing {
            match accept.accept(tx).await {
                Ok(_) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// While an action has the cluster it alone writes how the nodes are: it sees the same world.
    async fn write_unlocked(
        &self,
        tx: &mut Transaction<'_>,
        seen: &ObservedCluster,
    ) -> Result<(), StoreError> {
        const HELD: &str = "SELECT 1 FROM locks WHERE target = $1 AND exclusive = 1 LIMIT 1";
        const STATUS: &str = "UPDATE clusters SET status = $2, status_reason = $3, updated_at = $4 \
                              WHERE id = $1 AND deleted_at IS NULL";
        let id = seen.id.to_string();
        if tx.row(HELD, args![&id]).await?.is_some() {
            return Ok(());
        }
        if let Some((status, reason)) = &seen.status {
            tx.execute(STATUS, args![id, status.as_str(), reason, self.now]).await?;
        }
        let nodes = self.still_as_read(tx, seen).await?;
        nodes::update(tx, &nodes).await
    }

    async fn write_orphans(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        const FREE: &str = "SELECT updated_at FROM nodes WHERE id = $1 AND cluster_id IS NULL \
                            AND NOT EXISTS (SELECT 1 FROM locks WHERE target = $1)";
        for node in &self.orphans {
            let sql = format!("{FREE}{}", tx.dialect().for_update());
            let Some(row) = tx.row(sql, args![node.id.to_string()]).await? else { continue };
            if row.opt_time(0)? == node.updated_at {
                nodes::update(tx, &[Node { updated_at: Some(self.now), ..node.clone() }]).await?;
            }
        }
        Ok(())
    }

    /// Those that nobody has changed or removed since they were looked at.
    async fn still_as_read(
        &self,
        tx: &mut Transaction<'_>,
        seen: &ObservedCluster,
    ) -> Result<Vec<Node>, StoreError> {
        const PRESENT: &str = "SELECT id, updated_at FROM nodes WHERE cluster_id = $1";
        let mut present = HashMap::new();
        for row in tx.rows(PRESENT, args![seen.id.to_string()]).await? {
            present.insert(row.parse::<NodeId>(0)?, row.opt_time(1)?);
        }
        let same = |node: &&Node| present.get(&node.id) == Some(&node.updated_at);
        let nodes = seen.nodes.iter().filter(same).cloned();
        Ok(nodes.map(|node| Node { updated_at: Some(self.now), ..node }).collect())
    }
}

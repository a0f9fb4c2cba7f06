//! Observations outside of actions.

use std::collections::{HashMap, HashSet};

use futures::future::BoxFuture;
use muster_core::cluster::{ClusterStatus, ObservedSummary};
use muster_core::event::Event;
use muster_core::ids::{ClusterId, EngineId, NodeId};
use muster_core::node::Node;
use muster_core::time::Timestamp;

use super::{Accept, Mirrored, duty};
use crate::error::StoreError;
use crate::rows::{events, nodes};
use crate::transaction::{Command, MANY, Touched, Transaction};
use crate::value::{args, json};

/// Writes what was seen of clusters and of nodes in no cluster: all of it, or nothing if an action that began and ended
/// meanwhile has overtaken it.
#[derive(Debug, Clone)]
pub struct Observe {
    /// The duty that the writer has to have still.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The observation.
    pub clusters: Vec<ObservedCluster>,
    /// Nodes in no cluster that are other than their rows said.
    pub orphans: Vec<Node>,
    /// Events to record.
    pub events: Vec<Event>,
    /// What brings back what is lost: accepted in the same commit, unless another action is in the way. A writer that
    /// dies in between would leave a loss that is never observed again.
    pub healing: Vec<Accept>,
    /// Now.
    pub now: Timestamp,
}

/// The observations of one cluster.
#[derive(Debug, Clone)]
pub struct ObservedCluster {
    /// The cluster.
    pub id: ClusterId,
    /// The `updated_at` of the row that was compared.
    pub read_at: Option<Timestamp>,
    /// The summary.
    pub observed: ObservedSummary,
    /// The present status and reason; not written while an action holds the cluster.
    pub status: Option<(ClusterStatus, String)>,
    /// Nodes that are other than their rows said; not written while an action has the cluster.
    pub nodes: Vec<Node>,
}

impl Command for Observe {
    type Output = Mirrored;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Mirrored, StoreError>> {
        const SUMMARY: &str = "UPDATE clusters SET observed = $2, change = $3 WHERE id = $1";
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(Mirrored::NotOurs);
            }
            let Some(free) = self.hold_clusters(tx).await? else { return Ok(Mirrored::Busy) };
            if !self.hold_orphans(tx).await? {
                return Ok(Mirrored::Busy);
            }
            self.accept_healing(tx).await?;
            let change = tx.change().await?;
            for seen in &self.clusters {
                tx.execute(SUMMARY, args![seen.id.to_string(), json(&seen.observed), change]).await?;
                if free.contains(&seen.id) {
                    self.write_free(tx, seen).await?;
                }
                tx.touch(Touched::Cluster(seen.id));
            }
            nodes::update(tx, &self.written(&self.orphans)).await?;
            events::insert(tx, &self.events).await?;
            self.events
                .iter()
                .filter_map(|event| event.cluster_id)
                .for_each(|id| tx.touch(Touched::Cluster(id)));
            Ok(Mirrored::Written)
        })
    }
}

impl Observe {
    /// Keeps others from writing the clusters. Gives those that no action has, or none if one of these is gone or has
    /// changed since it was read. An action that has a cluster sees the same world: what was lost before it is recorded.
    async fn hold_clusters(
        &self,
        tx: &mut Transaction<'_>,
    ) -> Result<Option<HashSet<ClusterId>>, StoreError> {
        const PRESENT: &str = "SELECT updated_at FROM clusters WHERE id = $1 AND deleted_at IS NULL";
        const HELD: &str = "SELECT 1 FROM locks WHERE target = $1 AND exclusive = 1 LIMIT 1";
        let mut free = HashSet::new();
        for seen in &self.clusters {
            let id = seen.id.to_string();
            let sql = format!("{PRESENT}{}", tx.dialect().for_update());
            let Some(row) = tx.row(sql, args![&id]).await? else { return Ok(None) };
            if tx.row(HELD, args![&id]).await?.is_some() {
                continue;
            }
            if row.opt_time(0)? != seen.read_at {
                return Ok(None);
            }
            free.insert(seen.id);
        }
        Ok(Some(free))
    }

    /// Keeps others from writing the nodes; false if one is in a cluster, or an action has it or has changed it since it
    /// was read.
    async fn hold_orphans(&self, tx: &mut Transaction<'_>) -> Result<bool, StoreError> {
        const PRESENT: &str = "SELECT updated_at FROM nodes WHERE id = $1 AND cluster_id IS NULL";
        const HELD: &str = "SELECT 1 FROM locks WHERE target = $1 LIMIT 1";
        for node in &self.orphans {
            let id = node.id.to_string();
            // A claim holds the row while it takes the lock, which only a later statement shows.
            let sql = format!("{PRESENT}{}", tx.dialect().for_update());
            let Some(row) = tx.row(sql, args![&id]).await? else { return Ok(false) };
            if row.opt_time(0)? != node.updated_at || tx.row(HELD, args![&id]).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

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
    async fn write_free(&self, tx: &mut Transaction<'_>, seen: &ObservedCluster) -> Result<(), StoreError> {
        const STATUS: &str =
            "UPDATE clusters SET status = $2, status_reason = $3, updated_at = $4 WHERE id = $1";
        if let Some((status, reason)) = &seen.status {
            tx.execute(STATUS, args![seen.id.to_string(), status.as_str(), reason, self.now]).await?;
        }
        let nodes = self.still_as_read(tx, seen).await?;
        nodes::update(tx, &self.written(&nodes)).await
    }

    /// Nodes as they are written now.
    fn written(&self, nodes: &[Node]) -> Vec<Node> {
        nodes.iter().map(|node| Node { updated_at: Some(self.now), ..node.clone() }).collect()
    }

    /// Those that were not changed or removed since they were observed.
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
        Ok(seen.nodes.iter().filter(same).cloned().collect())
    }
}

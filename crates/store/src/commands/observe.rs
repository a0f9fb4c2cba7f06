//! The command that records observations of clusters and orphans outside of actions.

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

/// Records observations of clusters and orphans, or nothing if an action has changed a row since the observation was
/// compared with it.
#[derive(Debug, Clone)]
pub struct Observe {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The observation.
    pub clusters: Vec<ObservedCluster>,
    /// The observed orphans that differ from their rows.
    pub orphans: Vec<Node>,
    /// The events to record.
    pub events: Vec<Event>,
    /// The RECOVER actions for lost nodes, accepted in the same commit unless another action conflicts. In a later
    /// commit they could be lost with the writer, and the loss would never be observed again.
    pub healing: Vec<Accept>,
    /// The present time.
    pub now: Timestamp,
}

/// The observations of one cluster.
#[derive(Debug, Clone)]
pub struct ObservedCluster {
    /// The cluster.
    pub id: ClusterId,
    /// The `updated_at` of the row that the observation was compared with.
    pub read_at: Option<Timestamp>,
    /// The summary.
    pub observed: ObservedSummary,
    /// The present status and reason; not written while an action holds the cluster.
    pub status: Option<(ClusterStatus, String)>,
    /// The observed nodes that differ from their rows; not written while an action holds the cluster.
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
    /// Locks the rows of the clusters. Returns those that no action holds, or `None` if one of them is gone or has
    /// changed since it was read. Of a cluster that an action holds only the summary is written: the action observes
    /// the same nodes itself.
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

    /// Locks the rows of the orphans; false if one is in a cluster, or an action holds it or has changed it since it
    /// was read.
    async fn hold_orphans(&self, tx: &mut Transaction<'_>) -> Result<bool, StoreError> {
        const PRESENT: &str = "SELECT updated_at FROM nodes WHERE id = $1 AND cluster_id IS NULL";
        const HELD: &str = "SELECT 1 FROM locks WHERE target = $1 LIMIT 1";
        for node in &self.orphans {
            let id = node.id.to_string();
            // Lock the row first: a claim holds it while it takes the lock of the node, which only a later statement
            // sees.
            let sql = format!("{PRESENT}{}", tx.dialect().for_update());
            let Some(row) = tx.row(sql, args![&id]).await? else { return Ok(false) };
            if row.opt_time(0)? != node.updated_at || tx.row(HELD, args![&id]).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Accepts the RECOVER actions. If another action conflicts, the status of the nodes shows that a recovery is due.
    async fn accept_healing(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        for accept in &self.healing {
            match accept.accept(tx).await {
                Ok(_) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes status and nodes of a cluster that no action holds: an action that holds a cluster writes them itself.
    async fn write_free(&self, tx: &mut Transaction<'_>, seen: &ObservedCluster) -> Result<(), StoreError> {
        const STATUS: &str =
            "UPDATE clusters SET status = $2, status_reason = $3, updated_at = $4 WHERE id = $1";
        if let Some((status, reason)) = &seen.status {
            tx.execute(STATUS, args![seen.id.to_string(), status.as_str(), reason, self.now]).await?;
        }
        let nodes = self.still_as_read(tx, seen).await?;
        nodes::update(tx, &self.written(&nodes)).await
    }

    /// The nodes with the time of this write.
    fn written(&self, nodes: &[Node]) -> Vec<Node> {
        nodes.iter().map(|node| Node { updated_at: Some(self.now), ..node.clone() }).collect()
    }

    /// The observed nodes whose rows were not changed or removed since.
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

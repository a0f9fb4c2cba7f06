//! Reads of nodes.

use std::collections::{HashMap, HashSet};

use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::node::{Node, NodeRole, NodeStatus};

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::nodes;
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which nodes can be sorted.
    NodeSort {
        /// By the index in the cluster.
        Index = number("idx"),
        /// By name.
        Name = text("name"),
        /// By status.
        Status = text("status"),
        /// By the time of the insertion.
        InitAt = number("init_at"),
        /// By the time at which they first became ACTIVE.
        CreatedAt = number("coalesce(created_at, -1)"),
        /// By the time of the last change.
        UpdatedAt = number("coalesce(updated_at, -1)"),
    }
}

/// The query for a list of nodes.
#[derive(Debug, Clone, Default)]
pub struct NodeQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// Of this cluster only.
    pub cluster: Option<ClusterId>,
    /// Of this group only.
    pub group: Option<String>,
    /// Of this role only.
    pub role: Option<NodeRole>,
    /// With one of these names.
    pub names: Vec<String>,
    /// In one of these states.
    pub statuses: Vec<NodeStatus>,
    /// The order; ids break ties.
    pub sort: Vec<(NodeSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<String>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

listed!(Node, NodeSort, "nodes", "id", nodes);

impl Store {
    /// The nodes among these that have a row.
    pub async fn existing_nodes(&self, ids: &[NodeId]) -> Result<HashSet<NodeId>, StoreError> {
        self.existing(ids, "id", |these| format!("SELECT id FROM nodes WHERE {these}")).await
    }

    /// The node of this id.
    pub async fn node(&self, id: NodeId) -> Result<Option<Node>, StoreError> {
        let row =
            self.read(async |tx| tx.row(nodes::select("WHERE id = $1"), args![id.to_string()]).await).await?;
        row.as_ref().map(nodes::read).transpose()
    }

    /// The existing nodes of these ids.
    pub async fn nodes_of(&self, ids: &[NodeId]) -> Result<Vec<Node>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self
            .read_many(async |tx| {
                let (these, ids) = tx.dialect().any_of("id", "$1", ids);
                tx.rows(nodes::select(&format!("WHERE {these}")), args![ids]).await
            })
            .await?;
        rows.iter().map(nodes::read).collect()
    }

    /// The orphans of an instance.
    pub async fn orphans(&self, instance: &InstanceId) -> Result<Vec<Node>, StoreError> {
        let sql = nodes::select("WHERE instance = $1 AND cluster_id IS NULL ORDER BY id");
        let rows = self.read_many(async |tx| tx.rows(sql, args![instance.as_str()]).await).await?;
        rows.iter().map(nodes::read).collect()
    }

    /// The nodes of a cluster, the head first, without those that have no index yet.
    pub async fn members(&self, cluster: ClusterId) -> Result<Vec<Node>, StoreError> {
        let sql = nodes::select("WHERE cluster_id = $1 AND idx >= 0 ORDER BY idx, id");
        let rows = self.read_many(async |tx| tx.rows(sql, args![cluster.to_string()]).await).await?;
        rows.iter().map(nodes::read).collect()
    }

    /// The names of the nodes of clusters that have started and are not being removed, the head first.
    pub async fn present_nodes(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<String>>, StoreError> {
        const WORKING: [NodeStatus; 5] = [
            NodeStatus::Active,
            NodeStatus::Updating,
            NodeStatus::Operating,
            NodeStatus::Recovering,
            NodeStatus::Warning,
        ];
        let mut names: HashMap<ClusterId, Vec<String>> = HashMap::new();
        if clusters.is_empty() {
            return Ok(names);
        }
        let rows = self.read_many(async |tx| {
            let (these, ids) = tx.dialect().any_of("cluster_id", "$1", clusters);
            let statuses = WORKING.map(|status| format!("'{}'", status.as_str())).join(", ");
            let sql = format!(
                "SELECT cluster_id, name FROM nodes WHERE {these} AND idx >= 0 AND physical_id IS NOT NULL \
                 AND status IN ({statuses}) ORDER BY cluster_id, idx, id"
            );
            tx.rows(sql, args![ids]).await
        });
        for row in rows.await? {
            names.entry(row.parse(0)?).or_default().push(row.text(1)?);
        }
        Ok(names)
    }

    /// The number of workers of a group.
    pub async fn count_workers(&self, cluster: ClusterId, group: &str) -> Result<u32, StoreError> {
        const COUNT: &str =
            "SELECT count(*) FROM nodes WHERE cluster_id = $1 AND group_name = $2 AND role = $3";
        let arguments = args![cluster.to_string(), group, NodeRole::Worker.as_str()];
        self.read(async |tx| tx.one(COUNT, arguments).await?.number(0)).await
    }

    /// A page of nodes.
    pub async fn nodes(&self, query: &NodeQuery) -> Result<Page<Node>, StoreError> {
        let mut filter = Filter::default();
        filter.equal("project", query.project.as_ref());
        filter.equal("cluster_id", query.cluster.map(|id| id.to_string()));
        filter.any_of("group_name", query.group.iter());
        filter.any_of("role", query.role.iter().map(|role| role.as_str()));
        filter.any_of("name", query.names.iter());
        filter.any_of("status", query.statuses.iter().map(|status| status.as_str()));
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, query.marker.as_ref(), query.limit)
        };
        self.list(filter, selection).await
    }
}

//! Reads of nodes: members of clusters, and orphans.

use muster_core::node::Node;
use muster_service::lists::{NodeQuery, NodeSort};
use serde_json::Value;

use super::call::ClusteringCall;
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;

const SORTS: [(&str, NodeSort); 6] = [
    ("index", NodeSort::Index),
    ("name", NodeSort::Name),
    ("status", NodeSort::Status),
    ("init_at", NodeSort::InitAt),
    ("created_at", NodeSort::CreatedAt),
    ("updated_at", NodeSort::UpdatedAt),
];

impl ClusteringCall {
    /// Returns a node in the wire format.
    pub(super) async fn shown_node(&self, node: &Node) -> Result<Value, SenlinError> {
        let mut shown = self.shown(std::slice::from_ref(node)).await?;
        Ok(shown.pop().unwrap_or_default())
    }

    /// Returns nodes in the wire format.
    async fn shown(&self, nodes: &[Node]) -> Result<Vec<Value>, SenlinError> {
        let names = self.service().profile_names(nodes).await?;
        let name = |node: &Node| names.get(&node.profile_id).map(String::as_str);
        Ok(nodes.iter().map(|node| show::node(node, name(node), self.version)).collect())
    }
}

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&keys(&["cluster_id", "name", "status"]), false)?;
    let mut wanted = NodeQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?,
        sort: query.sort(&SORTS, NodeSort::InitAt)?,
        names: query.texts("name"),
        statuses: query.variants("status")?,
        ..NodeQuery::default()
    };
    if let Some(given) = query.last("cluster_id") {
        let found = call.named_cluster(given).await?;
        let found =
            found.ok_or_else(|| SenlinError::bad(format!("Cannot find the given cluster: {given}")))?;
        wanted.cluster = Some(found.id);
    }
    let nodes = call.list(wanted).await?;
    Ok(Reply::of("nodes", call.shown(&nodes).await?))
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    call.query.only(&["show_details"], false)?;
    let details = call.query.boolean("show_details")?.unwrap_or(false);
    let node = call.node(call.path(0)).await?;
    let mut shown = call.shown_node(&node).await?;
    if details && node.physical_id.is_some() {
        shown["details"] = Value::Object(call.service().details(&node).await?);
    }
    Ok(Reply::of("node", shown))
}

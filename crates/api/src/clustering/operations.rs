//! Operations that the profile types of nodes define.

use muster_core::change::{Change, OperateNodes};
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, ProfileId};
use muster_core::node::{Node, NodeStatus};
use muster_core::profile::ProfileType;
use muster_service::lists::{Authorized, NodeQuery};
use muster_service::ports::Operation;
use serde_json::{Map, Value};

use super::call::ClusteringCall;
use super::reply::Reply;
use super::senlin_error::SenlinError;

impl ClusteringCall {
    /// Returns the operations of a profile type on a provider instance.
    pub(super) fn operations(&self, instance: &InstanceId, kind: &ProfileType) -> Vec<Operation> {
        self.service().operations(instance, kind)
    }

    /// Refuses an unknown operation or wrong parameters.
    fn check_operation(
        &self,
        instance: &InstanceId,
        kind: &ProfileType,
        name: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), SenlinError> {
        let known = self.operations(instance, kind).into_iter().find(|operation| operation.name == name);
        let known = known.ok_or_else(|| {
            SenlinError::bad(format!(
                "The requested operation '{name}' is not supported by the profile type '{kind}'"
            ))
        })?;
        known.parameters.validate(parameters).map_err(|wrong| SenlinError::bad(wrong.to_string()))
    }
}

/// Returns the one operation in a body, with its data. `stop` ends the error messages, which differ between nodes and
/// clusters.
fn requested_operation(
    body: &Map<String, Value>,
    stop: &str,
) -> Result<(String, Map<String, Value>), SenlinError> {
    let mut entries = body.iter();
    let (name, data) =
        entries.next().ok_or_else(|| SenlinError::form(format!("No operation specified{stop}")))?;
    if entries.next().is_some() {
        return Err(SenlinError::form(format!("Multiple operations specified{stop}")));
    }
    match data {
        Value::Null => Ok((name.clone(), Map::new())),
        Value::Object(data) => Ok((name.clone(), data.clone())),
        _ => Err(SenlinError::form("The params provided is not a map.")),
    }
}

/// Runs an operation on one node.
pub(super) async fn on_node(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let (name, params) = requested_operation(call.body()?, ".")?;
    let node = call.node(call.path(0)).await?;
    let missing = || SenlinError::missing("profile", &node.profile_id.to_string());
    let profile = call.service().profile(node.profile_id).await?.ok_or_else(missing)?;
    call.check_operation(&node.instance, &profile.kind, &name, &params)?;
    let change = Change::OperateNode(OperateNodes { operation: name, params: Some(params), nodes: None });
    let action = call.service().change_node(&call.caller()?, &node, change).await?.id;
    Ok(Reply::of("action", action.to_string()).accepted(call, action))
}

/// Runs an operation on all nodes of a cluster, or on those that filters select.
pub(super) async fn on_cluster(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let (name, data) = requested_operation(call.body()?, "")?;
    let map = |key: &str| match data.get(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(_) => Err(SenlinError::form("The params provided is not a map.")),
    };
    let (params, filters) = (map("params")?, map("filters")?);
    let cluster = call.cluster(call.path(0)).await?;
    call.check_operation(&cluster.instance, &cluster.profile_type, &name, &params)?;
    let mut nodes = None;
    if !filters.is_empty() {
        let chosen = chosen(call, &cluster, &filters).await?;
        if chosen.is_empty() {
            return Err(SenlinError::bad("No node (matching the filter) could be found"));
        }
        nodes = Some(chosen.iter().map(|node| node.id).collect::<Vec<_>>());
    }
    let change = Change::OperateCluster(OperateNodes { operation: name, params: Some(params), nodes });
    let action = call.service().change_cluster(&call.caller()?, &cluster, change).await?.id;
    Ok(Reply::of("action", action.to_string()).accepted(call, action))
}

/// Returns the members that match all filters.
async fn chosen(
    call: &ClusteringCall,
    cluster: &Cluster,
    filters: &Map<String, Value>,
) -> Result<Vec<Node>, SenlinError> {
    let mut query = NodeQuery::default();
    let (mut role, mut profile) = (None, None);
    for (key, value) in filters {
        let text =
            value.as_str().ok_or_else(|| SenlinError::bad(format!("Filter key '{key}' needs a text")))?;
        match key.as_str() {
            "name" => query.names.push(text.to_owned()),
            "status" => {
                let status: NodeStatus =
                    text.parse().map_err(|_| SenlinError::form(format!("Field value {text} is invalid")))?;
                query.statuses.push(status);
            }
            "role" => role = Some(text.to_owned()),
            "profile_id" => {
                let id: ProfileId = text.parse().map_err(|_| SenlinError::unknown("profile", text))?;
                profile = Some(id);
            }
            _ => return Err(SenlinError::bad(format!("Filter key '{key}' is unsupported"))),
        }
    }
    let nodes = call.service().list(&Authorized::of_cluster(cluster, query)).await?;
    let fits = |node: &Node| {
        role.as_ref().is_none_or(|role| node.user_role == *role)
            && profile.is_none_or(|profile| node.profile_id == profile)
    };
    Ok(nodes.into_iter().filter(fits).collect())
}

//! Load-balancing policy: decides which nodes are members of a service. Simulated nodes belong to a simulated service.

use std::collections::HashMap;

use async_trait::async_trait;
use muster_core::action::{ActionKind, Target};
use muster_core::candidates;
use muster_core::change::Change;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_core::policy::Binding;
use serde_json::{Map, Value, json};

use crate::ids::new_id;
use crate::intent::victims::choose_victims;
use crate::policy::size_change::SizeChange;
use crate::policy::{PolicyContext, PolicyType};

/// The key of the membership in a node's data.
const MEMBER: &str = "lb_member";

/// The key of the services' addresses in a cluster's data.
const SERVICES: &str = "loadbalancers";

/// The address of a simulated service whose policy names none, from a documentation-only network.
const ADDRESS: &str = "192.0.2.1";

pub(crate) struct LoadBalancePolicy;

#[async_trait]
impl PolicyType for LoadBalancePolicy {
    fn kind(&self) -> &'static str {
        "senlin.policy.loadbalance-1.3"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        matches!(
            kind,
            ActionKind::ClusterAddNodes
                | ActionKind::ClusterDelNodes
                | ActionKind::ClusterScaleIn
                | ActionKind::ClusterScaleOut
                | ActionKind::ClusterResize
                | ActionKind::ClusterReplaceNodes
                | ActionKind::NodeCreate
                | ActionKind::NodeDelete
                | ActionKind::NodeRecover
        )
    }

    async fn attach(&self, binding: &mut Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let properties = binding.policy.properties().unwrap_or_default();
        let given = |map: &str, key: &str| properties.get(map).and_then(|map| map.get(key)).cloned();
        let existing = properties.get("loadbalancer").cloned();
        let service = json!({
            "preexisting": existing.is_some(),
            "loadbalancer": existing.unwrap_or_else(|| json!(new_id())),
            "pool": given("pool", "id").unwrap_or_else(|| json!(new_id())),
        });
        binding.data.insert("LoadBalancingPolicy".to_owned(), json!({"version": "1.3", "data": service}));
        let address = given("vip", "address").unwrap_or_else(|| json!(ADDRESS));
        let mut services = services(context);
        services.insert(binding.policy.id.to_string(), json!({"vip_address": address}));
        context.effects.set_cluster_data(SERVICES, Some(services.into()));
        add_members(context);
        Ok(())
    }

    async fn detach(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let mut services = services(context);
        services.remove(&binding.policy.id.to_string());
        let services = (!services.is_empty()).then(|| services.into());
        context.effects.set_cluster_data(SERVICES, services);
        for node in context.nodes.iter().filter(|node| node.data.contains_key(MEMBER)) {
            context.effects.set_node_data(node.id, MEMBER, None);
        }
        Ok(())
    }

    /// Takes nodes out of the service before they are removed from the cluster.
    async fn before(&self, _: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        for id in leaving(context) {
            context.effects.set_node_data(id, MEMBER, None);
        }
        Ok(())
    }

    /// Adds new nodes to the service, and those whose removal did not happen.
    async fn after(&self, _: &Binding, context: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        add_members(context);
        Ok(())
    }
}

fn services(context: &PolicyContext<'_>) -> Map<String, Value> {
    context.cluster.data.get(SERVICES).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Adds all working nodes that are not in the service yet.
fn add_members(context: &mut PolicyContext<'_>) {
    // Other actions may run beside a node's action: only that node may be written.
    let ours = |node: &Node| match context.action.target {
        Target::Node(id) => node.id == id,
        Target::Cluster(_) => true,
        Target::Unknown(_) => false,
    };
    let joins =
        |node: &&Node| node.status == NodeStatus::Active && !node.data.contains_key(MEMBER) && ours(node);
    let joining: Vec<NodeId> =
        candidates::workers(context.nodes, None).filter(joins).map(|node| node.id).collect();
    for id in joining {
        context.effects.set_node_data(id, MEMBER, Some(json!(new_id())));
    }
}

/// Returns the members that are removed; chooses them here, as the action would, if no policy has.
fn leaving(context: &mut PolicyContext<'_>) -> Vec<NodeId> {
    match (context.change, context.action.target) {
        (Change::DeleteNode(_), Target::Node(id)) => return vec![id],
        (Change::RemoveNodes(_) | Change::ReplaceNodes(_), _) => {
            return context.change.named_victims().unwrap_or_default();
        }
        _ => {}
    }
    let chosen = context.data.deletion.as_ref().and_then(|deletion| deletion.candidates.clone());
    if let Some(chosen) = chosen.filter(|chosen| !chosen.is_empty()) {
        return chosen;
    }
    let mut leaving = Vec::new();
    for (group, count) in SizeChange::of(context).removed {
        let members: Vec<&Node> = candidates::workers(context.nodes, Some(&group)).collect();
        let age = members.first().map(|node| (context.profile_created_at)(node)).unwrap_or_default();
        leaving.extend(choose_victims(&members, count, &[], age, &HashMap::new()));
    }
    if !leaving.is_empty() {
        context.data.deletion().choose(leaving.clone());
    }
    leaving
}

#[cfg(test)]
mod tests;

//! The labels and taints of a pool's nodes, and their removal.
//!
//! Labels and the annotation are applied under our own field manager. Taints are one list, which an apply would replace
//! together with the taints of others: they are patched, and the patch tests the list first. Stale keys are found on
//! the node itself, not in the spec, so that nodes that left the pool, types that changed and leftovers of the
//! published operator are cleaned in the same way.

mod pool;
mod taints;

use std::collections::{BTreeMap, BTreeSet};

use json_patch::Patch;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::decide::node_health::{HealthRules, NodeHealth, node_health};
use crate::decide::patch::{escape, read_patch};
use crate::keys;
use crate::types::NodePoolEntry;

pub use pool::{FinalizerStep, NodePlan, ObservedPool, plan_nodes, wanted_pool};

/// A write to a node. The writes of one node are in order: when one fails, the rest waits for the next pass.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeWrite {
    /// A patch of taints and of stale keys. The patch fails if the taints or a removed value have changed.
    Patch {
        /// The name of the node.
        node: String,
        /// The patch.
        patch: Patch,
    },
    /// The labels and annotations that we own, to be applied with force.
    Apply {
        /// The name of the node.
        node: String,
        /// The object to apply.
        configuration: Value,
    },
}

impl NodeWrite {
    /// The name of the node.
    pub fn node(&self) -> &str {
        match self {
            Self::Patch { node, .. } | Self::Apply { node, .. } => node,
        }
    }
}

/// The desired labels, annotations and taints of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WantedNode {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// Key and value; the effect is always `NoSchedule`.
    taints: Vec<(String, String)>,
}

/// The desired labels and taints of a node.
fn wanted_node(group: &str, entry: &NodePoolEntry, machine_type: &str, health: NodeHealth) -> WantedNode {
    let type_key = keys::type_key(machine_type);
    let taints = if entry.taint {
        vec![(keys::NODE_POOL.to_owned(), health.value().to_owned()), (type_key.clone(), group.to_owned())]
    } else {
        Vec::new()
    };
    WantedNode {
        labels: BTreeMap::from([
            (keys::NODE_POOL.to_owned(), health.value().to_owned()),
            (keys::MACHINE_TYPE.to_owned(), machine_type.to_owned()),
            (type_key, group.to_owned()),
        ]),
        annotations: BTreeMap::from([(keys::MACHINE_GROUP.to_owned(), group.to_owned())]),
        taints,
    }
}

/// The keys on a node that Muster may remove.
#[derive(Debug, Clone, Copy)]
struct OwnedKeys<'a> {
    /// The groups whose keys may be removed.
    groups: &'a BTreeSet<&'a str>,
    /// True if the keys that name no group may be removed, too, because the node belongs to no other group.
    shared: bool,
}

/// The writes that give a node the desired labels, annotations and taints; empty if nothing differs.
fn member_writes(node: &Node, groups: &BTreeSet<&str>, wanted: &WantedNode) -> Vec<NodeWrite> {
    let owned = OwnedKeys { groups, shared: true };
    let mut operations = stale_labels(node, owned, wanted);
    operations.extend(taints::operations(node, owned, &wanted.taints));
    let name = node.name_any();
    let has = |map: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| map.get(key) == Some(value))
    };
    let mut writes = Vec::new();
    if !has(node.labels(), &wanted.labels) || !has(node.annotations(), &wanted.annotations) {
        let mut configuration = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": wanted.labels, "annotations": wanted.annotations},
        });
        // If two groups claim a node at the same moment, the resource version makes the second apply a conflict.
        if !has(node.annotations(), &wanted.annotations) {
            configuration["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
        }
        writes.push(NodeWrite::Apply { node: name, configuration });
    }
    writes.extend(patch(node, operations));
    writes
}

/// The write that removes all keys of a group from a node; `None` if the node has none.
fn clean_up(node: &Node, group: &str) -> Option<NodeWrite> {
    if !carries(node, group) {
        return None;
    }
    let annotated = node.annotations().get(keys::MACHINE_GROUP).filter(|value| !value.is_empty());
    let groups = BTreeSet::from([group]);
    let owned = OwnedKeys { groups: &groups, shared: annotated.is_none_or(|annotated| annotated == group) };
    let nothing = WantedNode { labels: BTreeMap::new(), annotations: BTreeMap::new(), taints: Vec::new() };
    let mut operations = stale_labels(node, owned, &nothing);
    if let Some(annotated) = annotated.filter(|annotated| *annotated == group) {
        operations.extend(removal("annotations", keys::MACHINE_GROUP, annotated));
    }
    operations.extend(taints::operations(node, owned, &[]));
    patch(node, operations)
}

/// Returns true if a node has an annotation, a label or a taint of a group.
fn carries(node: &Node, group: &str) -> bool {
    node.annotations().get(keys::MACHINE_GROUP).is_some_and(|value| value == group)
        || node.labels().iter().any(|(key, value)| is_type_key(key) && value == group)
        || taints::carries(node, group)
}

/// Returns true if a key may be that of a type: a key of our domain that is not one of the fixed keys.
fn is_type_key(key: &str) -> bool {
    let own = [keys::NODE_POOL, keys::MACHINE_TYPE, keys::MACHINE_GROUP, keys::POD_ROLE];
    key.strip_prefix(keys::DOMAIN).is_some_and(|rest| rest.starts_with('/')) && !own.contains(&key)
}

/// The operations that remove the stale labels of these groups from a node.
fn stale_labels(node: &Node, owned: OwnedKeys, wanted: &WantedNode) -> Vec<Value> {
    let stale = |(key, value): &(&String, &String)| {
        let ours = (owned.shared && [keys::NODE_POOL, keys::MACHINE_TYPE].contains(&key.as_str()))
            || (is_type_key(key) && owned.groups.contains(value.as_str()));
        ours && !wanted.labels.contains_key(*key)
    };
    node.labels().iter().filter(stale).flat_map(|(key, value)| removal("labels", key, value)).collect()
}

fn removal(field: &str, key: &str, value: &str) -> [Value; 2] {
    let path = format!("/metadata/{field}/{}", escape(key));
    [json!({"op": "test", "path": path, "value": value}), json!({"op": "remove", "path": path})]
}

fn patch(node: &Node, operations: Vec<Value>) -> Option<NodeWrite> {
    (!operations.is_empty())
        .then(|| NodeWrite::Patch { node: node.name_any(), patch: read_patch(Value::Array(operations)) })
}

/// The health of a node of a pool.
fn health(entry: &NodePoolEntry, node: Option<&Node>, rules: HealthRules) -> NodeHealth {
    node_health(entry.mode, node, rules)
}

#[cfg(test)]
mod tests;

//! What policies change beside the action they look at.

use muster_core::ids::NodeId;
use muster_core::policy::Binding;
use muster_store::commands::BindingChange;
use serde_json::{Map, Value};

/// Changes that are written with the action that they belong to, or not at all.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) bindings: Vec<BindingChange>,
    pub(crate) node_data: Vec<(NodeId, &'static str, Option<Value>)>,
    pub(crate) cluster_data: Vec<(&'static str, Option<Value>)>,
}

impl Effects {
    /// Writes how a binding is from now on.
    pub fn put(&mut self, binding: Binding) {
        self.bindings.push(BindingChange::Put(Box::new(binding)));
    }

    /// Keeps something with a node, or takes it away.
    pub fn keep_with_node(&mut self, node: NodeId, key: &'static str, value: Option<Value>) {
        self.node_data.push((node, key, value));
    }

    /// Keeps something with the cluster, or takes it away.
    pub fn keep_with_cluster(&mut self, key: &'static str, value: Option<Value>) {
        self.cluster_data.push((key, value));
    }
}

/// Puts a value under a key, or takes it away.
pub(crate) fn keep(data: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(data.insert(key.to_owned(), value)),
        None => drop(data.remove(key)),
    }
}

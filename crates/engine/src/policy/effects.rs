//! Changes that policies make beside the action itself.

use muster_core::ids::NodeId;
use muster_core::policy::Binding;
use muster_store::commands::BindingChange;
use serde_json::{Map, Value};

/// Changes that are committed with their action, or not at all.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) bindings: Vec<BindingChange>,
    pub(crate) node_data: Vec<(NodeId, &'static str, Option<Value>)>,
    pub(crate) cluster_data: Vec<(&'static str, Option<Value>)>,
}

impl Effects {
    /// Adds or replaces a binding.
    pub fn put_binding(&mut self, binding: Binding) {
        self.bindings.push(BindingChange::Put(Box::new(binding)));
    }

    /// Sets or removes a value in a node's data.
    pub fn set_node_data(&mut self, node: NodeId, key: &'static str, value: Option<Value>) {
        self.node_data.push((node, key, value));
    }

    /// Sets or removes a value in the cluster's data.
    pub fn set_cluster_data(&mut self, key: &'static str, value: Option<Value>) {
        self.cluster_data.push((key, value));
    }
}

/// Sets a key, or removes it if there is no value.
pub(crate) fn set_or_remove(data: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(data.insert(key.to_owned(), value)),
        None => drop(data.remove(key)),
    }
}

//! The changes of the part of an object that describes its head or its workers.
//!
//! They are the differences between the wanted settings and those that the object stores, because others may have
//! changed it. Fields that do not differ are not written, since every change recreates pods.

use std::collections::{BTreeMap, BTreeSet};

use muster_core::change::{MapChange, NodeChange};
use muster_core::quantity::{Cpu, Memory};
use muster_core::recipe::NodeRecipe;
use muster_core::tier::{NODE_POOL, TIER_LABEL};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::kubernetes::projection::{NodeSettings, whole};

/// The recipe of a node before and after an update, and its settings in the object.
pub(super) struct NodePatch<'a> {
    pub(super) before: NodeRecipe,
    pub(super) after: NodeRecipe,
    /// The part of the update that names the node, if any.
    pub(super) named: Option<&'a NodeChange>,
    pub(super) stored: &'a NodeSettings,
    /// The names of the accelerator resources in the object.
    pub(super) accelerators: &'a BTreeSet<String>,
}

impl NodePatch<'_> {
    /// Returns the merge patch of the node; none if nothing differs.
    pub(super) fn patch(&self) -> Option<Value> {
        let mut node = Map::new();
        let has_new_shape = self.before.shape() != self.after.shape();
        if has_new_shape || self.named.is_some_and(|named| !named.shape.is_empty()) {
            node.extend(self.resources().map(|resources| ("resources".to_owned(), resources)));
        }
        for (key, values) in [("labels", self.labels()), ("nodeSelector", self.selectors())] {
            if !values.is_empty() {
                node.insert(key.to_owned(), Value::Object(values));
            }
        }
        (!node.is_empty()).then_some(Value::Object(node))
    }

    fn labels(&self) -> Map<String, Value> {
        let (before, after) = (&self.before.pod.labels, &self.after.pod.labels);
        let mut labels = differences(before, after);
        if self.names_tier() || before.get(TIER_LABEL) != after.get(TIER_LABEL) {
            set(&mut labels, TIER_LABEL, after.get(TIER_LABEL), self.stored.tier.as_ref());
        }
        labels
    }

    fn selectors(&self) -> Map<String, Value> {
        let (before, after) = (&self.before.selectors, &self.after.selectors);
        let mut selectors = differences(before, after);
        // Domino itself may have set the selector of the previous tier.
        if self.names_tier() || before.get(NODE_POOL) != after.get(NODE_POOL) {
            set(&mut selectors, NODE_POOL, after.get(NODE_POOL), self.stored.pool.as_ref());
        }
        selectors
    }

    /// Returns true if the update names the tier of the node.
    fn names_tier(&self) -> bool {
        match self.named.and_then(|named| named.labels.as_ref()) {
            Some(MapChange::Keys { keys }) => keys.contains_key(TIER_LABEL),
            Some(MapChange::All(labels)) => labels.contains_key(TIER_LABEL),
            None => false,
        }
    }

    /// Returns the resources of the node, if any of them differs. The operator accepts a limit below the request and
    /// then does nothing, so the limit of an amount is set with it: that of cpu only if the shape has one.
    fn resources(&self) -> Option<Value> {
        let wanted = self.after.shape();
        let (mut requests, mut limits) = (Map::new(), Map::new());
        if let Some(cpu) = wanted.cpu {
            requests.insert("cpu".to_owned(), cpu.to_string().into());
            let limit = wanted.limits.cpu.map_or(Value::Null, |limit| limit.to_string().into());
            limits.insert("cpu".to_owned(), limit);
        }
        if let Some(memory) = wanted.memory {
            requests.insert("memory".to_owned(), memory.to_string().into());
            limits.insert("memory".to_owned(), wanted.limits.memory.unwrap_or(memory).to_string().into());
        }
        let gpu = wanted
            .gpu
            .filter(|gpu| *gpu > 0)
            .map(|gpu| (wanted.gpu_resource().to_owned(), gpu.to_string().into()));
        let former = self.before.gpu_resource.iter().chain(self.accelerators);
        for (side, stored) in [(&mut requests, &self.stored.requests), (&mut limits, &self.stored.limits)] {
            let removed = former.clone().filter(|name| stored.contains_key(*name));
            side.extend(removed.map(|name| (name.clone(), Value::Null)));
            side.extend(gpu.clone());
        }
        let differs = |side: &Map<String, Value>, stored: &BTreeMap<String, Value>| {
            side.iter().any(|(name, wanted)| !is_stored(name, wanted, stored.get(name)))
        };
        (differs(&requests, &self.stored.requests) || differs(&limits, &self.stored.limits))
            .then(|| json!({"requests": requests, "limits": limits}))
    }
}

/// Returns true if an amount is stored, in any notation. Null is no amount.
fn is_stored(name: &str, wanted: &Value, stored: Option<&Value>) -> bool {
    let Some(stored) = stored else { return wanted.is_null() };
    match name {
        "cpu" => parse::<Cpu>(wanted).is_some_and(|cpu| parse(stored) == Some(cpu)),
        "memory" => parse::<Memory>(wanted).is_some_and(|memory| parse(stored) == Some(memory)),
        _ => whole(wanted).is_some_and(|count| whole(stored) == Some(count)),
    }
}

fn parse<T: DeserializeOwned>(amount: &Value) -> Option<T> {
    serde_json::from_value(amount.clone()).ok()
}

/// Returns the keys whose values differ; null removes a key.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Map<String, Value> {
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    removed.chain(changed.map(|(key, value)| (key.clone(), value.clone().into()))).collect()
}

/// Sets a key to its wanted value, unless the object stores that value.
fn set(changes: &mut Map<String, Value>, key: &str, wanted: Option<&String>, stored: Option<&String>) {
    if wanted == stored {
        changes.remove(key);
    } else {
        changes.insert(key.to_owned(), wanted.map_or(Value::Null, |wanted| wanted.clone().into()));
    }
}

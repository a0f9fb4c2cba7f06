//! What users gave for the nodes of a cluster beside its profile: variables of all nodes, and the head.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{ClusterRecipe, NodeRecipe, SHOWN};
use crate::change::{ClusterUpdate, NodeChange, ShapeChange};

/// The key under which a cluster's spec records that an update changed what was given at its creation.
const CHANGED: &str = "recipe_changed";

/// Variables of all nodes, and what the head has of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenRecipe {
    /// Environment variables of all nodes.
    pub env: BTreeMap<String, String>,
    /// Image, shape, variables and arguments of the head.
    pub head: NodeRecipe,
}

impl GivenRecipe {
    /// What a cluster was given, with the profile properties that its creator gave beside; none if no update has changed
    /// it since the profile was made.
    pub(super) fn changed(spec: &Map<String, Value>) -> Option<(Self, Map<String, Value>)> {
        let properties = || read(&shown(spec)["profileProperties"]);
        spec.contains_key(CHANGED).then(|| (Self::stored_in(spec), properties()))
    }

    /// What a cluster was given. A field that cannot be read counts as not given.
    pub fn stored_in(spec: &Map<String, Value>) -> Self {
        let shown = shown(spec);
        let stored = &shown["clusterSpec"]["headGroupSpec"];
        let shape = &stored["shape"];
        let head = NodeRecipe {
            cpu: read(&shape["cpu"]),
            memory: read(&shape["memory"]),
            gpu: read(&shape["gpu"]),
            image: read::<Option<String>>(&stored["image"]).filter(|image| !image.is_empty()),
            env: read(&stored["environment"]),
            args: read(&stored["args"]),
            ..NodeRecipe::default()
        };
        Self { env: read(&shown["envs"]), head }
    }

    /// Changes what a cluster was given. Everything that the update does not name stays as it is stored.
    pub fn update(spec: &mut Map<String, Value>, update: &ClusterUpdate) {
        if update.env.is_none() && update.head.is_none() {
            return;
        }
        let Self { mut env, mut head } = Self::stored_in(spec);
        let shown = spec.entry(SHOWN).or_insert_with(|| json!({}));
        if let Some(change) = &update.env {
            change.apply(&mut env);
            set(shown, "/envs", json!(env));
        }
        if let Some(change) = &update.head {
            change.apply(&mut head);
            let NodeChange { image, env, args, shape: ShapeChange { cpu, memory, gpu } } = change;
            let fields = [
                ("image", image.is_some(), json!(head.image)),
                ("environment", env.is_some(), json!(head.env)),
                ("args", args.is_some(), json!(head.args)),
                ("shape/cpu", cpu.is_some(), json!(cpu)),
                ("shape/memory", memory.is_some(), json!(memory)),
                ("shape/gpu", gpu.is_some(), json!(gpu)),
            ];
            for (field, _, value) in fields.into_iter().filter(|(_, named, _)| *named) {
                set(shown, &format!("/clusterSpec/headGroupSpec/{field}"), value);
            }
        }
        spec.insert(CHANGED.to_owned(), Value::Bool(true));
    }

    /// Drops what a cluster was given for its nodes, so that they follow its profile. What a group has of its own stays,
    /// and what does not concern the nodes.
    pub fn drop(spec: &mut Map<String, Value>) {
        spec.remove(CHANGED);
        let Some(Value::Object(shown)) = spec.get_mut(SHOWN) else { return };
        for key in ["version", "envs", "profileProperties"] {
            shown.remove(key);
        }
        if let Some(head) =
            shown.get_mut("clusterSpec").and_then(|spec| spec["headGroupSpec"].as_object_mut())
        {
            for key in ["image", "environment", "args", "shape"] {
                head.remove(key);
            }
        }
    }

    /// A recipe in which this goes before what is `below`. Everything else is as in `rest`.
    pub fn over(self, below: &ClusterRecipe, rest: ClusterRecipe) -> ClusterRecipe {
        let Self { env, head } = self;
        let over = |below: &BTreeMap<String, String>| below.clone().into_iter().chain(env.clone());
        ClusterRecipe {
            worker: NodeRecipe { env: over(&below.worker.env).collect(), ..rest.worker },
            head: NodeRecipe {
                cpu: head.cpu.or(below.head.cpu),
                memory: head.memory.or(below.head.memory),
                gpu: head.gpu.or(below.head.gpu),
                image: head.image.or_else(|| below.head.image.clone()),
                env: over(&below.head.env).chain(head.env).collect(),
                args: below.head.args.iter().cloned().chain(head.args).collect(),
                ..rest.head
            },
            ..rest
        }
    }
}

/// The part of a spec that the core API shows, in its own format.
fn shown(spec: &Map<String, Value>) -> &Value {
    spec.get(SHOWN).unwrap_or(&Value::Null)
}

fn read<T: DeserializeOwned + Default>(stored: &Value) -> T {
    T::deserialize(stored).unwrap_or_default()
}

/// Stores a value at a path of field names; an empty one is left out, as the API does.
fn set(stored: &mut Value, path: &str, value: Value) {
    let (parent, field) = path.rsplit_once('/').unwrap_or_default();
    if [Value::Null, json!([]), json!({})].contains(&value) {
        let parent = stored.pointer_mut(parent).and_then(Value::as_object_mut);
        parent.map(|parent| parent.remove(field));
        return;
    }
    let mut place = stored;
    for field in path.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[field];
    }
    *place = value;
}

#[cfg(test)]
mod tests;

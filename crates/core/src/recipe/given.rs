//! What users gave for the nodes of a cluster beside its profile: variables of all nodes, and the head.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ClusterRecipe, NodeRecipe, SHOWN};
use crate::change::{ClusterUpdate, MapChange, NodeChange};
use crate::shape::Shape;
use crate::unknown_fields::UnknownFields;

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
        spec.contains_key(CHANGED).then(|| {
            let stored = Stored::read(spec);
            (stored.given(), stored.profile_properties)
        })
    }

    /// The shape of the head, as far as it was given.
    pub fn head_shape(spec: &Map<String, Value>) -> Shape {
        Stored::read(spec).given().head.shape()
    }

    /// Changes what a cluster was given.
    pub fn update(spec: &mut Map<String, Value>, update: &ClusterUpdate) {
        if update.env.is_none() && update.head.is_none() {
            return;
        }
        let mut stored = Stored::read(spec);
        stored.update(update.env.as_ref(), update.head.as_ref());
        spec.insert(SHOWN.to_owned(), serde_json::to_value(stored).unwrap_or_default());
        spec.insert(CHANGED.to_owned(), Value::Bool(true));
    }

    /// Drops what a cluster was given, so that it follows its profile. What a group has of its own stays.
    pub fn drop(spec: &mut Map<String, Value>) {
        for key in [SHOWN, CHANGED] {
            spec.remove(key);
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

/// The stored form: as the core API shows it. Other fields of that API, and of a newer version, stay.
#[derive(Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Stored {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_default")]
    cluster_spec: StoredClusterSpec,
    #[serde(skip_serializing_if = "Map::is_empty")]
    profile_properties: Map<String, Value>,
    #[serde(flatten)]
    others: UnknownFields,
}

#[derive(Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredClusterSpec {
    #[serde(skip_serializing_if = "is_default")]
    head_group_spec: StoredHead,
    #[serde(flatten)]
    others: UnknownFields,
}

#[derive(Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredHead {
    #[serde(skip_serializing_if = "String::is_empty")]
    image: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    shape: StoredShape,
    #[serde(flatten)]
    others: UnknownFields,
}

#[derive(Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredShape {
    #[serde(skip_serializing_if = "String::is_empty")]
    cpu: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    memory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<u32>,
    #[serde(flatten)]
    others: UnknownFields,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Stored {
    fn read(spec: &Map<String, Value>) -> Self {
        spec.get(SHOWN).and_then(|stored| Self::deserialize(stored).ok()).unwrap_or_default()
    }

    fn given(&self) -> GivenRecipe {
        let StoredHead { image, environment, args, shape, .. } = &self.cluster_spec.head_group_spec;
        let head = NodeRecipe {
            cpu: shape.cpu.parse().ok(),
            memory: shape.memory.parse().ok(),
            gpu: shape.gpu,
            image: Some(image.clone()).filter(|image| !image.is_empty()),
            env: environment.clone(),
            args: args.clone(),
            ..NodeRecipe::default()
        };
        GivenRecipe { env: self.envs.clone(), head }
    }

    fn update(&mut self, env: Option<&MapChange>, head: Option<&NodeChange>) {
        let GivenRecipe { env: mut all, head: mut own } = self.given();
        if let Some(env) = env {
            env.apply(&mut all);
        }
        let mut shape = own.shape();
        if let Some(head) = head {
            head.apply(&mut own);
            head.shape.apply(&mut shape);
        }
        self.envs = all;
        let stored = &mut self.cluster_spec.head_group_spec;
        stored.image = own.image.unwrap_or_default();
        stored.environment = own.env;
        stored.args = own.args;
        stored.shape.cpu = shape.cpu.map(|cpu| cpu.to_string()).unwrap_or_default();
        stored.shape.memory = shape.memory.map(|memory| memory.to_string()).unwrap_or_default();
        stored.shape.gpu = shape.gpu;
    }
}

#[cfg(test)]
mod tests;

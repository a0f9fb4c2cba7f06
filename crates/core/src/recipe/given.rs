//! Fields of a cluster that users give in addition to its profile: variables of all nodes, and the recipe of the
//! head.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{ClusterRecipe, NodeRecipe, PodRecipe, SHOWN};
use crate::change::{ClusterUpdate, NodeChange};
use crate::machine::GUEST_LABELS;
use crate::shape::{Shape, UpperLimits};
use crate::unknown_fields::UnknownFields;

/// The key under which a cluster's spec records that an update changed the fields of the create request.
const CHANGED: &str = "recipe_changed";

/// The variables of all nodes and the recipe of the head that users gave for a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenRecipe {
    /// Environment variables of all nodes.
    pub env: BTreeMap<String, String>,
    /// Image, shape and its name, variables, arguments and labels of the head.
    pub head: NodeRecipe,
}

impl GivenRecipe {
    /// The given fields with the profile properties of the create request; none if no update has changed the fields
    /// since the profile was created.
    pub(super) fn changed(spec: &Map<String, Value>) -> Option<(Self, Map<String, Value>)> {
        let properties = || read(&shown(spec)["profileProperties"]);
        spec.contains_key(CHANGED).then(|| (Self::stored_in(spec), properties()))
    }

    /// Reads the given fields from the spec of a cluster. A field that cannot be read counts as not given.
    pub fn stored_in(spec: &Map<String, Value>) -> Self {
        let shown = shown(spec);
        let stored = &shown["clusterSpec"]["headGroupSpec"];
        let text = |value| read::<Option<String>>(value).filter(|text| !text.is_empty());
        let head = NodeRecipe {
            shape: text(&stored["computeTemplate"]),
            image: text(&stored["image"]),
            image_template: text(&stored["imageTemplate"]),
            env: read(&stored["environment"]),
            args: read(&stored["args"]),
            pod: PodRecipe { labels: read(&stored["labels"]), ..PodRecipe::default() },
            ..NodeRecipe::default()
        };
        Self { env: read(&shown["envs"]), head: head.with_shape(stored_shape(&stored["shape"])) }
    }

    /// Applies an update to the given fields. Everything that the update does not name stays as it is stored.
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
            let NodeChange { image, env, args, labels, shape } = change;
            let (before, mut after) = (head.shape(), head.shape());
            shape.apply(&mut after);
            let fields = [
                ("image", image.is_some(), json!(head.image)),
                ("environment", env.is_some(), json!(head.env)),
                ("args", args.is_some(), json!(head.args)),
                ("labels", labels.is_some(), json!(head.pod.labels)),
            ];
            if image.is_some() {
                set(shown, "/clusterSpec/headGroupSpec/imageTemplate", Value::Null);
            }
            let before = shape_fields(before);
            let of_shape = shape_fields(after).into_iter().filter(|field| !before.contains(field));
            let named = fields.into_iter().filter(|(_, named, _)| *named);
            let all = named.map(|(field, _, value)| (field.to_owned(), value)).chain(of_shape);
            for (field, value) in all {
                set(shown, &format!("/clusterSpec/headGroupSpec/{field}"), value);
            }
        }
        spec.insert(CHANGED.to_owned(), Value::Bool(true));
    }

    /// Drops the given fields, so that the nodes follow the profile. Recipes of groups and fields that do not concern
    /// the nodes stay.
    pub fn drop(spec: &mut Map<String, Value>) {
        spec.remove(CHANGED);
        let Some(Value::Object(shown)) = spec.get_mut(SHOWN) else { return };
        for key in ["version", "envs", "profileProperties"] {
            shown.remove(key);
        }
        if let Some(head) =
            shown.get_mut("clusterSpec").and_then(|spec| spec["headGroupSpec"].as_object_mut())
        {
            for key in ["computeTemplate", "image", "imageTemplate", "environment", "args", "labels", "shape"]
            {
                head.remove(key);
            }
        }
    }

    /// A recipe in which the given fields take precedence over those of `below`. All other fields are those of
    /// `rest`, as are the labels of a guest: they were looked up when the cluster was created, and never change.
    pub fn over(self, below: &ClusterRecipe, rest: ClusterRecipe) -> ClusterRecipe {
        let Self { env, head } = self;
        let shape = head.shape().or(below.head.shape());
        let over = |below: &BTreeMap<String, String>| below.clone().into_iter().chain(env.clone());
        let of_guest = rest.head.pod.labels.clone().into_iter();
        let of_guest = of_guest.filter(|(key, _)| GUEST_LABELS.contains(&key.as_str()));
        let labels =
            below.head.pod.labels.clone().into_iter().chain(head.pod.labels).chain(of_guest).collect();
        let has_image = head.image.is_some() || head.image_template.is_some();
        let (image, image_template) = if has_image {
            (head.image, head.image_template)
        } else {
            (below.head.image.clone(), below.head.image_template.clone())
        };
        ClusterRecipe {
            worker: NodeRecipe { env: over(&below.worker.env).collect(), ..rest.worker },
            head: NodeRecipe {
                env: over(&below.head.env).chain(head.env).collect(),
                args: below.head.args.iter().cloned().chain(head.args).collect(),
                shape: head.shape.or_else(|| below.head.shape.clone()),
                image,
                image_template,
                pod: PodRecipe { labels, ..rest.head.pod },
                ..rest.head
            }
            .with_shape(shape),
            ..rest
        }
    }
}

/// The part of a spec that the core API shows, in its own format.
fn shown(spec: &Map<String, Value>) -> &Value {
    spec.get(SHOWN).unwrap_or(&Value::Null)
}

/// The shape of the head in the format of the core API. A field that cannot be read counts as not given.
fn stored_shape(stored: &Value) -> Shape {
    Shape {
        cpu: read(&stored["cpu"]),
        memory: read(&stored["memory"]),
        gpu: read(&stored["gpu"]),
        limits: UpperLimits {
            cpu: read(&stored["limits"]["cpu"]),
            memory: read(&stored["limits"]["memory"]),
            ..UpperLimits::default()
        },
        gpu_resource: read::<Option<String>>(&stored["gpuResource"]).filter(|name| !name.is_empty()),
        extended_resources: read(&stored["extendedResources"]),
        tolerations: read(&stored["tolerations"]),
        selectors: read(&stored["selectors"]),
        unknown: UnknownFields::default(),
    }
}

/// The fields of a shape in the format of the core API; those of a newer version stay as they are stored.
fn shape_fields(shape: Shape) -> [(String, Value); 9] {
    let Shape {
        cpu,
        memory,
        gpu,
        limits,
        gpu_resource,
        extended_resources,
        tolerations,
        selectors,
        unknown: _,
    } = shape;
    [
        ("cpu", json!(cpu)),
        ("memory", json!(memory)),
        ("gpu", json!(gpu)),
        ("limits/cpu", json!(limits.cpu)),
        ("limits/memory", json!(limits.memory)),
        ("gpuResource", json!(gpu_resource)),
        ("extendedResources", json!(extended_resources)),
        ("tolerations", json!(tolerations)),
        ("selectors", json!(selectors)),
    ]
    .map(|(field, value)| (format!("shape/{field}"), value))
}

fn read<T: DeserializeOwned + Default>(stored: &Value) -> T {
    T::deserialize(stored).unwrap_or_default()
}

/// Stores a value at a path of field names. An empty value is left out, as the API does.
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

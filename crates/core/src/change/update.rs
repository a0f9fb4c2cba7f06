//! Updates of clusters. An update contains only what it changes, and is applied when its action runs, so that updates
//! that are queued behind each other do not undo one another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cluster::WorkerGroup;
use crate::ids::ProfileId;
use crate::limits::{LimitsChange, present};
use crate::recipe::NodeRecipe;
use crate::resize::{MaxSize, Resize};
use crate::shape::ShapeChange;
use crate::string_enum::string_enum;

/// Properties that an update changes; what is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterUpdate {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The longest time that its actions may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// User data by key; null removes a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Settings by key; null removes a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<MapChange>,
    /// Annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<MapChange>,
    /// Environment variables of all nodes of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<MapChange>,
    /// The recipe of the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<NodeChange>,
    /// Idle timeout and lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsChange>,
    /// Worker groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupChange>>,
    /// The profile that the nodes shall follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<ProfileId>,
    /// True if only new nodes follow that profile, and present nodes keep theirs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub profile_only: bool,
    /// A resize of the first group, relative to the number of its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<Resize>,
    /// The running nodes that the update replaces. If absent, these are all nodes whose recipe changes, where their
    /// provider can replace them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartScope>,
}

string_enum! {
    /// The running nodes that an update replaces.
    RestartScope, "restart scope" {
        /// No node: running nodes keep their recipe until they are restarted.
        Never = "never",
        /// The workers, including those that an earlier update left with an older recipe. The head keeps its recipe.
        Workers = "workers",
    }
}

impl ClusterUpdate {
    /// Reads stored inputs. Version 1 stored environment variables in the cluster's spec.
    pub(super) fn read(inputs: &Value) -> Result<Self, String> {
        let mut update: Self = super::read(inputs)?;
        if let Some(envs) = inputs.pointer("/spec/cluster/envs").filter(|_| update.env.is_none()) {
            update.env = Some(MapChange::All(super::read(envs)?));
        }
        Ok(update)
    }

    /// Returns true if the update concerns the nodes: their number, their recipe or their restart.
    pub const fn concerns_nodes(&self) -> bool {
        let Self { env, head, groups, profile_id, resize, restart, .. } = self;
        env.is_some()
            || head.is_some()
            || groups.is_some()
            || profile_id.is_some()
            || resize.is_some()
            || restart.is_some()
    }

    /// The version of the format of its inputs, so that no engine claims an update that it would apply incompletely.
    ///
    /// Engines of version 1 read labels, annotations and groups only as a whole, and neither variables nor the head.
    /// Those of version 2 read only the amounts of a shape, those of version 3 no labels of pods, and those of
    /// version 4 replace nodes in any case.
    pub(super) fn version(&self) -> u32 {
        let Self { labels, annotations, env, head, groups, .. } = self;
        let is_new =
            labels.is_some() || annotations.is_some() || env.is_some() || head.is_some() || groups.is_some();
        let nodes = || groups.iter().flatten().map(|group| &group.node).chain(head);
        if self.restart.is_some() {
            5
        } else if nodes().any(|node| node.labels.is_some()) {
            4
        } else if nodes().any(|node| node.shape.is_beyond_amounts()) {
            3
        } else if is_new {
            2
        } else {
            1
        }
    }

    /// Returns true if the update names a part of the recipe of nodes, even if the value does not change.
    pub fn names_recipe(&self) -> bool {
        let of_group = |group: &GroupChange| group.node != NodeChange::default();
        self.profile_id.is_some()
            || self.env.is_some()
            || self.head.is_some()
            || self.groups.iter().flatten().any(of_group)
    }

    /// Returns true if the update changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the update may change the sizes of groups.
    pub fn resizes(&self) -> bool {
        self.resize.is_some() || self.groups.iter().flatten().any(|group| group.resize().is_some())
    }
}

/// A change of a map of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MapChange {
    /// Changes some keys.
    Keys {
        /// Their values; null removes a key.
        keys: BTreeMap<String, Option<String>>,
    },
    /// Replaces the whole map.
    All(BTreeMap<String, String>),
}

impl MapChange {
    /// Applies the change to a map.
    pub fn apply(&self, map: &mut BTreeMap<String, String>) {
        match self {
            Self::All(all) => map.clone_from(all),
            Self::Keys { keys } => {
                for (key, value) in keys {
                    match value {
                        Some(value) => map.insert(key.clone(), value.clone()),
                        None => map.remove(key),
                    };
                }
            }
        }
    }
}

/// A change of the recipe of the head, or of a group's workers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeChange {
    /// The image; null stands for the image of the cluster.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub image: Option<Option<String>>,
    /// Environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<MapChange>,
    /// Additions to the start command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Labels of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<MapChange>,
    /// The shape.
    #[serde(skip_serializing_if = "ShapeChange::is_empty")]
    pub shape: ShapeChange,
}

impl NodeChange {
    /// Applies the change to a recipe, without the shape: a group stores that outside its recipe.
    pub fn apply(&self, recipe: &mut NodeRecipe) {
        let Self { image, env, args, labels, shape: _ } = self;
        if let Some(image) = image {
            recipe.image.clone_from(image);
            recipe.image_template = None;
        }
        if let Some(env) = env {
            env.apply(&mut recipe.env);
        }
        if let Some(args) = args {
            recipe.args.clone_from(args);
        }
        if let Some(labels) = labels {
            labels.apply(&mut recipe.pod.labels);
        }
    }
}

/// A change of a worker group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredGroupChange")]
pub struct GroupChange {
    /// Its name.
    pub name: String,
    /// The desired number of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<u32>,
    /// A lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// An upper bound; null is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Option<u32>>,
    /// The recipe of its workers.
    #[serde(flatten)]
    pub node: NodeChange,
}

/// A change of a group as it is stored. Earlier versions stored the whole group, with its recipe in its spec.
#[derive(Deserialize)]
#[expect(clippy::option_option, reason = "absent and null are two things")]
struct StoredGroupChange {
    name: String,
    desired: Option<u32>,
    min: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    max: Option<Option<u32>>,
    #[serde(flatten)]
    node: NodeChange,
    #[serde(default)]
    spec: Map<String, Value>,
}

impl From<StoredGroupChange> for GroupChange {
    fn from(stored: StoredGroupChange) -> Self {
        let StoredGroupChange { name, desired, min, max, mut node, spec } = stored;
        if let Some(NodeRecipe { image, env, args, .. }) = NodeRecipe::in_spec(&spec) {
            node =
                NodeChange { image: Some(image), env: Some(MapChange::All(env)), args: Some(args), ..node };
        }
        Self { name, desired, min, max, node }
    }
}

impl GroupChange {
    /// The change of its size and bounds, if there is any.
    pub fn resize(&self) -> Option<Resize> {
        let Self { desired, min, max, .. } = *self;
        (desired.is_some() || min.is_some() || max.is_some()).then(|| Resize {
            adjustment: desired.and_then(|desired| Resize::exactly(desired).adjustment),
            min_size: min,
            max_size: max.map(|max| max.map_or(MaxSize::Unbounded, MaxSize::Bound)),
            strict: true,
        })
    }

    /// Applies the change to the recipe and the shape of a group, but not to its size.
    pub fn apply_recipe(&self, group: &mut WorkerGroup) {
        let stored = NodeRecipe::stored_in(group);
        let mut recipe = stored.clone();
        self.node.apply(&mut recipe);
        if recipe != stored {
            recipe.store_in(group);
        }
        self.node.shape.apply(&mut group.shape);
    }
}

//! What objects say, as far as anybody here wants to know it: all else is forgotten as soon as it is read.

use std::collections::{BTreeMap, BTreeSet};

use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::{GPU_RESOURCE, Shape};
use serde_json::Value;

/// What an object says of the cluster that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// The cluster's name among its kind in the namespace.
    pub cluster: String,
    /// The name of the object itself.
    pub object: String,
    /// Which part of the cluster it is, where a flavor has to know that all are there.
    pub part: Option<&'static str>,
    /// Groups of workers.
    pub groups: Vec<GroupWords>,
    /// Who decides on the size of a group.
    pub autoscaler: Option<Autoscaler>,
    /// What the head is made from.
    pub head: NodeWords,
    /// The configuration that the object records, where a flavor writes one.
    pub config: Option<String>,
    /// The version of the framework.
    pub version: Option<String>,
    /// What the head knows is kept elsewhere, so that workers find themselves known to the next one.
    pub head_remembers: bool,
    /// Nothing shall run for now.
    pub suspended: bool,
    /// Why its operator will not act on it.
    pub refused: Vec<String>,
    /// What its operator waits for.
    pub pending: Vec<String>,
    /// Its operator has looked at it.
    pub noticed: bool,
    /// The pod that its operator takes for the head, if it says so.
    pub known_head: Option<String>,
    /// How many working workers its operator knows of, if it says so.
    pub known_workers: Option<u32>,
    /// The state that its operator reports: empty before it has reported any. None if it does not report states.
    pub state: Option<String>,
    /// The ports of the head by purpose, as its operator reports them.
    pub ports: BTreeMap<String, String>,
}

/// What is said of a group of workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupWords {
    /// Its name.
    pub name: String,
    /// Where it stands among the groups of its object.
    pub place: usize,
    /// How many workers it shall have.
    pub desired: u32,
    /// At least and at most so many, if the object knows bounds.
    pub bounds: Option<(u32, Option<u32>)>,
    /// An autoscaler beside it goes no lower than this, if the object says so; whoever resizes it moves this along.
    pub floor: Option<u32>,
    /// The floor is not at the number of workers, to which a resize moves it.
    pub floor_differs: bool,
    /// The object has no number of workers, only the floor.
    pub only_floor: bool,
    /// So many pods are one of its replicas.
    pub hosts: u32,
    /// What workers are made from.
    pub made_from: NodeWords,
    /// Pods that the object names as the first to go.
    pub victims: Vec<String>,
}

/// The groups that all objects of a cluster speak of, the root's first; what another object says of a group counts more
/// than what the root says.
pub fn groups<'w>(words: &[&'w Words]) -> Vec<&'w GroupWords> {
    let mut groups: Vec<&GroupWords> = Vec::new();
    for group in words.iter().flat_map(|words| &words.groups) {
        match groups.iter_mut().find(|known| known.name == group.name) {
            Some(known) => *known = group,
            None => groups.push(group),
        }
    }
    groups
}

/// An autoscaler, and between which bounds it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoscaler {
    /// For which group; all if none is named.
    pub group: Option<String>,
    /// Its bounds, if it has ones of its own.
    pub bounds: Option<(u32, Option<u32>)>,
}

/// What nodes are made from, as far as two makings are told apart by it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeWords {
    /// The image of its main container.
    pub image: String,
    /// What that container asks for.
    pub shape: Shape,
    /// The resources by which it asks for accelerators.
    pub accelerators: BTreeSet<String>,
}

impl NodeWords {
    /// Reads the first container of a pod's spec.
    pub fn of_pod_spec(spec: &Value) -> Self {
        let container = &spec["containers"][0];
        Self::of_container(text(&container["image"]), &container["resources"])
    }

    /// What a container with these resources is.
    pub fn of_container(image: String, resources: &Value) -> Self {
        Self { image, shape: shape(resources), accelerators: accelerators(resources) }
    }
}

/// The names of resources that are accelerators, of any vendor.
fn accelerators(resources: &Value) -> BTreeSet<String> {
    let is_accelerator =
        |name: &&String| name.contains('/') && (name.contains("gpu") || name.starts_with("nvidia.com/"));
    let sides = ["requests", "limits"].into_iter().filter_map(|side| resources[side].as_object());
    sides.flat_map(|side| side.keys().filter(is_accelerator).cloned()).collect()
}

/// What a container is given: its limits, and where there are none its requests.
fn shape(resources: &Value) -> Shape {
    let amount = |name: &str| {
        let of = |side: &str| Some(resources[side].get(name)?.clone());
        of("limits").or_else(|| of("requests"))
    };
    Shape {
        cpu: amount("cpu").and_then(|cpu| serde_json::from_value::<Cpu>(cpu).ok()),
        memory: amount("memory").and_then(|memory| serde_json::from_value::<Memory>(memory).ok()),
        gpu: amount(GPU_RESOURCE).and_then(|gpu| whole(&gpu)),
        ..Shape::default()
    }
}

/// A text; empty if it is none.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A whole number, also one in quotes.
pub(super) fn whole(value: &Value) -> Option<u32> {
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    // Below zero means none to every operator.
    Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// Conditions that say why pods are missing, such as a quota.
pub(super) fn replica_failures(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let failing = |condition: &&Value| condition["type"] == "ReplicaFailure" && condition["status"] == "True";
    // The first line is but a word for the reason: in one line both are seen wherever only one has room.
    let one_line = |condition: &Value| text(&condition["message"]).lines().collect::<Vec<_>>().join(": ");
    conditions.iter().filter(failing).map(one_line).collect()
}

/// Whether whoever acts on objects has written anything on this one.
pub(super) fn has_status(object: &Value) -> bool {
    object["status"].as_object().is_some_and(|status| !status.is_empty())
}

/// Labels or annotations of an object.
pub(super) fn mark(object: &Value, place: &str, key: &str) -> Option<String> {
    object["metadata"][place][key].as_str().map(str::to_owned)
}

//! Projections of Kubernetes objects: the few facts that Muster uses, so that caches need not hold whole objects.

use std::collections::{BTreeMap, BTreeSet};

use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::{GPU_RESOURCE, Shape};
use serde_json::Value;

/// The facts about a cluster that one of its objects has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectProjection {
    /// The name of the cluster's root, or the name that all of its objects share.
    pub cluster: String,
    /// The name of the object itself.
    pub object: String,
    /// The part of the cluster that the object is, where the flavor checks that no part is missing.
    pub part: Option<&'static str>,
    /// The worker groups that the object describes.
    pub groups: Vec<GroupProjection>,
    /// The autoscaler that the object configures.
    pub autoscaler: Option<ObservedAutoscaler>,
    /// The template of the head's pod.
    pub head: PodTemplate,
    /// The settings of the head that a hardware tier owns, where updates are compared with them.
    pub head_settings: NodeSettings,
    /// The same settings of the workers.
    pub worker_settings: NodeSettings,
    /// The recorded configuration, where a flavor writes one.
    pub config: Option<String>,
    /// The version of the framework.
    pub version: Option<String>,
    /// True if the head's state is stored outside of its pod, so that workers can rejoin the next head.
    pub durable_head: bool,
    /// True if the cluster is suspended: no pods should run.
    pub suspended: bool,
    /// Reasons why the operator does not act on the object.
    pub rejections: Vec<String>,
    /// Reasons why pods are missing.
    pub pending: Vec<String>,
    /// True if the operator has processed the object at least once.
    pub acknowledged: bool,
    /// The head's pod, as the operator reports it.
    pub reported_head: Option<String>,
    /// The number of ready workers, as the operator reports it.
    pub reported_workers: Option<u32>,
    /// The state that the operator reports, empty before the first report; none if it reports no states.
    pub state: Option<String>,
    /// The head's ports by purpose, as the operator reports them.
    pub ports: BTreeMap<String, String>,
}

/// A worker group, as an object describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupProjection {
    /// The name of the group.
    pub name: String,
    /// The index in the object's list of groups.
    pub index: usize,
    /// The desired number of workers.
    pub desired: u32,
    /// The lower and upper bound of the size, if the object has bounds.
    pub bounds: Option<(u32, Option<u32>)>,
    /// The lowest size that an autoscaler chooses, if the object has one; a resize moves it.
    pub floor: Option<u32>,
    /// True if the floor differs from the one that a resize to the desired size writes.
    pub floor_differs: bool,
    /// True if the object has no desired size, only the floor.
    pub sized_by_floor: bool,
    /// The number of pods of one replica.
    pub hosts: u32,
    /// The template of the workers' pods.
    pub template: PodTemplate,
    /// The pods that the object marks for removal.
    pub victims: Vec<String>,
}

/// Returns the groups of a cluster from all of its objects. A later object overrides the root, which comes first.
pub fn merge_groups<'o>(objects: &[&'o ObjectProjection]) -> Vec<&'o GroupProjection> {
    let mut groups: Vec<&GroupProjection> = Vec::new();
    for group in objects.iter().flat_map(|object| &object.groups) {
        match groups.iter_mut().find(|known| known.name == group.name) {
            Some(known) => *known = group,
            None => groups.push(group),
        }
    }
    groups
}

/// An autoscaler and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedAutoscaler {
    /// The group that the autoscaler scales; none for all groups.
    pub group: Option<String>,
    /// The autoscaler's own bounds, if it has any.
    pub bounds: Option<(u32, Option<u32>)>,
}

/// The template of a node's pod, reduced to what shows that a running pod is outdated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodTemplate {
    /// The image of the main container.
    pub image: String,
    /// The resources of that container.
    pub shape: Shape,
    /// The names of the container's accelerator resources.
    pub accelerators: BTreeSet<String>,
}

impl PodTemplate {
    /// Returns the template of a pod spec, whose first container is the main one.
    pub fn from_pod_spec(spec: &Value) -> Self {
        let container = &spec["containers"][0];
        Self::from_container(text(&container["image"]), &container["resources"])
    }

    /// Returns the template of a container with this image and these resources.
    pub fn from_container(image: String, resources: &Value) -> Self {
        Self { image, shape: shape(resources), accelerators: accelerators(resources) }
    }
}

/// The settings of a node that a hardware tier owns, as an object stores them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSettings {
    /// The label that names the tier.
    pub tier: Option<String>,
    /// The node pool that the node selects.
    pub pool: Option<String>,
    /// The requested amounts by resource.
    pub requests: BTreeMap<String, Value>,
    /// The limits by resource.
    pub limits: BTreeMap<String, Value>,
}

/// Returns the names of accelerator resources of any vendor.
fn accelerators(resources: &Value) -> BTreeSet<String> {
    let is_accelerator =
        |name: &&String| name.contains('/') && (name.contains("gpu") || name.starts_with("nvidia.com/"));
    let sides = ["requests", "limits"].into_iter().filter_map(|side| resources[side].as_object());
    sides.flat_map(|side| side.keys().filter(is_accelerator).cloned()).collect()
}

/// Returns the resources of a container: its limits, or else its requests.
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

/// Returns the text of a value; empty for other types.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a whole number, also if it is quoted. Numbers beyond the range are reduced to its end.
pub(super) fn whole(value: &Value) -> Option<u32> {
    let float = || value.as_f64().filter(|float| float.fract() == 0.0);
    #[expect(clippy::cast_possible_truncation, reason = "whole, and a conversion of floats saturates")]
    let number = value.as_i64().or_else(|| Some(float()? as i64)).or_else(|| value.as_str()?.parse().ok())?;
    // Every operator reads negative numbers as zero.
    Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// Returns the messages of conditions that explain missing pods, such as an exceeded quota.
pub(super) fn replica_failures(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let failing = |condition: &&Value| condition["type"] == "ReplicaFailure" && condition["status"] == "True";
    // The first line is only the reason. Joined lines keep the explanation where only one line is shown.
    let one_line = |condition: &Value| text(&condition["message"]).lines().collect::<Vec<_>>().join(": ");
    conditions.iter().filter(failing).map(one_line).collect()
}

/// Returns true if the object has a status, which means that its controller has processed it.
pub(super) fn has_status(object: &Value) -> bool {
    object["status"].as_object().is_some_and(|status| !status.is_empty())
}

/// Returns the value of a label or annotation; `map` is `labels` or `annotations`.
pub(super) fn metadata_entry(object: &Value, map: &str, key: &str) -> Option<String> {
    object["metadata"][map][key].as_str().map(str::to_owned)
}

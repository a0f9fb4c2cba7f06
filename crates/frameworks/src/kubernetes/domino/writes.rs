//! Writes to Domino's objects: always one merge patch, because parts of the object may be missing.

use std::collections::BTreeMap;

use muster_core::recipe::NodeRecipe;
use muster_core::shape::Shape;
use muster_core::tier::{NODE_POOL, TIER_LABEL};
use serde_json::{Map, Value, json};

use super::image;
use crate::kubernetes::flavor::{DesiredCluster, GroupResize, ObjectWrite, WriteOperation};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::ResourceKind;
use crate::kubernetes::projection::{GroupProjection, ObjectProjection, PodTemplate};

pub(super) fn resize(
    kind: &'static ResourceKind,
    cluster: &str,
    objects: &[&ObjectProjection],
    changes: &[GroupResize<'_>],
) -> Result<Vec<ObjectWrite>, String> {
    let mut spec = Map::new();
    for change in changes {
        let group = group(objects, change.group)?;
        if let Some(desired) = change.desired.filter(|_| !group.sized_by_floor) {
            spec.insert("worker".to_owned(), json!({"replicas": desired}));
        }
        let autoscaling = autoscaling(group, change)?;
        if !autoscaling.is_empty() {
            spec.insert("autoscaling".to_owned(), Value::Object(autoscaling));
        }
    }
    let body = if spec.is_empty() { json!({}) } else { json!({"spec": spec}) };
    Ok(vec![ObjectWrite { kind, name: cluster.to_owned(), operation: WriteOperation::GuardedMerge(body) }])
}

fn group<'w>(objects: &[&'w ObjectProjection], name: &str) -> Result<&'w GroupProjection, String> {
    let mut groups = objects.iter().flat_map(|object| &object.groups);
    groups.find(|group| group.name == name).ok_or_else(|| format!("there is no group '{name}' any more"))
}

/// Returns the fields of the autoscaler; none without an autoscaler, where bounds exist only in the row.
fn autoscaling(group: &GroupProjection, change: &GroupResize<'_>) -> Result<Map<String, Value>, String> {
    let mut numbers = Map::new();
    if group.bounds.is_none() {
        return Ok(numbers);
    }
    match change.desired {
        // The operator accepts no number below 1.
        Some(0) => numbers.extend(group.floor.map(|_| ("minReplicas".to_owned(), json!(1)))),
        // Below its floor, the autoscaler would remove the workers that were just requested.
        Some(desired) => drop(numbers.insert("minReplicas".to_owned(), json!(desired))),
        None => {}
    }
    match change.bounds {
        None => {}
        Some((0, Some(max))) => drop(numbers.insert("maxReplicas".to_owned(), json!(max))),
        Some((0, None)) => {
            return Err("a Domino cluster with an autoscaler needs a largest size of at least 1".to_owned());
        }
        Some((min, _)) => {
            return Err(format!(
                "{min} as the least size is not possible: the minimum of a Domino cluster follows its size; leave it at 0"
            ));
        }
    }
    Ok(numbers)
}

pub(super) fn remake(
    kind: &'static ResourceKind,
    head: &str,
    before: DesiredCluster<'_>,
    after: DesiredCluster<'_>,
    objects: &[&ObjectProjection],
) -> Result<Vec<ObjectWrite>, String> {
    let cluster = after.cluster;
    let group = only_group(cluster, "domino")?;
    let (masters, workers) = check(after)?;
    let had_workers = before.recipe.workers(before.cluster.group(&group.name));
    let present = objects.first().ok_or_else(|| "there is no such cluster any more".to_owned())?;
    let workers_now = self::group(objects, &group.name)?;
    let mut spec = Map::new();
    spec.extend(node(&before.recipe.head(), &masters, &present.head).map(|node| (head.to_owned(), node)));
    if !workers_now.sized_by_floor {
        let workers = node(&had_workers, &workers, &workers_now.template);
        spec.extend(workers.map(|node| ("worker".to_owned(), node)));
    }
    spec.extend(
        changed_image(&masters, &workers, &present.head.image)?.map(|image| ("image".to_owned(), image)),
    );
    let body = if spec.is_empty() { json!({}) } else { json!({"spec": spec}) };
    Ok(vec![ObjectWrite {
        kind,
        name: cluster.object_name.clone(),
        operation: WriteOperation::GuardedMerge(body),
    }])
}

/// Returns the recipes of head and workers; the error explains settings for which the object has no field.
pub(super) fn check(
    DesiredCluster { cluster, recipe }: DesiredCluster<'_>,
) -> Result<(NodeRecipe, NodeRecipe), String> {
    let group = only_group(cluster, "domino")?;
    let (masters, workers) = (recipe.head(), recipe.workers(Some(group)));
    for node in [&masters, &workers] {
        if !(node.env.is_empty() && node.args.is_empty()) {
            return Err(
                "variables and arguments of a Domino cluster are Domino's: change them there".to_owned()
            );
        }
    }
    if let (Some(head), Some(worker)) = (&masters.image, &workers.image)
        && image::in_full(head) != image::in_full(worker)
    {
        return Err(format!(
            "all nodes of a Domino cluster have one image, but '{head}' and '{worker}' were given"
        ));
    }
    Ok((masters, workers))
}

/// Returns the changed fields of the part of the object that describes a node. Fields that do not change are not
/// written, since every change recreates pods.
fn node(before: &NodeRecipe, after: &NodeRecipe, now: &PodTemplate) -> Option<Value> {
    let mut node = Map::new();
    node.extend(resources(before, after, now).map(|resources| ("resources".to_owned(), resources)));
    let (labels, mut selectors) = (
        differences(&before.pod.labels, &after.pod.labels),
        differences(&before.selectors, &after.selectors),
    );
    if !node.is_empty() && after.pod.labels.contains_key(TIER_LABEL) {
        // Domino itself may have set the selector of the previous tier.
        let pool = after.selectors.get(NODE_POOL).map_or(Value::Null, |pool| pool.clone().into());
        selectors.insert(NODE_POOL.to_owned(), pool);
    }
    for (key, values) in [("labels", labels), ("nodeSelector", selectors)] {
        if !values.is_empty() {
            node.insert(key.to_owned(), Value::Object(values));
        }
    }
    (!node.is_empty()).then_some(Value::Object(node))
}

/// Returns the keys whose values differ; null removes a key.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Map<String, Value> {
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    removed.chain(changed.map(|(key, value)| (key.clone(), value.clone().into()))).collect()
}

/// Returns the resources of a node, if they change. The operator accepts a limit below the request and then does
/// nothing, so the limit of an amount is set with it: that of cpu only if the shape has one.
fn resources(before: &NodeRecipe, after: &NodeRecipe, now: &PodTemplate) -> Option<Value> {
    let (wanted, shape) = (after.shape(), &now.shape);
    let other = before.shape() != wanted
        || wanted.cpu.is_some_and(|cpu| shape.cpu != Some(cpu))
        || wanted.memory.is_some_and(|memory| shape.memory != Some(memory))
        || wanted.gpu.unwrap_or(0) != shape.gpu.unwrap_or(0);
    if wanted == Shape::default() || !other {
        return None;
    }
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
    for side in [&mut requests, &mut limits] {
        side.extend(now.accelerators.iter().map(|name| (name.clone(), Value::Null)));
        side.extend(gpu.clone());
    }
    Some(json!({"requests": requests, "limits": limits}))
}

/// Returns the new image, which all nodes share; none if it does not change.
fn changed_image(head: &NodeRecipe, worker: &NodeRecipe, now: &str) -> Result<Option<Value>, String> {
    match head.image.as_ref().or(worker.image.as_ref()) {
        Some(image) if image::in_full(image) != now => image::to_object(image).map(Some),
        _ => Ok(None),
    }
}

//! Writes to Domino's objects: always one merge patch, because parts of the object may be missing.

use muster_core::change::{ClusterUpdate, NodeChange};
use muster_core::recipe::NodeRecipe;
use serde_json::{Map, Value, json};

use super::image;
use super::node_patch::NodePatch;
use crate::kubernetes::flavor::{DesiredCluster, GroupResize, ObjectWrite, WriteOperation};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::ResourceKind;
use crate::kubernetes::projection::{GroupProjection, ObjectProjection};

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

/// Returns the patch of a changed recipe. Settings of nodes that the update names are compared with the object.
pub(super) fn remake(
    kind: &'static ResourceKind,
    head: &str,
    update: &ClusterUpdate,
    before: DesiredCluster<'_>,
    after: DesiredCluster<'_>,
    objects: &[&ObjectProjection],
) -> Result<Vec<ObjectWrite>, String> {
    let cluster = after.cluster;
    let group = only_group(cluster, "domino")?;
    let (masters, workers) = check(after)?;
    let workers_before = before.recipe.workers(before.cluster.group(&group.name));
    let present = objects.first().ok_or_else(|| "there is no such cluster any more".to_owned())?;
    let workers_now = self::group(objects, &group.name)?;
    let named = update.groups.iter().flatten().find(|named| named.name == group.name);
    let named = named.map(|named| &named.node);
    let mut spec = Map::new();
    let is_named = |named: Option<&NodeChange>| named.is_some_and(|named| named.image.is_some());
    // The rows do not follow an image that others change for the head.
    if is_named(update.head.as_ref())
        || is_named(named)
        || before.recipe.head().image != masters.image
        || workers_before.image != workers.image
    {
        let image = changed_image(&masters, &workers, &present.head.image)?;
        spec.extend(image.map(|image| ("image".to_owned(), image)));
    }
    let head_update = NodePatch {
        before: before.recipe.head(),
        after: masters,
        named: update.head.as_ref(),
        stored: &present.head_settings,
        accelerators: &present.head.accelerators,
    };
    spec.extend(head_update.patch().map(|node| (head.to_owned(), node)));
    if !workers_now.sized_by_floor {
        let worker_update = NodePatch {
            before: workers_before,
            after: workers,
            named,
            stored: &present.worker_settings,
            accelerators: &workers_now.template.accelerators,
        };
        spec.extend(worker_update.patch().map(|node| ("worker".to_owned(), node)));
    }
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

/// Returns the new image, which all nodes share; none if it does not change.
fn changed_image(head: &NodeRecipe, worker: &NodeRecipe, now: &str) -> Result<Option<Value>, String> {
    match head.image.as_ref().or(worker.image.as_ref()) {
        Some(image) if image::in_full(image) != now => image::to_object(image).map(Some),
        _ => Ok(None),
    }
}

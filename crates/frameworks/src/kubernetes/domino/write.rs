//! What is written to an object of Domino's operator: always one merge patch, because parts of it may not be there yet.

use muster_core::recipe::NodeRecipe;
use muster_core::shape::{GPU_RESOURCE, Shape};
use serde_json::{Map, Value, json};

use super::image;
use crate::kubernetes::flavor::{Deed, Plan, Resize, Step};
use crate::kubernetes::metadata::only_group;
use crate::kubernetes::object::Kind;
use crate::kubernetes::words::{GroupWords, NodeWords, Words};

pub(super) fn resize(
    kind: &'static Kind,
    cluster: &str,
    words: &[&Words],
    changes: &[Resize<'_>],
) -> Result<Vec<Step>, String> {
    let mut spec = Map::new();
    for change in changes {
        let group = group(words, change.group)?;
        if let Some(desired) = change.desired {
            spec.insert("worker".to_owned(), json!({"replicas": desired}));
        }
        let autoscaling = autoscaling(group, change)?;
        if !autoscaling.is_empty() {
            spec.insert("autoscaling".to_owned(), Value::Object(autoscaling));
        }
    }
    let body = if spec.is_empty() { json!({}) } else { json!({"spec": spec}) };
    Ok(vec![Step { kind, name: cluster.to_owned(), deed: Deed::Overlay(body) }])
}

fn group<'w>(words: &[&'w Words], name: &str) -> Result<&'w GroupWords, String> {
    let mut groups = words.iter().flat_map(|words| &words.groups);
    groups.find(|group| group.name == name).ok_or_else(|| format!("there is no group '{name}' any more"))
}

/// Nothing where there is no autoscaler: then only the row has bounds.
fn autoscaling(group: &GroupWords, change: &Resize<'_>) -> Result<Map<String, Value>, String> {
    let mut numbers = Map::new();
    if group.bounds.is_none() {
        return Ok(numbers);
    }
    match change.desired {
        // One is the least that the operator takes.
        Some(0) => numbers.extend(group.floor.map(|_| ("minReplicas".to_owned(), json!(1)))),
        // Otherwise the autoscaler would take away what was just asked for.
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
                "{min} as the least size is not possible: that of a Domino cluster moves with its size: leave it at 0"
            ));
        }
    }
    Ok(numbers)
}

pub(super) fn remake(
    kind: &'static Kind,
    head: &str,
    plan: Plan<'_>,
    words: &[&Words],
) -> Result<Vec<Step>, String> {
    let cluster = plan.cluster;
    let group = only_group(cluster, "domino")?;
    let (masters, workers) = check(plan)?;
    let present = words.first().ok_or_else(|| "there is no such cluster any more".to_owned())?;
    let workers_now = self::group(words, &group.name)?;
    let mut spec = Map::new();
    spec.extend(resources(&masters, &present.head).map(|node| (head.to_owned(), node)));
    if let Some(mut node) = resources(&workers, &workers_now.made_from) {
        if !workers.selectors.is_empty() {
            node["nodeSelector"] = json!(workers.selectors);
        }
        spec.insert("worker".to_owned(), node);
    }
    spec.extend(
        other_image(&masters, &workers, &present.head.image)?.map(|image| ("image".to_owned(), image)),
    );
    let body = if spec.is_empty() { json!({}) } else { json!({"spec": spec}) };
    Ok(vec![Step { kind, name: cluster.object_name.clone(), deed: Deed::Overlay(body) }])
}

/// What head and workers shall be made from; the sentence says what an object has no place for.
pub(super) fn check(Plan { cluster, recipe }: Plan<'_>) -> Result<(NodeRecipe, NodeRecipe), String> {
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
        return Err(format!("all of a Domino cluster has one image, and not '{head}' and '{worker}'"));
    }
    Ok((masters, workers))
}

/// What a node shall be given, if that is something else than now: its pods are made anew for every change. A limit that
/// is below the request would be taken, and nothing done; so there is none for the processor, and no other for the rest.
fn resources(node: &NodeRecipe, now: &NodeWords) -> Option<Value> {
    let (wanted, now) = (node.shape(), &now.shape);
    let other = wanted.cpu.is_some_and(|cpu| now.cpu != Some(cpu))
        || wanted.memory.is_some_and(|memory| now.memory != Some(memory))
        || wanted.gpu.unwrap_or(0) != now.gpu.unwrap_or(0);
    if wanted == Shape::default() || !other {
        return None;
    }
    let (mut requests, mut limits) = (Map::new(), Map::new());
    if let Some(cpu) = wanted.cpu {
        requests.insert("cpu".to_owned(), cpu.to_string().into());
        limits.insert("cpu".to_owned(), Value::Null);
    }
    if let Some(memory) = wanted.memory {
        for side in [&mut requests, &mut limits] {
            side.insert("memory".to_owned(), memory.to_string().into());
        }
    }
    let gpu = wanted.gpu.filter(|gpu| *gpu > 0).map_or(Value::Null, |gpu| gpu.to_string().into());
    for side in [&mut requests, &mut limits] {
        side.insert(GPU_RESOURCE.to_owned(), gpu.clone());
    }
    Some(json!({"resources": {"requests": requests, "limits": limits}}))
}

/// There is one image for all.
fn other_image(head: &NodeRecipe, worker: &NodeRecipe, now: &str) -> Result<Option<Value>, String> {
    match head.image.as_ref().or(worker.image.as_ref()) {
        Some(image) if image::in_full(image) != now => image::to_object(image).map(Some),
        _ => Ok(None),
    }
}

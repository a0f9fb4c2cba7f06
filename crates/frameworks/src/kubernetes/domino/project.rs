//! Projections of Domino's objects.

use muster_core::cluster::DEFAULT_GROUP;
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::GPU_RESOURCE;
use muster_core::tier::{NODE_POOL, TIER_LABEL};
use serde_json::Value;

use super::image;
use crate::kubernetes::projection::{
    GroupProjection, NodeSettings, ObjectProjection, PodTemplate, has_status, text, whole,
};

pub(super) fn project_object(head: &str, object: &Value) -> ObjectProjection {
    let (spec, name) = (&object["spec"], text(&object["metadata"]["name"]));
    let node =
        |key: &str| PodTemplate::from_container(image::of_object(&spec["image"]), &spec[key]["resources"]);
    let reason = text(&object["status"]["reason"]);
    ObjectProjection {
        object: name.clone(),
        cluster: name,
        // Without workers and an autoscaler, the object specifies no size.
        groups: (spec["worker"].is_object() || spec["autoscaling"].is_object())
            .then(|| project_group(spec, node("worker")))
            .into_iter()
            .collect(),
        head: node(head),
        head_settings: node_settings(&spec[head]),
        worker_settings: node_settings(&spec["worker"]),
        rejections: [head, "worker"]
            .into_iter()
            .filter_map(|key| rejection(key, &spec[key]["resources"]))
            .collect(),
        pending: (!reason.is_empty()).then_some(reason).into_iter().collect(),
        acknowledged: has_status(object),
        ..ObjectProjection::default()
    }
}

fn node_settings(node: &Value) -> NodeSettings {
    let entry = |map: &str, key: &str| node[map][key].as_str().map(str::to_owned);
    let amounts = |side: &str| {
        let amounts = node["resources"][side].as_object().into_iter().flatten();
        // Null is no amount: such a key counts as absent.
        amounts.filter(|(_, amount)| !amount.is_null()).map(|(name, amount)| (name.clone(), amount.clone()))
    };
    NodeSettings {
        tier: entry("labels", TIER_LABEL),
        pool: entry("nodeSelector", NODE_POOL),
        requests: amounts("requests").collect(),
        limits: amounts("limits").collect(),
    }
}

fn project_group(spec: &Value, template: PodTemplate) -> GroupProjection {
    let autoscaling = spec["autoscaling"].as_object();
    let number = |key: &str| whole(autoscaling?.get(key)?);
    let sized_by_floor = !spec["worker"].is_object();
    let size = if sized_by_floor { number("minReplicas") } else { whole(&spec["worker"]["replicas"]) };
    let (desired, floor) = (size.unwrap_or(1), number("minReplicas"));
    // The operator accepts no floor below 1. A resize to 0 writes a floor of 1, and only where the object has a floor.
    let pinned = if desired == 0 { floor.map(|_| 1) } else { Some(desired) };
    GroupProjection {
        name: DEFAULT_GROUP.to_owned(),
        index: 0,
        desired,
        // A resize moves minReplicas, the autoscaler's floor, with the size: it is no lower bound for users.
        bounds: number("maxReplicas").map(|max| (0, Some(max))),
        floor,
        floor_differs: autoscaling.is_some() && floor != pinned,
        sized_by_floor,
        hosts: 1,
        template,
        victims: Vec::new(),
    }
}

/// Returns the reason why the operator ignores an object that its webhooks have accepted.
fn rejection(key: &str, resources: &Value) -> Option<String> {
    let amount = |side: &str, name: &str| -> Option<u64> {
        let value = resources[side].get(name)?.clone();
        match name {
            "cpu" => serde_json::from_value::<Cpu>(value).ok().map(Cpu::millis),
            "memory" => serde_json::from_value::<Memory>(value).ok().map(Memory::bytes),
            _ => whole(&value).map(u64::from),
        }
    };
    let crossed =
        |name: &&str| amount("limits", name).zip(amount("requests", name)).is_some_and(|(l, r)| l < r);
    let name = ["cpu", "memory", GPU_RESOURCE].into_iter().find(crossed)?;
    Some(format!(
        "{key} has a lower limit of {name} than it requests, and Domino's operator does nothing until that is changed"
    ))
}

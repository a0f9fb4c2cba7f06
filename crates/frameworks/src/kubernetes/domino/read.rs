//! What an object of Domino's operator says.

use muster_core::cluster::DEFAULT_GROUP;
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::GPU_RESOURCE;
use serde_json::Value;

use super::image;
use crate::kubernetes::words::{GroupWords, NodeWords, Words, has_status, text, whole};

pub(super) fn words(head: &str, object: &Value) -> Words {
    let (spec, name) = (&object["spec"], text(&object["metadata"]["name"]));
    let node = |key: &str| NodeWords::of_container(image::of_object(&spec["image"]), &spec[key]["resources"]);
    let reason = text(&object["status"]["reason"]);
    Words {
        object: name.clone(),
        cluster: name,
        // Without workers and an autoscaler, no number of workers is specified.
        groups: (spec["worker"].is_object() || spec["autoscaling"].is_object())
            .then(|| group(spec, node("worker")))
            .into_iter()
            .collect(),
        head: node(head),
        refused: [head, "worker"]
            .into_iter()
            .filter_map(|key| refused(key, &spec[key]["resources"]))
            .collect(),
        pending: (!reason.is_empty()).then_some(reason).into_iter().collect(),
        noticed: has_status(object),
        ..Words::default()
    }
}

fn group(spec: &Value, made_from: NodeWords) -> GroupWords {
    let autoscaling = spec["autoscaling"].as_object();
    let number = |key: &str| whole(autoscaling?.get(key)?);
    let only_floor = !spec["worker"].is_object();
    let size = if only_floor { number("minReplicas") } else { whole(&spec["worker"]["replicas"]) };
    let (desired, floor) = (size.unwrap_or(1), number("minReplicas"));
    // One is the least that the operator accepts; where there is none, a size of 0 makes none.
    let pinned = if desired == 0 { floor.map(|_| 1) } else { Some(desired) };
    GroupWords {
        name: DEFAULT_GROUP.to_owned(),
        place: 0,
        desired,
        // The lower number is where the autoscaler stops, and moves with the size: it keeps nobody from asking for less.
        bounds: number("maxReplicas").map(|max| (0, Some(max))),
        floor,
        floor_differs: autoscaling.is_some() && floor != pinned,
        only_floor,
        hosts: 1,
        made_from,
        victims: Vec::new(),
    }
}

/// What its operator does nothing about, though its webhooks take it.
fn refused(key: &str, resources: &Value) -> Option<String> {
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

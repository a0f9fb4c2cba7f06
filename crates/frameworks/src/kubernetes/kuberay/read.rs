//! What a `RayCluster` says.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::kubernetes::words::{
    Autoscaler, GroupWords, NodeWords, Words, has_status, mark, replica_failures, text, whole,
};

/// How that was said before there were options for it.
const FAULT_TOLERANT: &str = "ray.io/ft-enabled";

pub(super) fn words(object: &Value) -> Words {
    let (spec, status) = (&object["spec"], &object["status"]);
    let groups = spec["workerGroupSpecs"].as_array().map(Vec::as_slice).unwrap_or_default();
    Words {
        cluster: text(&object["metadata"]["name"]),
        object: text(&object["metadata"]["name"]),
        groups: groups.iter().enumerate().map(|(place, group)| words_of_group(place, group)).collect(),
        autoscaler: spec["enableInTreeAutoscaling"]
            .as_bool()
            .unwrap_or_default()
            .then_some(Autoscaler { group: None, bounds: None }),
        head: NodeWords::of_pod_spec(&spec["headGroupSpec"]["template"]["spec"]),
        version: spec["rayVersion"].as_str().filter(|version| !version.is_empty()).map(str::to_owned),
        head_remembers: spec["gcsFaultToleranceOptions"].is_object()
            || mark(object, "annotations", FAULT_TOLERANT)
                .is_some_and(|word| word.eq_ignore_ascii_case("true")),
        suspended: spec["suspend"].as_bool().unwrap_or_default(),
        refused: refused(groups),
        pending: replica_failures(status),
        noticed: has_status(object),
        known_head: status["head"]["podName"].as_str().map(str::to_owned),
        // Zero is left out.
        known_workers: has_status(object).then(|| whole(&status["availableWorkerReplicas"]).unwrap_or(0)),
        state: Some(text(&status["state"])),
        ports: ports(&status["endpoints"]),
        part: None,
        config: None,
    }
}

/// A `RayCluster` as APIs show it: its metadata and spec, and of its status the state and the ports. Everything else of
/// the status is in the rows of its cluster, and changes more often.
pub(super) fn shown(object: &Value) -> Value {
    const METADATA: [&str; 7] =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels", "annotations"];
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": fields(&object["metadata"], &METADATA),
        "spec": object["spec"],
        "status": fields(&object["status"], &["state", "endpoints"]),
    })
}

fn fields(object: &Value, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(name)?.clone()))).collect()
}

/// Ports by purpose.
fn ports(endpoints: &Value) -> BTreeMap<String, String> {
    let port = |(purpose, port): (&String, &Value)| Some((purpose.clone(), port.as_str()?.to_owned()));
    endpoints.as_object().into_iter().flatten().filter_map(port).collect()
}

fn words_of_group(place: usize, group: &Value) -> GroupWords {
    let hosts = whole(&group["numOfHosts"]).unwrap_or(1).max(1);
    let number = |key: &str| whole(&group[key]);
    let (min, max) = (number("minReplicas").unwrap_or(0), number("maxReplicas"));
    // What nobody bounds is bounded by the largest number that there is.
    let max = max.filter(|max| *max < i32::MAX.unsigned_abs());
    // The operator keeps within the bounds, whatever the number says.
    let desired = number("replicas").unwrap_or(0).max(min).min(max.unwrap_or(u32::MAX));
    let pods = |replicas: u32| replicas.saturating_mul(hosts);
    let named = group["scaleStrategy"]["workersToDelete"].as_array().map(Vec::as_slice).unwrap_or_default();
    let suspended = group["suspend"].as_bool().unwrap_or_default();
    GroupWords {
        name: text(&group["groupName"]),
        place,
        desired: if suspended { 0 } else { pods(desired) },
        bounds: Some((pods(min), max.map(pods))),
        floor: None,
        floor_differs: false,
        only_floor: false,
        hosts,
        made_from: NodeWords::of_pod_spec(&group["template"]["spec"]),
        victims: named.iter().map(text).collect(),
    }
}

/// What its operator will not act on, though the API server took it.
fn refused(groups: &[Value]) -> Vec<String> {
    let crossed = |group: &&Value| {
        let number = |key: &str| group[key].as_i64();
        number("minReplicas").zip(number("maxReplicas")).is_some_and(|(min, max)| min > max)
    };
    let sentence = |group: &Value| {
        let name = text(&group["groupName"]);
        format!(
            "group '{name}' has more minReplicas than maxReplicas, and KubeRay does nothing until that is changed"
        )
    };
    groups.iter().filter(crossed).map(sentence).collect()
}

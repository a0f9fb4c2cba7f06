//! Projections of `RayCluster` objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::kubernetes::projection::{
    GroupProjection, ObjectProjection, ObservedAutoscaler, PodTemplate, has_status, metadata_entry,
    replica_failures, text, whole,
};

/// The annotation for fault tolerance, from before `gcsFaultToleranceOptions` existed.
const FAULT_TOLERANT: &str = "ray.io/ft-enabled";

pub(super) fn project_object(object: &Value) -> ObjectProjection {
    let (spec, status) = (&object["spec"], &object["status"]);
    let groups = spec["workerGroupSpecs"].as_array().map(Vec::as_slice).unwrap_or_default();
    ObjectProjection {
        cluster: text(&object["metadata"]["name"]),
        object: text(&object["metadata"]["name"]),
        groups: groups.iter().enumerate().map(|(index, group)| project_group(index, group)).collect(),
        autoscaler: spec["enableInTreeAutoscaling"]
            .as_bool()
            .unwrap_or_default()
            .then_some(ObservedAutoscaler { group: None, bounds: None }),
        head: PodTemplate::from_pod_spec(&spec["headGroupSpec"]["template"]["spec"]),
        version: spec["rayVersion"].as_str().filter(|version| !version.is_empty()).map(str::to_owned),
        durable_head: spec["gcsFaultToleranceOptions"].is_object()
            || metadata_entry(object, "annotations", FAULT_TOLERANT)
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
        suspended: spec["suspend"].as_bool().unwrap_or_default(),
        rejections: rejections(groups),
        pending: replica_failures(status),
        acknowledged: has_status(object),
        reported_head: status["head"]["podName"].as_str().map(str::to_owned),
        // The operator omits zero.
        reported_workers: has_status(object).then(|| whole(&status["availableWorkerReplicas"]).unwrap_or(0)),
        state: Some(text(&status["state"])),
        ports: ports(&status["endpoints"]),
        part: None,
        config: None,
        ..ObjectProjection::default()
    }
}

/// Returns the view of a `RayCluster` in APIs: metadata, spec, state and ports. The rest of the status changes often,
/// and is in the rows of the cluster.
pub(super) fn root_view(object: &Value) -> Value {
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

/// Returns the ports by purpose.
fn ports(endpoints: &Value) -> BTreeMap<String, String> {
    let port = |(purpose, port): (&String, &Value)| Some((purpose.clone(), port.as_str()?.to_owned()));
    endpoints.as_object().into_iter().flatten().filter_map(port).collect()
}

fn project_group(index: usize, group: &Value) -> GroupProjection {
    let hosts = whole(&group["numOfHosts"]).unwrap_or(1).max(1);
    let number = |key: &str| whole(&group[key]);
    let (min, max) = (number("minReplicas").unwrap_or(0), number("maxReplicas"));
    // The API server fills in the largest number where no bound was given.
    let max = max.filter(|max| *max < i32::MAX.unsigned_abs());
    // The operator clamps the size to the bounds.
    let desired = number("replicas").unwrap_or(0).max(min).min(max.unwrap_or(u32::MAX));
    let pods = |replicas: u32| replicas.saturating_mul(hosts);
    let named = group["scaleStrategy"]["workersToDelete"].as_array().map(Vec::as_slice).unwrap_or_default();
    let suspended = group["suspend"].as_bool().unwrap_or_default();
    GroupProjection {
        name: text(&group["groupName"]),
        index,
        desired: if suspended { 0 } else { pods(desired) },
        bounds: Some((pods(min), max.map(pods))),
        floor: None,
        floor_differs: false,
        sized_by_floor: false,
        hosts,
        template: PodTemplate::from_pod_spec(&group["template"]["spec"]),
        victims: named.iter().map(text).collect(),
    }
}

/// Reasons why the operator ignores an object that the API server has accepted.
fn rejections(groups: &[Value]) -> Vec<String> {
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

//! Projections of the Dask operator's objects.

use muster_core::cluster::DEFAULT_GROUP;
use serde_json::Value;

use super::{AUTOSCALED, AUTOSCALER, AUTOSCALER_PART, CLUSTER, CLUSTER_NAME, WORKER_GROUP, group_name};
use crate::kubernetes::object::{DEPLOYMENT, ResourceKind};
use crate::kubernetes::projection::{
    GroupProjection, ObjectProjection, ObservedAutoscaler, PodTemplate, has_status, metadata_entry,
    replica_failures, text, whole,
};

/// The prefix of annotations and finalizers that Kopf, the operator's framework, adds to objects it has processed.
const KOPF: &str = "kopf.zalando.org/";

pub(super) fn project_object(kind: &ResourceKind, object: &Value) -> Option<ObjectProjection> {
    let (name, spec) = (text(&object["metadata"]["name"]), &object["spec"]);
    let base = ObjectProjection {
        object: name.clone(),
        acknowledged: is_acknowledged(object),
        ..ObjectProjection::default()
    };
    // The spec has the name of the cluster even before the operator has labelled the object.
    let cluster = text(&spec["cluster"]);
    let projection = match kind {
        kind if *kind == CLUSTER => ObjectProjection {
            // Until the operator has created the group's own object, the root describes the group.
            groups: vec![project_group(DEFAULT_GROUP.to_owned(), &spec["worker"])],
            head: PodTemplate::from_pod_spec(&spec["scheduler"]["spec"]),
            rejections: rejections(&name, object),
            part: metadata_entry(object, "annotations", AUTOSCALED).map(|_| AUTOSCALED),
            cluster: name,
            ..base
        },
        kind if *kind == WORKER_GROUP => ObjectProjection {
            groups: vec![project_group(group_name(&cluster, &name), &spec["worker"])],
            cluster,
            ..base
        },
        kind if *kind == AUTOSCALER => {
            // The autoscaler scales only the default group.
            let bounds = whole(&spec["minimum"]).map(|min| (min, whole(&spec["maximum"])));
            let autoscaler = ObservedAutoscaler { group: Some(DEFAULT_GROUP.to_owned()), bounds };
            ObjectProjection { cluster, autoscaler: Some(autoscaler), part: Some(AUTOSCALER_PART), ..base }
        }
        kind if *kind == DEPLOYMENT => ObjectProjection {
            cluster: metadata_entry(object, "labels", CLUSTER_NAME)?,
            pending: replica_failures(&object["status"]),
            ..base
        },
        _ => return None,
    };
    Some(projection)
}

fn project_group(name: String, worker: &Value) -> GroupProjection {
    GroupProjection {
        name,
        index: 0,
        desired: whole(&worker["replicas"]).unwrap_or(1),
        bounds: None,
        floor: None,
        floor_differs: false,
        sized_by_floor: false,
        hosts: 1,
        template: PodTemplate::from_pod_spec(&worker["spec"]),
        victims: Vec::new(),
    }
}

fn rejections(name: &str, object: &Value) -> Vec<String> {
    let sentence = || {
        format!(
            "the Dask operator rejects DaskCluster '{name}': see its log for the reason; names have at most 53 characters of \
             a-z, 0-9 and '-'"
        )
    };
    (object["status"]["phase"] == "Error").then(sentence).into_iter().collect()
}

fn is_acknowledged(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let annotations = metadata["annotations"].as_object().into_iter().flat_map(|all| all.keys());
    has_status(object) || finalizers.chain(annotations.map(String::as_str)).any(|key| key.starts_with(KOPF))
}

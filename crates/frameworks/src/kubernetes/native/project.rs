//! Projections of the Deployments and Services of a Spark cluster.

use muster_core::cluster::DEFAULT_GROUP;
use serde_json::Value;

use super::{
    ADDRESS, CLUSTER, CONFIG, MASTER, METRICS, PAGE, TYPE, WEB_UI, WORKER, WORKERS, metrics_service,
};
use crate::kubernetes::projection::{
    GroupProjection, ObjectProjection, PodTemplate, has_status, metadata_entry, replica_failures, text, whole,
};

pub(super) fn project_object(object: &Value) -> Option<ObjectProjection> {
    let spec = &object["spec"];
    let template = PodTemplate::from_pod_spec(&spec["template"]["spec"]);
    // The API server's default is one.
    let replicas = whole(&spec["replicas"]).unwrap_or(1);
    let base = ObjectProjection {
        cluster: metadata_entry(object, "labels", CLUSTER)?,
        object: text(&object["metadata"]["name"]),
        pending: replica_failures(&object["status"]),
        acknowledged: has_status(object),
        ..ObjectProjection::default()
    };
    match metadata_entry(object, "labels", TYPE)?.as_str() {
        MASTER => {
            let config = metadata_entry(object, "annotations", CONFIG);
            Some(ObjectProjection { head: template, suspended: replicas == 0, config, ..base })
        }
        WORKER => Some(ObjectProjection {
            groups: vec![project_group(replicas, template)],
            part: Some(WORKERS),
            ..base
        }),
        _ => None,
    }
}

/// Projects a Service, of which only the existence is used.
pub(super) fn project_service(object: &Value) -> Option<ObjectProjection> {
    let (cluster, name) = (metadata_entry(object, "labels", CLUSTER)?, text(&object["metadata"]["name"]));
    let part = match metadata_entry(object, "labels", TYPE)?.as_str() {
        MASTER if name == metrics_service(&cluster) => METRICS,
        MASTER => ADDRESS,
        WEB_UI => PAGE,
        _ => return None,
    };
    let object = name;
    Some(ObjectProjection { cluster, object, part: Some(part), ..ObjectProjection::default() })
}

fn project_group(desired: u32, template: PodTemplate) -> GroupProjection {
    let name = DEFAULT_GROUP.to_owned();
    GroupProjection {
        name,
        index: 0,
        desired,
        bounds: None,
        floor: None,
        floor_differs: false,
        sized_by_floor: false,
        hosts: 1,
        template,
        victims: Vec::new(),
    }
}

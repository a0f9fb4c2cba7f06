//! What the Deployments of a Spark cluster say.

use muster_core::cluster::DEFAULT_GROUP;
use serde_json::Value;

use super::{
    ADDRESS, CLUSTER, CONFIG, MASTER, METRICS, PAGE, TYPE, WEB_UI, WORKER, WORKERS, metrics_service,
};
use crate::kubernetes::words::{
    GroupWords, NodeWords, Words, has_status, mark, replica_failures, text, whole,
};

pub(super) fn words(object: &Value) -> Option<Words> {
    let spec = &object["spec"];
    let made_from = NodeWords::of_pod_spec(&spec["template"]["spec"]);
    // One is what nobody says.
    let replicas = whole(&spec["replicas"]).unwrap_or(1);
    let words = Words {
        cluster: mark(object, "labels", CLUSTER)?,
        object: text(&object["metadata"]["name"]),
        pending: replica_failures(&object["status"]),
        noticed: has_status(object),
        ..Words::default()
    };
    match mark(object, "labels", TYPE)?.as_str() {
        MASTER => {
            let config = mark(object, "annotations", CONFIG);
            Some(Words { head: made_from, suspended: replicas == 0, config, ..words })
        }
        WORKER => Some(Words { groups: vec![group(replicas, made_from)], part: Some(WORKERS), ..words }),
        _ => None,
    }
}

/// It says nothing but that it is there.
pub(super) fn words_of_service(object: &Value) -> Option<Words> {
    let (cluster, name) = (mark(object, "labels", CLUSTER)?, text(&object["metadata"]["name"]));
    let part = match mark(object, "labels", TYPE)?.as_str() {
        MASTER if name == metrics_service(&cluster) => METRICS,
        MASTER => ADDRESS,
        WEB_UI => PAGE,
        _ => return None,
    };
    let object = name;
    Some(Words { cluster, object, part: Some(part), ..Words::default() })
}

fn group(desired: u32, made_from: NodeWords) -> GroupWords {
    let name = DEFAULT_GROUP.to_owned();
    GroupWords {
        name,
        place: 0,
        desired,
        bounds: None,
        floor: None,
        floor_differs: false,
        only_floor: false,
        hosts: 1,
        made_from,
        victims: Vec::new(),
    }
}

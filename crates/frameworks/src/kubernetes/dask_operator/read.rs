//! What the objects of the Dask operator say.

use muster_core::cluster::DEFAULT_GROUP;
use serde_json::Value;

use super::{AUTOSCALED, AUTOSCALER, CLUSTER, CLUSTER_NAME, ITS_AUTOSCALER, WORKER_GROUP, group_name};
use crate::kubernetes::object::{DEPLOYMENT, Kind};
use crate::kubernetes::words::{
    Autoscaler, GroupWords, NodeWords, Words, has_status, mark, replica_failures, text, whole,
};

/// What its framework for operators writes on everything that it has seen.
const KOPF: &str = "kopf.zalando.org/";

pub(super) fn words(kind: &Kind, object: &Value) -> Option<Words> {
    let (name, spec) = (text(&object["metadata"]["name"]), &object["spec"]);
    let words = Words { object: name.clone(), noticed: noticed(object), ..Words::default() };
    // The others name the cluster that they belong to, also before their operator has seen them.
    let cluster = text(&spec["cluster"]);
    let words = match kind {
        kind if *kind == CLUSTER => Words {
            // As long as its operator has not made the group, this is what it will make.
            groups: vec![group(DEFAULT_GROUP.to_owned(), &spec["worker"])],
            head: NodeWords::of_pod_spec(&spec["scheduler"]["spec"]),
            refused: refused(&name, object),
            part: mark(object, "annotations", AUTOSCALED).map(|_| AUTOSCALED),
            cluster: name,
            ..words
        },
        kind if *kind == WORKER_GROUP => {
            Words { groups: vec![group(group_name(&cluster, &name), &spec["worker"])], cluster, ..words }
        }
        kind if *kind == AUTOSCALER => {
            // It asks only for the default group.
            let bounds = whole(&spec["minimum"]).map(|min| (min, whole(&spec["maximum"])));
            let autoscaler = Autoscaler { group: Some(DEFAULT_GROUP.to_owned()), bounds };
            Words { cluster, autoscaler: Some(autoscaler), part: Some(ITS_AUTOSCALER), ..words }
        }
        kind if *kind == DEPLOYMENT => Words {
            cluster: mark(object, "labels", CLUSTER_NAME)?,
            pending: replica_failures(&object["status"]),
            ..words
        },
        _ => return None,
    };
    Some(words)
}

fn group(name: String, worker: &Value) -> GroupWords {
    GroupWords {
        name,
        place: 0,
        desired: whole(&worker["replicas"]).unwrap_or(1),
        bounds: None,
        floor: None,
        floor_differs: false,
        only_floor: false,
        hosts: 1,
        made_from: NodeWords::of_pod_spec(&worker["spec"]),
        victims: Vec::new(),
    }
}

fn refused(name: &str, object: &Value) -> Vec<String> {
    let sentence = || {
        format!(
            "the Dask operator does not take DaskCluster '{name}': its log says why; names may have at most 53 of a-z, \
             0-9 and '-'"
        )
    };
    (object["status"]["phase"] == "Error").then(sentence).into_iter().collect()
}

fn noticed(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let annotations = metadata["annotations"].as_object().into_iter().flat_map(|all| all.keys());
    has_status(object) || finalizers.chain(annotations.map(String::as_str)).any(|mark| mark.starts_with(KOPF))
}

//! What stands above the spec of every object, and which groups of workers there may be.

use std::collections::BTreeMap;

use muster_core::cluster::{Cluster, DEFAULT_GROUP, WorkerGroup};
use serde_json::{Value, json};

/// The metadata of an object of a cluster: what people wrote on the cluster, and what the flavor adds.
pub(super) fn metadata(
    cluster: &Cluster,
    name: &str,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Value {
    let mut metadata = json!({"name": name, "namespace": cluster.namespace});
    for (place, given, own) in
        [("labels", &cluster.labels, labels), ("annotations", &cluster.annotations, annotations)]
    {
        let all = with(given, own);
        if !all.is_empty() {
            metadata[place] = json!(all);
        }
    }
    metadata
}

fn with(given: &BTreeMap<String, String>, own: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    given.clone().into_iter().chain(own).collect()
}

/// The group of a cluster that can have only one, whose name is given.
pub(super) fn only_group<'c>(cluster: &'c Cluster, flavor: &str) -> Result<&'c WorkerGroup, String> {
    match cluster.groups.as_slice() {
        [group] if group.name == DEFAULT_GROUP => Ok(group),
        [group] => Err(format!(
            "the worker group of a cluster of flavor {flavor} is called '{DEFAULT_GROUP}', not '{}'",
            group.name
        )),
        groups => Err(format!(
            "a cluster of flavor {flavor} has one worker group, '{DEFAULT_GROUP}', and {} were given",
            groups.len()
        )),
    }
}

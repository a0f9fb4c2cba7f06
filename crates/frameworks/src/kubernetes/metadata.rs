//! What stands above the spec of every object, and which groups of workers there may be.

use std::collections::BTreeMap;

use muster_core::cluster::{Cluster, DEFAULT_GROUP, WorkerGroup};
use serde_json::{Value, json};

use super::flavor::Plan;
use super::pod::label_safe;

/// For whom a cluster is, as it was said; the label of that name holds it as labels allow it.
pub const USER: &str = "muster.dev/user";

/// What a cluster is for.
const ENVIRONMENT: &str = "muster.dev/environment";

/// The version of its framework.
const VERSION: &str = "muster.dev/version";

/// The metadata of an object of a cluster: what people wrote on the cluster, what is known of it, and what the flavor
/// adds.
pub(super) fn metadata(
    plan: Plan<'_>,
    name: &str,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Value {
    let Plan { cluster, recipe } = plan;
    let user = label_safe(&cluster.user);
    let version = label_safe(recipe.version.as_deref().unwrap_or_default());
    let environment = recipe.environment.as_deref().unwrap_or_default();
    let known = [(USER, user.as_str()), (VERSION, &version), (ENVIRONMENT, environment)];
    let labels: Vec<_> = labels.iter().chain(known.iter().filter(|(_, value)| !value.is_empty())).collect();
    let odd = (USER, cluster.user.as_str());
    let annotations: Vec<_> = annotations.iter().chain((user != cluster.user).then_some(&odd)).collect();
    let mut metadata = json!({"name": name, "namespace": cluster.namespace});
    for (place, given, own) in
        [("labels", &cluster.labels, labels), ("annotations", &cluster.annotations, annotations)]
    {
        let all = with(given, &own);
        if !all.is_empty() {
            metadata[place] = json!(all);
        }
    }
    metadata
}

fn with(given: &BTreeMap<String, String>, own: &[&(&str, &str)]) -> BTreeMap<String, String> {
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

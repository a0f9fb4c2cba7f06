//! The metadata of created objects, and the check for flavors with a single group.

use std::collections::BTreeMap;

use muster_core::cluster::{Cluster, DEFAULT_GROUP, WorkerGroup};
use serde_json::{Value, json};

use super::flavor::DesiredCluster;
use super::pod::label_safe;

/// The annotation with the user of a cluster; the label of the same name has it in the characters that labels allow.
pub const USER: &str = "muster.dev/user";

/// The label with the purpose of a cluster, such as `DEV`.
const ENVIRONMENT: &str = "muster.dev/environment";

/// The label with the version of the framework.
const VERSION: &str = "muster.dev/version";

/// Returns the metadata of an object: the users' labels and annotations, facts about the cluster, and the flavor's
/// additions.
pub(super) fn metadata(
    plan: DesiredCluster<'_>,
    name: &str,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Value {
    let DesiredCluster { cluster, recipe } = plan;
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

/// Returns the only group of a cluster, for flavors whose operator supports one group of a fixed name.
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

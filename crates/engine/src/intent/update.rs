//! The properties of a cluster after an update.

use muster_core::change::{Change, ClusterUpdate};
use muster_core::cluster::Cluster;
use muster_core::recipe::GivenRecipe;
use muster_core::time::TimeSpan;
use serde_json::{Map, Value};

use crate::intent::{IntentError, find_group};

/// Returns the cluster with the properties that a change gives it. Sizes are decided elsewhere, in
/// [`Intent::after`](super::Intent::after).
pub fn properties_after(cluster: &Cluster, change: &Change) -> Result<Cluster, IntentError> {
    match change {
        Change::UpdateCluster(update) => apply(cluster, update),
        _ => Ok(cluster.clone()),
    }
}

fn apply(cluster: &Cluster, update: &ClusterUpdate) -> Result<Cluster, IntentError> {
    let ClusterUpdate {
        name,
        timeout_seconds,
        metadata,
        config,
        labels,
        annotations,
        env: _,
        head: _,
        limits,
        groups,
        profile_id,
        profile_only: _,
        resize: _,
        restart: _,
    } = update.clone();
    let mut after = cluster.clone();
    if profile_id.is_some_and(|profile| profile != after.profile_id) {
        // A new profile replaces what earlier updates of the cluster changed.
        GivenRecipe::drop(&mut after.spec);
    }
    after.profile_id = profile_id.unwrap_or(after.profile_id);
    after.name = name.unwrap_or(after.name);
    after.timeout = timeout_seconds.map_or(after.timeout, TimeSpan::from_secs);
    merge(&mut after.metadata, metadata);
    merge(&mut after.config, config);
    GivenRecipe::update(&mut after.spec, update);
    after.limits = limits.map_or(after.limits, |limits| limits.apply(after.limits));
    if let Some(labels) = labels {
        labels.apply(&mut after.labels);
    }
    if let Some(annotations) = annotations {
        annotations.apply(&mut after.annotations);
    }
    for change in groups.into_iter().flatten() {
        find_group(&after, Some(&change.name))?;
        after
            .groups
            .iter_mut()
            .filter(|group| group.name == change.name)
            .for_each(|group| change.apply_recipe(group));
    }
    Ok(after)
}

/// Merges by key; null removes the key.
pub(crate) fn merge(into: &mut Map<String, Value>, changes: Option<Map<String, Value>>) {
    for (key, value) in changes.into_iter().flatten() {
        if value.is_null() {
            into.remove(&key);
        } else {
            into.insert(key, value);
        }
    }
}

//! Changing properties of a cluster, its groups among them.

use std::collections::BTreeMap;

use muster_core::action::ActionKind;
use muster_core::candidates;
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::ProfileId;
use muster_core::limits::Limits;
use muster_core::time::Span;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::actions::resize::{self, Request, find_group, surplus};
use crate::actions::{deletion, rolling};
use crate::run::{ActionRun, Stop, read_inputs};

/// Writes changed properties; those of nodes reach them where the provider can change them in place.
pub(crate) async fn run(run: &mut ActionRun) -> Result<(), Stop> {
    let before = run.cluster.clone();
    // Committed already by an engine before us: merging twice would be harmless, a second generation would not.
    let begun = run.action.applied_at.is_some();
    let recipe = another_recipe(run)?;
    if !begun {
        apply_changes(&mut run.cluster, &run.action.inputs).map_err(Stop::Failed)?;
        if let Some(recipe) = recipe {
            rolling::begin(run, recipe).await?;
        }
        if let Some(asked) = run.action.inputs.get("resize") {
            change_sizes(run, &asked.clone())?;
        }
        run.cluster.generation += 1;
    }
    if recipe.is_none() {
        run.call_provider(run.provider.update(run.call(), &before, &[])).await??;
    }
    if !rolling::has_begun(run) {
        // Not again in the midst of that: who is about to be stopped and made anew would be taken for restored.
        let leaving = surplus(run);
        deletion::shrink(run, leaving, !begun).await?;
    }
    if recipe.is_some() { rolling::run(run).await } else { Ok(()) }
}

/// The recipe that members shall follow, if there is to be another one for them.
fn another_recipe(run: &ActionRun) -> Result<Option<ProfileId>, Stop> {
    let changes: Changes = run.inputs()?;
    Ok(changes.profile_id.filter(|_| !changes.profile_only))
}

/// Sizes come after the other properties, under the same rules as a resize.
fn change_sizes(run: &mut ActionRun, asked: &Value) -> Result<(), Stop> {
    let request = Request::read(ActionKind::ClusterResize, &run.data, asked).map_err(Stop::Failed)?;
    let (limit, nodes) = (run.context.config.max_nodes_per_cluster, &run.nodes);
    let members = |group: &WorkerGroup| candidates::workers(nodes, Some(&group.name)).count();
    resize::apply(&mut run.cluster, members, &request, limit).map_err(Stop::Failed)
}

/// Properties that an update may change, by key; an unknown key is an error.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Changes {
    name: Option<String>,
    timeout_seconds: Option<u32>,
    metadata: Option<Map<String, Value>>,
    config: Option<Map<String, Value>>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    spec: Option<Map<String, Value>>,
    limits: Option<Map<String, Value>>,
    groups: Option<Vec<WorkerGroup>>,
    profile_id: Option<ProfileId>,
    /// Members that are there stay as they are.
    profile_only: bool,
    /// Sizes, which depend on the members that are there.
    resize: Option<Value>,
}

/// Writes an update's properties into the cluster.
pub(crate) fn apply_changes(cluster: &mut Cluster, inputs: &Value) -> Result<(), String> {
    let Changes {
        name,
        timeout_seconds,
        metadata,
        config,
        labels,
        annotations,
        spec,
        limits,
        groups,
        profile_id,
        profile_only: _,
        resize: _,
    } = read_inputs(inputs)?;
    cluster.profile_id = profile_id.unwrap_or(cluster.profile_id);
    cluster.name = name.unwrap_or_else(|| std::mem::take(&mut cluster.name));
    cluster.timeout = timeout_seconds.map_or(cluster.timeout, Span::from_secs);
    merge(&mut cluster.metadata, metadata);
    merge(&mut cluster.config, config);
    merge(&mut cluster.spec, spec);
    cluster.limits = limited(cluster.limits, limits)?;
    cluster.labels = labels.unwrap_or_else(|| std::mem::take(&mut cluster.labels));
    cluster.annotations = annotations.unwrap_or_else(|| std::mem::take(&mut cluster.annotations));
    for changed in groups.into_iter().flatten() {
        let group = find_group(&mut cluster.groups, Some(&changed.name))
            .ok_or_else(|| format!("there is no group '{}'", changed.name))?;
        *group = changed;
    }
    Ok(())
}

/// The limits with some of them changed; null lifts one.
fn limited(limits: Limits, changes: Option<Map<String, Value>>) -> Result<Limits, String> {
    let mut all = match serde_json::to_value(limits) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    };
    merge(&mut all, changes);
    serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())
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

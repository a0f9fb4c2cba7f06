//! From an update or a scale to the inputs of an action.

use muster_core::cluster::Cluster;
use muster_core::resize::{Adjustment, AdjustmentType, Resize, Sizes};
use muster_engine::Config;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::FieldMask;
use serde_json::{Map, Value, json};

use super::convert::CLUSTER_SPEC;
use super::create;
use crate::error::ApiError;

/// What an update may change.
const UPDATABLE: &[&str] =
    &["labels", "annotations", "timeout", "cluster_spec", "envs", "idle_timeout", "max_lifetime"];

/// The inputs of `CLUSTER_UPDATE` for what the mask names.
pub(super) fn inputs(
    cluster: &Cluster,
    given: &wire::Cluster,
    mask: &FieldMask,
    config: &Config,
) -> Result<Value, ApiError> {
    if mask.paths.is_empty() {
        return Err(ApiError::invalid(format!(
            "nothing to update: name at least one of {} in update_mask",
            UPDATABLE.join(", ")
        )));
    }
    create::plain("label", given.labels.iter().flat_map(|(key, value)| [key, value]))?;
    create::plain("annotation", given.annotations.iter().flat_map(|(key, value)| [key, value]))?;
    let mut inputs = Map::new();
    let mut kept: wire::Cluster = cluster
        .spec
        .get(CLUSTER_SPEC)
        .and_then(|kept| serde_json::from_value(kept.clone()).ok())
        .unwrap_or_default();
    let mut spec_changed = false;
    for path in &mask.paths {
        match path.split('.').next().unwrap_or_default() {
            "labels" => drop(inputs.insert("labels".to_owned(), json!(given.labels))),
            "annotations" => drop(inputs.insert("annotations".to_owned(), json!(given.annotations))),
            "timeout" => drop(inputs.insert("timeout_seconds".to_owned(), json!(seconds(given)?))),
            "cluster_spec" if !path.contains("head_group_spec") => {
                let limit = config.max_nodes_per_cluster;
                drop(inputs.insert("groups".to_owned(), groups(cluster, given, mask, limit)?));
            }
            "envs" => {
                kept.envs.clone_from(&given.envs);
                spec_changed = true;
            }
            "idle_timeout" => {
                kept.idle_timeout = given.idle_timeout;
                spec_changed = true;
            }
            "max_lifetime" => {
                kept.max_lifetime = given.max_lifetime;
                spec_changed = true;
            }
            _ => {
                return Err(ApiError::invalid(format!(
                    "'{path}' cannot be updated; what can: {}",
                    UPDATABLE.join(", ")
                )));
            }
        }
    }
    if spec_changed {
        inputs.insert("spec".to_owned(), json!({ CLUSTER_SPEC: kept }));
    }
    Ok(Value::Object(inputs))
}

fn seconds(given: &wire::Cluster) -> Result<u32, ApiError> {
    let seconds = given.timeout.unwrap_or_default().seconds;
    u32::try_from(seconds).ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
        ApiError::invalid(format!("timeout is {seconds} seconds: a positive number is expected"))
    })
}

/// Groups that are named are changed in what is given for them; what is not given stays as it is.
fn groups(cluster: &Cluster, given: &wire::Cluster, mask: &FieldMask, limit: u32) -> Result<Value, ApiError> {
    let given = given.cluster_spec.as_ref().map(|spec| spec.worker_group_spec.as_slice()).unwrap_or_default();
    // A count of 0 cannot be told from none that was given, unless it is named.
    let names_replicas = mask.paths.iter().any(|path| path.ends_with(".replicas"));
    let mut changed = Vec::with_capacity(given.len());
    for group in given {
        known_group(cluster, &group.group_name)?;
        let Some(present) = cluster.group(&group.group_name) else { continue };
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let merged = wire::WorkerGroupSpec {
            replicas: if group.replicas == 0 && !names_replicas {
                number(present.desired)
            } else {
                group.replicas
            },
            min_replicas: group.min_replicas.or(Some(number(present.min))),
            max_replicas: group.max_replicas.or(present.max.map(number)),
            ..group.clone()
        };
        let mut merged = create::worker_group(&merged)?;
        if group.shape.is_none() {
            merged.shape = present.shape.clone();
        }
        merged.spec = present.spec.clone().into_iter().chain(merged.spec).collect();
        changed.push(merged);
    }
    let others =
        cluster.groups.iter().filter(|group| changed.iter().all(|changed| changed.name != group.name));
    let total = others.chain(&changed).fold(0_u32, |sum, group| sum.saturating_add(group.desired));
    if total > limit {
        let sentence = format!("{total} workers are more than the {limit} that a cluster may have");
        return Err(ApiError::invalid(sentence).word("OutOfBounds"));
    }
    Ok(json!(changed))
}

fn known_group(cluster: &Cluster, name: &str) -> Result<(), ApiError> {
    if cluster.group(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = cluster.groups.iter().map(|group| group.name.as_str()).collect();
    Err(ApiError::invalid(format!("there is no group '{name}'; there are: {}", names.join(", "))))
}

/// The inputs of `CLUSTER_RESIZE`; what the present bounds do not allow is refused here already.
pub(super) fn scale(
    cluster: &Cluster,
    group: &str,
    replicas: Option<i32>,
    config: &Config,
) -> Result<Value, ApiError> {
    let replicas =
        replicas.ok_or_else(|| ApiError::invalid("replicas is missing: how many workers shall there be?"))?;
    let wanted = u32::try_from(replicas)
        .map_err(|_| ApiError::invalid(format!("replicas is {replicas}: it cannot be negative")))?;
    let chosen = if group.is_empty() {
        match cluster.groups.as_slice() {
            [only] => only,
            groups => {
                let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
                let sentence = format!("say which group by group_name; there are: {}", names.join(", "));
                return Err(ApiError::invalid(sentence));
            }
        }
    } else {
        known_group(cluster, group)?;
        cluster.group(group).ok_or_else(|| ApiError::invalid("there is no such group"))?
    };
    let adjustment =
        Adjustment { kind: AdjustmentType::ExactCapacity, number: f64::from(wanted), min_step: None };
    let resize = Resize { adjustment: Some(adjustment), min_size: None, max_size: None, strict: true };
    let present = Sizes { size: chosen.desired, min: chosen.min, max: chosen.max };
    let others = cluster.desired().saturating_sub(chosen.desired);
    let limit = config.max_nodes_per_cluster.saturating_sub(others);
    resize
        .apply(present, limit)
        .map_err(|refused| ApiError::invalid(refused.to_string()).word("OutOfBounds"))?;
    let mut inputs = json!(resize);
    inputs["group"] = json!(chosen.name);
    Ok(inputs)
}

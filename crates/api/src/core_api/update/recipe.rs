//! Updates of what the head is made from, and of the variables of all nodes.

use std::collections::BTreeMap;

use muster_core::cluster::Cluster;
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;
use muster_core::shape::Shape;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::FieldMask;
use serde_json::{Map, Value, json};

use super::super::convert::{self, CLUSTER_SPEC};
use super::super::find::optional;
use super::super::{create, pods, recipe};
use super::either;
use super::mask::{self, Fields};
use crate::error::ApiError;

/// The path of the head in an update mask.
pub(super) const HEAD: &str = "cluster_spec.head_group_spec";

/// The path of the variables of all nodes.
pub(super) const ENVS: &str = "envs";

/// What of the head can be changed.
const UPDATABLE: &[&str] = &["shape", "image", "environment", "args"];

/// The changes of a cluster's spec by which its head, its variables or both are as the request gives them.
pub(super) fn spec_changes(
    cluster: &Cluster,
    profile: Option<&Profile>,
    given: &wire::Cluster,
    mask: &FieldMask,
) -> Result<Map<String, Value>, ApiError> {
    check_type(cluster)?;
    let shown: wire::Cluster = convert::kept(&cluster.spec, CLUSTER_SPEC);
    let head = shown.cluster_spec.clone().and_then(|spec| spec.head_group_spec).unwrap_or_default();
    let fields = Fields::of(mask, HEAD, UPDATABLE)?;
    let given_head = given.cluster_spec.clone().and_then(|spec| spec.head_group_spec).unwrap_or_default();
    let new_head = merge(&fields, &given_head, &head)?;
    let new_envs = &mask::merge_map(&mask::below(mask, ENVS), &given.envs, &shown.envs);
    recipe::check_variables(new_envs)?;
    let wrong = |why: String| ApiError::invalid(format!("its profile cannot be read: {why}"));
    let properties = profile.map(|profile| profile.properties.clone()).unwrap_or_default();
    let mut made = ClusterRecipe::of_cluster(cluster, &properties).map_err(wrong)?;
    // What applies again where an update removes what came over it: its profile, or, if that was made from the create
    // request, the properties that the request gave beside its head and its variables.
    let own = match profile {
        Some(profile) if !profile.implicit => properties,
        _ => shown.profile_properties.clone().map(Map::from).unwrap_or_default(),
    };
    let own = ClusterRecipe::from_stored(&own).unwrap_or_default();
    made.worker.env = replaced(made.worker.env, &[&shown.envs], &[&own.worker.env, new_envs]);
    let new = [&own.head.env, new_envs, &new_head.environment];
    made.head.env = replaced(made.head.env, &[&shown.envs, &head.environment], &new);
    if fields.has("image") {
        made.head.image = optional(&new_head.image).or(own.head.image);
    }
    if fields.has("args") {
        made.head.args = own.head.args.into_iter().chain(new_head.args.clone()).collect();
    }
    if fields.has("shape") {
        let Shape { cpu, memory, gpu, .. } = create::shape(new_head.shape.as_ref())
            .map_err(|why| ApiError::invalid(format!("shape of head_group_spec: {why}")))?;
        made.head.cpu = cpu.or(own.head.cpu);
        made.head.memory = memory.or(own.head.memory);
        made.head.gpu = gpu.or(own.head.gpu);
    }
    let mut changes = made.spec_changes(&cluster.spec);
    let head = (!fields.is_empty()).then_some(&new_head);
    changes.insert(CLUSTER_SPEC.to_owned(), shown_with(cluster.spec.get(CLUSTER_SPEC), new_envs, head));
    Ok(changes)
}

/// What is shown, with other variables and perhaps another head; fields of a newer version stay.
fn shown_with(
    stored: Option<&Value>,
    envs: &BTreeMap<String, String>,
    head: Option<&wire::HeadGroupSpec>,
) -> Value {
    let mut shown = stored.filter(|stored| stored.is_object()).cloned().unwrap_or_else(|| json!({}));
    shown["envs"] = json!(envs);
    if let Some(head) = head {
        let stored = &mut shown["clusterSpec"]["headGroupSpec"];
        let mut fields = stored.as_object().cloned().unwrap_or_default();
        fields.retain(|field, _| !UPDATABLE.contains(&field.as_str()));
        fields.extend(json!(head).as_object().cloned().unwrap_or_default());
        *stored = Value::Object(fields);
    }
    shown
}

/// Refuses what would be stored and reach no node: only nodes of frameworks are made from anything but their profile.
pub(super) fn check_type(cluster: &Cluster) -> Result<(), ApiError> {
    match cluster.framework {
        Some(_) => Ok(()),
        None => Err(ApiError::invalid(format!(
            "nodes of type {} are made from their profile: create another profile and change the cluster's to it",
            cluster.profile_type
        ))),
    }
}

/// Variables without the old ones, and with the new ones in their place; later ones go first.
fn replaced(
    mut present: BTreeMap<String, String>,
    old: &[&BTreeMap<String, String>],
    new: &[&BTreeMap<String, String>],
) -> BTreeMap<String, String> {
    present.retain(|name, _| !old.iter().any(|old| old.contains_key(name)));
    let new = new.iter().flat_map(|new| (*new).clone());
    present.into_iter().chain(new).collect()
}

/// The head after the update: what is named or given, and otherwise the present one.
fn merge(
    fields: &Fields<'_>,
    given: &wire::HeadGroupSpec,
    present: &wire::HeadGroupSpec,
) -> Result<wire::HeadGroupSpec, ApiError> {
    if fields.is_empty() {
        return Ok(present.clone());
    }
    if fields.is_whole() && *given == wire::HeadGroupSpec::default() {
        return Err(ApiError::invalid(format!(
            "update_mask has '{HEAD}', and the request gives nothing for it: give what changes of {}",
            UPDATABLE.join(", ")
        )));
    }
    recipe::check_node(&given.image, &given.environment)?;
    let named = [&given.compute_template, &given.image_template, &given.machine_group, &given.machine_type];
    recipe::check_named("head_group_spec", named)?;
    // Other values have to be the present ones: they cannot be changed.
    let rest = wire::HeadGroupSpec {
        service_type: either(given.service_type.clone(), present.service_type.clone()),
        ray_start_params: either(given.ray_start_params.clone(), present.ray_start_params.clone()),
        volumes: either(given.volumes.clone(), present.volumes.clone()),
        service_account: either(given.service_account.clone(), present.service_account.clone()),
        image_pull_secret: either(given.image_pull_secret.clone(), present.image_pull_secret.clone()),
        annotations: either(given.annotations.clone(), present.annotations.clone()),
        labels: either(given.labels.clone(), present.labels.clone()),
        ..present.clone()
    };
    if fields.is_whole() && pods::of_head(&rest)? != pods::of_head(present)? {
        return Err(ApiError::invalid(
            "of the pod of head_group_spec only shape, image, environment and args can be changed: for other labels, \
             annotations, volumes, accounts or start parameters create another cluster",
        ));
    }
    Ok(wire::HeadGroupSpec {
        image: fields.take("image", &given.image, &present.image),
        environment: fields.environment(&given.environment, &present.environment),
        args: fields.take("args", &given.args, &present.args),
        shape: fields.shape(given.shape.as_ref(), present.shape.as_ref()),
        ..present.clone()
    })
}

#[cfg(test)]
mod tests;

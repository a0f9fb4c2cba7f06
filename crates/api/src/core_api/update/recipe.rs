//! Updates of what the head is made from, and of the variables of all nodes.

use std::collections::BTreeMap;

use muster_core::cluster::Cluster;
use muster_core::recipe::ClusterRecipe;
use muster_core::shape::Shape;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::FieldMask;
use serde_json::{Map, Value, json};

use super::super::convert::{self, CLUSTER_SPEC};
use super::super::find::optional;
use super::super::{create, pods, recipe};
use super::{either, is_below};
use crate::error::ApiError;

/// The path of the head in an update mask.
pub(super) const HEAD: &str = "cluster_spec.head_group_spec";

/// The path of the variables of all nodes.
pub(super) const ENVS: &str = "envs";

/// What of the head can be changed.
const UPDATABLE: &[&str] = &["shape", "image", "environment", "args"];

/// The changes of a cluster's spec by which its head, its variables or both are as the request gives them. `properties`
/// are those of its profile.
pub(super) fn spec_changes(
    cluster: &Cluster,
    properties: &Map<String, Value>,
    given: &wire::Cluster,
    mask: &FieldMask,
) -> Result<Map<String, Value>, ApiError> {
    check_type(cluster)?;
    let shown: wire::Cluster = convert::kept(&cluster.spec, CLUSTER_SPEC);
    let head = shown.cluster_spec.clone().and_then(|spec| spec.head_group_spec).unwrap_or_default();
    let named = Named::of(mask)?;
    let new_head = match given.cluster_spec.as_ref().and_then(|spec| spec.head_group_spec.as_ref()) {
        Some(given) => named.merge(given, &head)?,
        None => named.merge(&wire::HeadGroupSpec::default(), &head)?,
    };
    let new_envs = if named.envs { &given.envs } else { &shown.envs };
    recipe::check_variables(new_envs)?;
    let wrong = |why: String| ApiError::invalid(format!("its profile cannot be read: {why}"));
    let mut made = ClusterRecipe::of_cluster(cluster, properties).map_err(wrong)?;
    // What the cluster was created with applies again where an update removes what came over it.
    let own = shown.profile_properties.clone().map(Map::from).unwrap_or_default();
    let own = ClusterRecipe::from_stored(&own).unwrap_or_default();
    made.worker.env = replaced(made.worker.env, &[&shown.envs], &[&own.worker.env, new_envs]);
    let new = [&own.head.env, new_envs, &new_head.environment];
    made.head.env = replaced(made.head.env, &[&shown.envs, &head.environment], &new);
    if named.field("image") {
        made.head.image = optional(&new_head.image).or(own.head.image);
    }
    if named.field("args") {
        made.head.args = own.head.args.into_iter().chain(new_head.args.clone()).collect();
    }
    if named.field("shape") {
        let Shape { cpu, memory, gpu, .. } = create::shape(new_head.shape.as_ref())
            .map_err(|why| ApiError::invalid(format!("shape of head_group_spec: {why}")))?;
        made.head.cpu = cpu.or(own.head.cpu);
        made.head.memory = memory.or(own.head.memory);
        made.head.gpu = gpu.or(own.head.gpu);
    }
    let spec = wire::ClusterSpec { head_group_spec: Some(new_head), worker_group_spec: Vec::new() };
    let cluster_spec = if named.head.is_empty() { shown.cluster_spec.clone() } else { Some(spec) };
    let shown = wire::Cluster { envs: new_envs.clone(), cluster_spec, ..shown };
    let mut changes = made.spec_changes();
    changes.insert(CLUSTER_SPEC.to_owned(), json!(shown));
    Ok(changes)
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

/// What a mask names of the recipe.
struct Named<'m> {
    /// Fields of the head with what is named below them; an empty one is the whole head.
    head: Vec<(&'m str, &'m str)>,
    envs: bool,
}

impl<'m> Named<'m> {
    fn of(mask: &'m FieldMask) -> Result<Self, ApiError> {
        let mut head = Vec::new();
        for rest in mask.paths.iter().filter_map(|path| path.strip_prefix(HEAD)) {
            let rest = rest.trim_start_matches('.');
            let (field, below) = rest.split_once('.').unwrap_or((rest, ""));
            if !field.is_empty() && !UPDATABLE.contains(&field) {
                return Err(unchangeable(field));
            }
            head.push((field, below));
        }
        Ok(Self { head, envs: mask.paths.iter().any(|path| is_below(path, ENVS)) })
    }

    /// Whether a field of the head is replaced.
    fn field(&self, field: &str) -> bool {
        self.head.iter().any(|(named, _)| named.is_empty() || *named == field)
    }

    /// Whether a field is named by itself: then it is cleared if nothing is given for it.
    fn alone(&self, field: &str) -> bool {
        self.head.iter().any(|(named, _)| *named == field)
    }

    /// The head as it shall be: what is named or given, and as it is at present in all else.
    fn merge(
        &self,
        given: &wire::HeadGroupSpec,
        present: &wire::HeadGroupSpec,
    ) -> Result<wire::HeadGroupSpec, ApiError> {
        if self.head.is_empty() {
            return Ok(present.clone());
        }
        recipe::check_node(&given.image, &given.environment)?;
        let named =
            [&given.compute_template, &given.image_template, &given.machine_group, &given.machine_type];
        recipe::check_named("head_group_spec", named)?;
        // What else is given has to be as it is: it could not be changed.
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
        if pods::of_head(&rest)? != pods::of_head(present)? {
            return Err(unchangeable("pod"));
        }
        let take = |field: &str| self.alone(field);
        Ok(wire::HeadGroupSpec {
            image: taken(take("image"), &given.image, &present.image),
            environment: taken(take("environment"), &given.environment, &present.environment),
            args: taken(take("args"), &given.args, &present.args),
            shape: self.shape(given.shape.as_ref(), present.shape.as_ref()),
            ..present.clone()
        })
    }

    /// Amounts that are named one by one leave the others as they are.
    fn shape(&self, given: Option<&wire::Shape>, present: Option<&wire::Shape>) -> Option<wire::Shape> {
        let below: Vec<&str> =
            self.head.iter().filter(|(field, _)| *field == "shape").map(|(_, below)| *below).collect();
        if below.is_empty() {
            return given.or(present).cloned();
        }
        if below.iter().any(|amount| amount.is_empty() || *amount == "name") {
            return given.cloned();
        }
        let (given, present) = (given.cloned().unwrap_or_default(), present.cloned().unwrap_or_default());
        let named = |amount: &str| below.contains(&amount);
        Some(wire::Shape {
            cpu: if named("cpu") { given.cpu } else { present.cpu },
            memory: if named("memory") { given.memory } else { present.memory },
            gpu: if named("gpu") { given.gpu } else { present.gpu },
            name: String::new(),
        })
    }
}

fn taken<T: Clone + Default + PartialEq>(alone: bool, given: &T, present: &T) -> T {
    if alone { given.clone() } else { either(given.clone(), present.clone()) }
}

fn unchangeable(what: &str) -> ApiError {
    ApiError::invalid(format!(
        "{what} of head_group_spec cannot be changed: what can is {}; for anything else create another cluster",
        UPDATABLE.join(", ")
    ))
}

#[cfg(test)]
mod tests;

//! From a request to the recipe of a framework's cluster.

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::limits::Limits;
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use muster_proto::{v1alpha2 as wire, wkt};
use serde_json::{Map, Value};

use super::create::{plain, shape};
use super::find::optional;
use super::limits;
use crate::error::ApiError;

/// The properties of the profile that is made for a cluster: as they were given, and of a framework's cluster also what
/// stands in fields of its own.
pub(super) fn properties(
    given: &wire::Cluster,
    framework: Option<Framework>,
) -> Result<Map<String, Value>, ApiError> {
    let properties = given.profile_properties.clone().map(Map::from).unwrap_or_default();
    if framework.is_none() {
        return Ok(properties);
    }
    let wrong = |why: String| ApiError::invalid(format!("profile_properties: {why}"));
    let mut recipe = ClusterRecipe::asked_for(&properties).map_err(wrong)?;
    recipe.version = optional(&given.version).or(recipe.version);
    recipe.head.env.extend(given.envs.clone());
    recipe.worker.env.extend(given.envs.clone());
    if let Some(head) = given.cluster_spec.as_ref().and_then(|spec| spec.head_group_spec.as_ref()) {
        let shape = shape(head.shape.as_ref())
            .map_err(|why| ApiError::invalid(format!("shape of head_group_spec: {why}")))?;
        recipe.head.image = optional(&head.image).or(recipe.head.image);
        recipe.head.cpu = shape.cpu.or(recipe.head.cpu);
        recipe.head.memory = shape.memory.or(recipe.head.memory);
        recipe.head.gpu = shape.gpu.or(recipe.head.gpu);
        recipe.head.env.extend(head.environment.clone());
        recipe.head.args.extend(head.args.clone());
    }
    match serde_json::to_value(recipe) {
        Ok(Value::Object(properties)) => Ok(properties),
        _ => Err(ApiError::internal("a recipe has no JSON")),
    }
}

/// How long a cluster may be there: as its fields say, then as its recipe does.
pub(super) fn limits(
    given: &wire::Cluster,
    properties: &Map<String, Value>,
    framework: Option<Framework>,
) -> Result<Limits, ApiError> {
    let recipe = framework.and_then(|_| ClusterRecipe::of(properties).ok()).unwrap_or_default();
    let limit = |field: &str, given: Option<wkt::Duration>, seconds: Option<u64>| {
        let seconds = seconds
            .map(|seconds| wkt::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 });
        given.or(seconds).map(|given| limits::life(field, given)).transpose()
    };
    Ok(Limits {
        idle_timeout: limit("idle_timeout", given.idle_timeout, recipe.idle_timeout)?,
        max_lifetime: limit("max_lifetime", given.max_lifetime, recipe.max_lifetime)?,
    })
}

/// How the workers of one group are made.
pub(super) fn workers(given: &wire::WorkerGroupSpec) -> NodeRecipe {
    NodeRecipe {
        image: optional(&given.image),
        env: given.environment.clone().into_iter().collect::<BTreeMap<_, _>>(),
        args: given.args.clone(),
        ..NodeRecipe::default()
    }
}

/// Refuses variables that no process could be started with.
pub(super) fn check_variables(given: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let impossible = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match given.iter().find(impossible) {
        Some((name, _)) => Err(ApiError::invalid(format!(
            "environment variable {name:?} is not possible: a name without '=', and neither it nor its value with NUL"
        ))),
        None => Ok(()),
    }
}

/// Refuses an image and variables that no node could be started with.
pub(super) fn check_node(image: &String, environment: &BTreeMap<String, String>) -> Result<(), ApiError> {
    plain("image", [image])?;
    check_variables(environment)
}

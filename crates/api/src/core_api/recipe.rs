//! Builds the recipe of a framework's cluster from a request.

use std::collections::BTreeMap;

use muster_core::cluster::{Framework, WorkerGroup};
use muster_core::limits::Limits;
use muster_core::recipe::{ClusterRecipe, GivenRecipe, NodeRecipe};
use muster_proto::{v1alpha2 as wire, wkt};
use serde_json::{Map, Value};

use super::create::{check_keys, plain};
use super::find::optional;
use super::{limits, pods, shapes};
use crate::error::ApiError;

/// Returns the properties of a new cluster's profile: as given, and for clusters of a framework completed by the fields
/// of the request.
pub(super) fn properties(
    given: &wire::Cluster,
    properties: Map<String, Value>,
    framework: Option<Framework>,
) -> Result<Map<String, Value>, ApiError> {
    if framework.is_none() {
        return Ok(properties);
    }
    let wrong = |why: String| ApiError::invalid(format!("profile_properties: {why}"));
    let below = ClusterRecipe::from_request(&properties).map_err(wrong)?;
    let head = given.cluster_spec.as_ref().and_then(|spec| spec.head_group_spec.as_ref());
    let own =
        GivenRecipe { env: given.envs.clone(), head: head.map(of_head).transpose()?.unwrap_or_default() };
    let mut recipe = own.over(&below, below.clone());
    recipe.version = optional(&given.version).or(recipe.version);
    recipe.working_dir = optional(&given.working_dir).or(recipe.working_dir);
    if let Some(head) = head {
        recipe.head.pod = pods::of_head(head)?.or(recipe.head.pod);
    }
    for (name, source) in pods::sources(&given.envs_from)? {
        // A variable of the head itself overrides one of all nodes.
        if !recipe.head.env.contains_key(&name) {
            recipe.head.pod.env_from.entry(name.clone()).or_insert_with(|| source.clone());
        }
        recipe.worker.env.remove(&name);
        recipe.worker.pod.env_from.insert(name, source);
    }
    add_access(given, &mut recipe, framework)?;
    recipe.environment = environment(given).or(recipe.environment);
    match serde_json::to_value(recipe) {
        Ok(Value::Object(properties)) => Ok(properties),
        _ => Err(ApiError::internal("a recipe has no JSON")),
    }
}

/// Adds the autoscaler, the ingress and the annotations of the head service.
fn add_access(
    given: &wire::Cluster,
    recipe: &mut ClusterRecipe,
    framework: Option<Framework>,
) -> Result<(), ApiError> {
    let Some(spec) = &given.cluster_spec else { return Ok(()) };
    let is_ray = framework == Some(Framework::Ray);
    let options = spec.autoscaler_options.as_ref();
    if spec.enable_in_tree_autoscaling {
        if framework == Some(Framework::Spark) {
            return Err(ApiError::invalid(
                "enable_in_tree_autoscaling is not supported for Spark: leave it out",
            ));
        }
        recipe.autoscaler = Some(options.map(pods::autoscaler).transpose()?.unwrap_or_default());
    }
    let ingress = spec.head_group_spec.as_ref().is_some_and(|head| head.enable_ingress);
    let of_ray = [
        ("autoscaler_options", options.is_some()),
        ("head_service_annotations", !spec.head_service_annotations.is_empty()),
        ("enable_ingress", ingress),
    ];
    if let Some((field, _)) = of_ray.iter().find(|(_, given)| *given && !is_ray) {
        return Err(ApiError::invalid(format!("{field} is for Ray alone: leave it out")));
    }
    if options.is_some() && !spec.enable_in_tree_autoscaling {
        return Err(ApiError::invalid("autoscaler_options need enable_in_tree_autoscaling"));
    }
    check_keys("annotation of the head service", spec.head_service_annotations.keys().map(String::as_str))?;
    recipe.ingress |= ingress;
    recipe.service_annotations.extend(spec.head_service_annotations.clone());
    Ok(())
}

/// Refuses settings for local processes that only Kubernetes supports: they would silently have no effect.
pub(super) fn check_local(recipe: &ClusterRecipe, groups: &[WorkerGroup]) -> Result<(), ApiError> {
    if recipe.autoscaler.is_some() {
        return Err(ApiError::invalid(
            "enable_in_tree_autoscaling needs Kubernetes: leave it out for local processes",
        ));
    }
    let groups = groups.iter().map(|group| recipe.workers(Some(group)));
    let mut nodes = std::iter::once(recipe.head()).chain(groups);
    match nodes.find_map(|node| node.pod.env_from.into_keys().next()) {
        Some(name) => Err(ApiError::invalid(format!(
            "environment variable '{name}' has the value of another object, which needs Kubernetes: give a value"
        ))),
        None => Ok(()),
    }
}

/// Returns the idle timeout and lifetime of a cluster, from its fields or else from its recipe.
pub(super) fn limits(
    given: &wire::Cluster,
    properties: &Map<String, Value>,
    framework: Option<Framework>,
) -> Result<Limits, ApiError> {
    let recipe = framework.and_then(|_| ClusterRecipe::from_stored(properties).ok()).unwrap_or_default();
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

/// Returns the environment of a cluster; none for `DEV`, the default of the wire format.
fn environment(given: &wire::Cluster) -> Option<String> {
    let environment = given.environment();
    (environment != wire::cluster::Environment::Dev).then(|| environment.as_str_name().to_owned())
}

/// Reads the recipe of a head, without its pod settings.
fn of_head(given: &wire::HeadGroupSpec) -> Result<NodeRecipe, ApiError> {
    let shape = shapes::read(given.shape.as_ref())
        .map_err(|why| ApiError::invalid(format!("shape of head_group_spec: {why}")))?;
    let (env, args) = (given.environment.clone(), given.args.clone());
    let (image, image_template) = image_or_template("head_group_spec", &given.image, &given.image_template)?;
    let template = optional(&given.compute_template);
    Ok(NodeRecipe { shape: template, image, image_template, env, args, ..NodeRecipe::of_shape(shape) })
}

/// Reads the recipe of a group's workers.
pub(super) fn workers(given: &wire::WorkerGroupSpec) -> Result<NodeRecipe, ApiError> {
    let whose = format!("group '{}'", given.group_name);
    let (image, image_template) = image_or_template(&whose, &given.image, &given.image_template)?;
    Ok(NodeRecipe {
        shape: optional(&given.compute_template),
        image,
        image_template,
        env: given.environment.clone(),
        args: given.args.clone(),
        pod: pods::of_workers(given)?,
        ..NodeRecipe::default()
    })
}

/// Refuses Ray start parameters for other frameworks.
pub(super) fn check_start_parameters(
    spec: Option<&wire::ClusterSpec>,
    framework: Option<Framework>,
) -> Result<(), ApiError> {
    let Some(spec) = spec.filter(|_| framework != Some(Framework::Ray)) else { return Ok(()) };
    let head = spec.head_group_spec.iter().map(|head| ("head_group_spec", &head.ray_start_params));
    let groups =
        spec.worker_group_spec.iter().map(|group| (group.group_name.as_str(), &group.ray_start_params));
    match head.chain(groups).find(|(_, parameters)| !parameters.is_empty()) {
        Some((whose, _)) => Err(ApiError::invalid(format!(
            "ray_start_params of {whose} are for Ray alone: give what others are started with in args"
        ))),
        None => Ok(()),
    }
}

/// Refuses image templates of nodes that run no framework: the templates would silently have no effect.
pub(super) fn check_image_templates(
    spec: Option<&wire::ClusterSpec>,
    framework: Option<Framework>,
) -> Result<(), ApiError> {
    let Some(spec) = spec.filter(|_| framework.is_none()) else { return Ok(()) };
    let head = spec.head_group_spec.iter().map(|head| ("head_group_spec", &head.image_template));
    let groups =
        spec.worker_group_spec.iter().map(|group| (group.group_name.as_str(), &group.image_template));
    match head.chain(groups).find(|(_, template)| !template.is_empty()) {
        Some((whose, template)) => Err(ApiError::invalid(format!(
            "image_template '{template}' of {whose} is for clusters of a framework: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Refuses environment variables that the operating system does not allow.
pub(super) fn check_variables(given: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let impossible = |(name, value): &(&String, &String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match given.iter().find(impossible) {
        Some((name, _)) => Err(ApiError::invalid(format!(
            "environment variable is {name:?}: must be a name without '=', and neither name nor value may have a NUL"
        ))),
        None => Ok(()),
    }
}

/// Returns the image of nodes, or the template that it is built from; refuses a request that gives both.
fn image_or_template(
    whose: &str,
    image: &str,
    template: &str,
) -> Result<(Option<String>, Option<String>), ApiError> {
    if !image.is_empty() && !template.is_empty() {
        return Err(ApiError::invalid(format!(
            "{whose} has image '{image}' and image_template '{template}': leave one out"
        )));
    }
    Ok((optional(image), optional(template)))
}

/// Refuses to change the compute template of existing nodes: their resources are changed by a shape.
pub(super) fn check_same_template(whose: &str, given: &str, present: &str) -> Result<(), ApiError> {
    if given.is_empty() || given == present {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "compute_template of {whose} cannot be changed to '{given}': give a shape (cpu, memory, gpu) instead"
    )))
}

/// Refuses an image or environment variables with which no node can start.
pub(super) fn check_node(image: &String, environment: &BTreeMap<String, String>) -> Result<(), ApiError> {
    plain("image", [image])?;
    check_variables(environment)
}

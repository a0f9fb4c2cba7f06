//! Completes create requests by stored and explicit configuration.

use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_core::config_set::{
    ClusterConfig, ConfigValues, ConfiguredShape, InvalidFlag, expose_ui_flag, metrics_flag,
};
use muster_core::recipe::SparkRecipe;
use muster_proto::v1alpha2 as wire;
use muster_service::ConfigRequest;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::find::{optional, optional_variant};
use super::{CoreApi, create, shapes};
use crate::error::ApiError;

/// The property of a profile that contains the settings of Spark clusters.
const SPARK: &str = "spark";

impl CoreApi {
    /// Completes a new cluster by the configuration that applies to it. A request without configuration is unchanged.
    pub(super) async fn configure(
        &self,
        namespace: &str,
        stored_config: &str,
        given: Option<wire::ClusterConfig>,
        cluster: &mut wire::Cluster,
    ) -> Result<(), ApiError> {
        if stored_config.is_empty() && given.is_none() {
            return Ok(());
        }
        let given = given.unwrap_or_default();
        let default_framework = optional_variant("default_framework", &given.default_framework)?;
        let request = ConfigRequest {
            namespace,
            provider: &cluster.provider,
            named: stored_config,
            explicit: explicit(&given, cluster)?,
            default_framework: default_framework.unwrap_or(Framework::Ray),
        };
        let config = self.service.configure(request).await?;
        apply(config, &given, cluster)
    }
}

impl From<InvalidFlag> for ApiError {
    fn from(error: InvalidFlag) -> Self {
        Self::invalid(error.to_string()).code("InvalidConfig")
    }
}

/// Returns the values that the request itself gives. Images and shapes are excluded: they stay where they are given,
/// and [`apply`] fills only the empty ones.
fn explicit(given: &wire::ClusterConfig, cluster: &wire::Cluster) -> Result<ConfigValues, ApiError> {
    let spark = SparkRecipe {
        config_name: None,
        master_config: optional(&given.spark_master_config),
        worker_config: optional(&given.spark_worker_config),
        metrics: metrics_flag(&given.metrics)?,
        expose_ui: expose_ui_flag(&given.expose_ui)?,
    };
    let of_group = match groups(cluster) {
        [group] => Some(group.replicas).filter(|replicas| *replicas != 0),
        _ => None,
    };
    Ok(ConfigValues {
        framework: framework(cluster)?,
        masters: given.masters.map(i64::from),
        workers: given.workers.or(of_group).map(i64::from),
        spark: spark.or(spark_properties(cluster)?),
        ..ConfigValues::default()
    })
}

/// Returns the framework that a request gives, directly or by a profile.
fn framework(cluster: &wire::Cluster) -> Result<Option<Framework>, ApiError> {
    if cluster.profile.is_empty() {
        return optional_variant("framework", &cluster.framework);
    }
    let (kind, framework) = create::profile_type(cluster)?;
    let refused = || {
        let message = format!(
            "profile is '{kind}', and stored_config and config are for clusters of a framework: leave them out"
        );
        ApiError::invalid(message)
    };
    framework.map(Some).ok_or_else(refused)
}

fn groups(cluster: &wire::Cluster) -> &[wire::WorkerGroupSpec] {
    cluster.cluster_spec.as_ref().map(|spec| spec.worker_group_spec.as_slice()).unwrap_or_default()
}

fn properties(cluster: &wire::Cluster) -> Map<String, Value> {
    cluster.profile_properties.clone().map(Map::from).unwrap_or_default()
}

fn spark_properties(cluster: &wire::Cluster) -> Result<SparkRecipe, ApiError> {
    let Some(spark) = properties(cluster).remove(SPARK) else { return Ok(SparkRecipe::default()) };
    let spark = SparkRecipe::deserialize(spark)
        .map_err(|error| ApiError::invalid(format!("profile_properties: {SPARK}: {error}")))?;
    Ok(SparkRecipe { config_name: None, ..spark })
}

/// Fills the fields that the request leaves empty.
fn apply(
    config: ClusterConfig,
    given: &wire::ClusterConfig,
    cluster: &mut wire::Cluster,
) -> Result<(), ApiError> {
    let ClusterConfig { framework, workers, image, shape, spark } = config;
    if cluster.profile.is_empty() {
        framework.as_str().clone_into(&mut cluster.framework);
    }
    let count = groups(cluster).len();
    if count > 1 && given.workers.is_some() {
        return Err(ApiError::invalid(format!(
            "workers is given with {count} worker groups: give each its replicas instead"
        )));
    }
    let mut properties = properties(cluster);
    let spec = cluster.cluster_spec.get_or_insert_default();
    if count == 0 {
        let group_name = DEFAULT_GROUP.to_owned();
        spec.worker_group_spec.push(wire::WorkerGroupSpec { group_name, ..wire::WorkerGroupSpec::default() });
    }
    if let [group] = spec.worker_group_spec.as_mut_slice() {
        group.replicas = i32::try_from(workers).unwrap_or(i32::MAX);
    }
    if let Some(image) = image.or_else(|| optional(&given.default_image)) {
        fill_images(&image, &properties, spec);
    }
    if let Some(shape) = shape {
        fill_shapes(&shape, &properties, spec);
    }
    if !spark.is_empty() {
        properties.insert(SPARK.to_owned(), serde_json::to_value(spark).unwrap_or_default());
        cluster.profile_properties = Some(properties.into());
    }
    Ok(())
}

/// Returns true if the profile sets one of these properties for the nodes of a role, or for all nodes.
fn has_property(properties: &Map<String, Value>, role: &str, keys: &[&str]) -> bool {
    let of_role = |key: &str| properties.get(role).is_some_and(|node| node.get(key).is_some());
    keys.iter().any(|key| properties.contains_key(*key) || of_role(key))
}

/// Sets the image of the nodes that have neither an image nor an image template.
fn fill_images(image: &str, properties: &Map<String, Value>, spec: &mut wire::ClusterSpec) {
    const KEYS: &[&str] = &["image", "image_template"];
    if !has_property(properties, "head", KEYS) {
        let head = spec.head_group_spec.get_or_insert_default();
        if head.image.is_empty() && head.image_template.is_empty() {
            image.clone_into(&mut head.image);
        }
    }
    if !has_property(properties, "worker", KEYS) {
        for group in &mut spec.worker_group_spec {
            if group.image.is_empty() && group.image_template.is_empty() {
                image.clone_into(&mut group.image);
            }
        }
    }
}

/// Sets the shape of the groups that have neither a shape nor a compute template.
fn fill_shapes(shape: &ConfiguredShape, properties: &Map<String, Value>, spec: &mut wire::ClusterSpec) {
    if has_property(properties, "worker", &["shape", "cpu", "memory", "gpu"]) {
        return;
    }
    let shape = match shape {
        ConfiguredShape::Named(name) => wire::Shape { name: name.clone(), ..wire::Shape::default() },
        ConfiguredShape::Amounts(shape) => shapes::shown(shape),
    };
    for group in &mut spec.worker_group_spec {
        if group.shape.is_none() && group.compute_template.is_empty() {
            group.shape = Some(shape.clone());
        }
    }
}

#[cfg(test)]
mod tests;

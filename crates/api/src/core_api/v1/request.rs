//! Requests of existing KubeRay clients as requests of `muster.v1alpha2`.

use std::collections::BTreeMap;

use muster_proto::v1::{
    AutoscalerOptions, Capabilities, Cluster, ClusterSpec, EnvValueFrom, EnvironmentVariables, HeadGroupSpec,
    SecurityContext, Volume, WorkerGroupSpec,
};
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt;
use serde_json::{Map, json};
use wire::env_value_from::Source;

/// A cluster that is to be created.
pub(super) fn cluster(given: Cluster) -> wire::Cluster {
    let (envs, envs_from) = variables(given.envs);
    // No method of this API returns a token.
    let mut properties = Map::from_iter([("token".to_owned(), json!(false))]);
    if given.version.is_empty() {
        // Otherwise a default would be chosen.
        properties.insert("version".to_owned(), json!(""));
    }
    wire::Cluster {
        name: given.name,
        namespace: given.namespace,
        user: given.user,
        version: given.version,
        environment: given.environment,
        cluster_spec: given.cluster_spec.map(spec),
        annotations: given.annotations,
        envs,
        envs_from,
        framework: "ray".to_owned(),
        profile_properties: Some(wkt::Struct::from(properties)),
        ..wire::Cluster::default()
    }
}

fn spec(given: ClusterSpec) -> wire::ClusterSpec {
    // Options alone do not enable it.
    let options = given.autoscaler_options.filter(|_| given.enable_in_tree_autoscaling);
    wire::ClusterSpec {
        head_group_spec: given.head_group_spec.map(head),
        worker_group_spec: given.worker_group_spec.into_iter().map(workers).collect(),
        enable_in_tree_autoscaling: given.enable_in_tree_autoscaling,
        autoscaler_options: options.map(autoscaler),
        head_service_annotations: given.head_service_annotations,
    }
}

fn head(given: HeadGroupSpec) -> wire::HeadGroupSpec {
    let (environment, environment_from) = variables(given.environment);
    wire::HeadGroupSpec {
        compute_template: given.compute_template,
        image: given.image,
        service_type: given.service_type,
        ray_start_params: given.ray_start_params,
        volumes: given.volumes.into_iter().map(volume).collect(),
        service_account: given.service_account,
        image_pull_secret: given.image_pull_secret,
        environment,
        annotations: given.annotations,
        labels: given.labels,
        image_pull_policy: given.image_pull_policy,
        security_context: given.security_context.map(security_context),
        environment_from,
        enable_ingress: given.enable_ingress,
        ..wire::HeadGroupSpec::default()
    }
}

fn workers(given: WorkerGroupSpec) -> wire::WorkerGroupSpec {
    let (environment, environment_from) = variables(given.environment);
    // The least of a group that gives none is its size.
    let min = if given.min_replicas == 0 { given.replicas } else { given.min_replicas };
    wire::WorkerGroupSpec {
        group_name: given.group_name,
        compute_template: given.compute_template,
        image: given.image,
        replicas: given.replicas,
        min_replicas: Some(min),
        max_replicas: Some(given.max_replicas),
        ray_start_params: given.ray_start_params,
        volumes: given.volumes.into_iter().map(volume).collect(),
        service_account: given.service_account,
        image_pull_secret: given.image_pull_secret,
        environment,
        annotations: given.annotations,
        labels: given.labels,
        image_pull_policy: given.image_pull_policy,
        security_context: given.security_context.map(security_context),
        environment_from,
        ..wire::WorkerGroupSpec::default()
    }
}

type Variables = (BTreeMap<String, String>, BTreeMap<String, wire::EnvValueFrom>);

fn variables(given: Option<EnvironmentVariables>) -> Variables {
    let EnvironmentVariables { values, values_from } = given.unwrap_or_default();
    (values, values_from.into_iter().map(|(name, value)| (name, source(value))).collect())
}

fn source(EnvValueFrom { source, name, key }: EnvValueFrom) -> wire::EnvValueFrom {
    wire::EnvValueFrom { source, name, key }
}

fn security_context(given: SecurityContext) -> wire::SecurityContext {
    let Capabilities { add, drop } = given.capabilities.unwrap_or_default();
    wire::SecurityContext { add_capabilities: add, drop_capabilities: drop, privileged: given.privileged }
}

fn autoscaler(given: AutoscalerOptions) -> wire::AutoscalerOptions {
    let (environment, from) = variables(given.envs);
    wire::AutoscalerOptions {
        idle_timeout_seconds: given.idle_timeout_seconds,
        upscaling_mode: given.upscaling_mode,
        image: given.image,
        // Existing servers take it in any case of letters, and pass over all else.
        image_pull_policy: if given.image_pull_policy.eq_ignore_ascii_case("always") { "Always" } else { "" }
            .to_owned(),
        cpu: given.cpu,
        memory: given.memory,
        environment,
        // Only whole objects can be given, and existing servers pass over all else.
        environment_from: from.into_values().filter(is_whole_object).collect(),
        volumes: given.volumes.into_iter().map(volume).collect(),
    }
}

fn is_whole_object(from: &wire::EnvValueFrom) -> bool {
    matches!(from.source(), Source::Configmap | Source::Secret)
}

fn volume(given: Volume) -> wire::Volume {
    wire::Volume {
        mount_path: given.mount_path,
        volume_type: given.volume_type,
        name: given.name,
        source: given.source,
        read_only: given.read_only,
        host_path_type: given.host_path_type,
        mount_propagation_mode: given.mount_propagation_mode,
        storage_class_name: given.storage_class_name,
        access_mode: given.access_mode,
        storage: given.storage,
        items: given.items,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_a_group_that_gives_none_is_its_size() {
        let min = |min_replicas| {
            workers(WorkerGroupSpec { replicas: 3, min_replicas, ..WorkerGroupSpec::default() }).min_replicas
        };
        assert_eq!((min(0), min(1)), (Some(3), Some(1)));
    }

    #[test]
    fn options_alone_do_not_enable_an_autoscaler() {
        let options =
            AutoscalerOptions { image_pull_policy: "always".to_owned(), ..AutoscalerOptions::default() };
        let given = |enabled| ClusterSpec {
            enable_in_tree_autoscaling: enabled,
            autoscaler_options: Some(options.clone()),
            ..ClusterSpec::default()
        };
        assert_eq!(spec(given(false)).autoscaler_options, None);
        let options = spec(given(true)).autoscaler_options.map(|options| options.image_pull_policy);
        assert_eq!(options.as_deref(), Some("Always"));
    }
}

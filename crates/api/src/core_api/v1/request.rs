//! Converts requests of KubeRay clients to requests of `muster.v1alpha2`.

use std::collections::BTreeMap;

use muster_proto::v1::{
    AutoscalerOptions, Capabilities, Cluster, ClusterSpec, EnvValueFrom, EnvironmentVariables, HeadGroupSpec,
    SecurityContext, Volume, WorkerGroupSpec,
};
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt;
use serde_json::{Map, json};
use wire::env_value_from::Source;

/// Converts a cluster to create.
pub(super) fn cluster(given: Cluster) -> wire::Cluster {
    let (envs, envs_from) = variables(given.envs);
    // Disable the token of the cluster, since no method of this API returns it.
    let mut properties = Map::from_iter([("token".to_owned(), json!(false))]);
    if given.version.is_empty() {
        // An absent version would be replaced by a default.
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
    // Options alone do not enable the autoscaler.
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
    // KubeRay accepts a size outside the bounds and runs the nearest one inside. A negative size is refused later.
    let replicas = match given.replicas {
        negative @ ..0 => negative,
        size => size.max(given.min_replicas).min(given.max_replicas),
    };
    // A group without a minimum gets its size as the minimum.
    let min = if given.min_replicas == 0 { replicas } else { given.min_replicas };
    wire::WorkerGroupSpec {
        group_name: given.group_name,
        compute_template: given.compute_template,
        image: given.image,
        replicas,
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

type WireVariables = (BTreeMap<String, String>, BTreeMap<String, wire::EnvValueFrom>);

fn variables(given: Option<EnvironmentVariables>) -> WireVariables {
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
        // The KubeRay API server accepts `Always` in any case, and ignores all other values.
        image_pull_policy: if given.image_pull_policy.eq_ignore_ascii_case("always") { "Always" } else { "" }
            .to_owned(),
        cpu: given.cpu,
        memory: given.memory,
        environment,
        // Only whole objects are supported; the KubeRay API server ignores all other sources.
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
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_least_of_a_group_that_gives_none_is_its_size() {
        let min = |min_replicas| {
            let group = WorkerGroupSpec { replicas: 3, max_replicas: 5, ..WorkerGroupSpec::default() };
            workers(WorkerGroupSpec { min_replicas, ..group }).min_replicas
        };
        assert_eq!((min(0), min(1)), (Some(3), Some(1)));
    }

    #[rstest]
    #[case::inside(2, 1, 3, 2)]
    #[case::too_many(5, 1, 3, 3)]
    #[case::too_few(1, 2, 3, 2)]
    #[case::too_many_without_a_least(5, 0, 3, 3)]
    #[case::negative(-1, 1, 3, -1)]
    fn a_size_outside_the_bounds_becomes_the_nearest_one(
        #[case] replicas: i32,
        #[case] min_replicas: i32,
        #[case] max_replicas: i32,
        #[case] expected: i32,
    ) {
        let given = WorkerGroupSpec { replicas, min_replicas, max_replicas, ..WorkerGroupSpec::default() };
        let group = workers(given);
        assert_eq!(group.replicas, expected);
        assert!(replicas < 0 || group.min_replicas.is_some_and(|min| min <= expected), "{group:?}");
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

//! Converts clusters without a `RayCluster` to the messages of KubeRay clients.

use std::collections::BTreeMap;

use muster_core::cluster::DEFAULT_GROUP;
use muster_core::event::{Event, ExternalRecord};
use muster_proto::v1::{
    AutoscalerOptions, Capabilities, Cluster, ClusterEvent, ClusterSpec, EnvValueFrom, EnvironmentVariables,
    HeadGroupSpec, SecurityContext, Volume, WorkerGroupSpec,
};
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::Timestamp;

use super::super::convert;

/// Converts a cluster of `muster.v1alpha2`.
pub(super) fn of_wire(given: wire::Cluster) -> Cluster {
    let common = SharedVariables { values: given.envs, from: given.envs_from };
    let spec = given.cluster_spec.unwrap_or_default();
    Cluster {
        name: given.name,
        namespace: given.namespace,
        user: given.user,
        version: given.version,
        environment: given.environment,
        cluster_spec: Some(ClusterSpec {
            head_group_spec: Some(head(spec.head_group_spec.unwrap_or_default(), &common)),
            worker_group_spec: spec
                .worker_group_spec
                .into_iter()
                .filter(|group| !is_default_group(group))
                .map(|group| workers(group, &common))
                .collect(),
            enable_in_tree_autoscaling: spec.enable_in_tree_autoscaling,
            autoscaler_options: spec.autoscaler_options.map(autoscaler),
            head_service_annotations: spec.head_service_annotations,
        }),
        annotations: given.annotations,
        // Variables of all nodes are shown with the head and with each group.
        envs: None,
        // Whole seconds, as in objects of Kubernetes.
        created_at: given.created_at.map(|at| Timestamp { nanos: 0, ..at }),
        deleted_at: given.deleted_at,
        cluster_state: given.cluster_state,
        events: Vec::new(),
        service_endpoint: given.service_endpoint,
    }
}

/// Returns true for the default group of a cluster that was created without groups.
fn is_default_group(group: &wire::WorkerGroupSpec) -> bool {
    let none = wire::WorkerGroupSpec {
        group_name: DEFAULT_GROUP.to_owned(),
        min_replicas: Some(0),
        ..wire::WorkerGroupSpec::default()
    };
    *group == none
}

/// Converts an event of a cluster. An event of Kubernetes has the name, the count and the times of its object.
pub(super) fn event(cluster: &str, event: Event) -> ClusterEvent {
    let record = ExternalRecord::of(&event).unwrap_or_else(|| ExternalRecord {
        name: event.id.to_string(),
        count: 1,
        first: event.at,
        last: event.at,
    });
    let given = convert::cluster_event(event);
    let ExternalRecord { name: id, count, first, last } = record;
    ClusterEvent {
        name: format!("{cluster}-{id}"),
        id,
        created_at: Some(convert::moment(first)),
        first_timestamp: Some(convert::moment(first)),
        last_timestamp: Some(convert::moment(last)),
        reason: given.reason,
        message: given.message,
        r#type: given.r#type,
        count: i32::try_from(count).unwrap_or(i32::MAX),
    }
}

/// The environment variables of all nodes.
struct SharedVariables {
    values: BTreeMap<String, String>,
    from: BTreeMap<String, wire::EnvValueFrom>,
}

impl SharedVariables {
    /// Merges them with the variables of some nodes, which take precedence.
    fn with(
        &self,
        values: BTreeMap<String, String>,
        from: BTreeMap<String, wire::EnvValueFrom>,
    ) -> EnvironmentVariables {
        let mut all = EnvironmentVariables {
            values: self.values.clone(),
            values_from: self.from.clone().into_iter().map(|(name, value)| (name, source(value))).collect(),
        };
        all.values.retain(|name, _| !from.contains_key(name));
        all.values_from.retain(|name, _| !values.contains_key(name));
        all.values.extend(values);
        all.values_from.extend(from.into_iter().map(|(name, value)| (name, source(value))));
        all
    }
}

fn source(wire::EnvValueFrom { source, name, key }: wire::EnvValueFrom) -> EnvValueFrom {
    EnvValueFrom { source, name, key }
}

fn head(given: wire::HeadGroupSpec, common: &SharedVariables) -> HeadGroupSpec {
    HeadGroupSpec {
        compute_template: given.compute_template,
        image: given.image,
        service_type: given.service_type,
        enable_ingress: given.enable_ingress,
        ray_start_params: start_parameters(given.ray_start_params, HEAD_PARAMETER),
        volumes: given.volumes.into_iter().map(volume).collect(),
        service_account: given.service_account,
        image_pull_secret: given.image_pull_secret,
        environment: Some(common.with(given.environment, given.environment_from)),
        annotations: given.annotations,
        labels: given.labels,
        image_pull_policy: given.image_pull_policy,
        security_context: given.security_context.map(security_context),
    }
}

/// The start parameter that is shown for a head without any.
pub(super) const HEAD_PARAMETER: (&str, &str) = ("dashboard-host", "0.0.0.0");

/// The start parameter that is shown for a group of workers without any.
pub(super) const WORKER_PARAMETER: (&str, &str) = ("node-ip-address", "$MY_POD_IP");

/// Returns the start parameters of a group, or a default that changes nothing: Python clients fail on a group without
/// start parameters, and JSON omits empty maps.
pub(super) fn start_parameters(
    given: BTreeMap<String, String>,
    (name, value): (&str, &str),
) -> BTreeMap<String, String> {
    if given.is_empty() { BTreeMap::from([(name.to_owned(), value.to_owned())]) } else { given }
}

fn workers(given: wire::WorkerGroupSpec, common: &SharedVariables) -> WorkerGroupSpec {
    let min = given.min_replicas.unwrap_or_default();
    WorkerGroupSpec {
        group_name: given.group_name,
        compute_template: given.compute_template,
        image: given.image,
        replicas: given.replicas,
        min_replicas: min,
        // This API cannot express an absent bound.
        max_replicas: given.max_replicas.unwrap_or_else(|| given.replicas.max(min)),
        ray_start_params: start_parameters(given.ray_start_params, WORKER_PARAMETER),
        volumes: given.volumes.into_iter().map(volume).collect(),
        service_account: given.service_account,
        image_pull_secret: given.image_pull_secret,
        environment: Some(common.with(given.environment, given.environment_from)),
        annotations: given.annotations,
        labels: given.labels,
        image_pull_policy: given.image_pull_policy,
        security_context: given.security_context.map(security_context),
    }
}

fn security_context(given: wire::SecurityContext) -> SecurityContext {
    let wire::SecurityContext { add_capabilities: add, drop_capabilities: drop, privileged } = given;
    SecurityContext { capabilities: Some(Capabilities { add, drop }), privileged }
}

fn autoscaler(given: wire::AutoscalerOptions) -> AutoscalerOptions {
    // A whole object is not a single variable, so the name of the object is the key.
    let from = given.environment_from.into_iter().map(|from| (from.name.clone(), source(from)));
    AutoscalerOptions {
        idle_timeout_seconds: given.idle_timeout_seconds,
        upscaling_mode: given.upscaling_mode,
        image: given.image,
        image_pull_policy: given.image_pull_policy,
        cpu: given.cpu,
        memory: given.memory,
        envs: Some(EnvironmentVariables { values: given.environment, values_from: from.collect() }),
        volumes: given.volumes.into_iter().map(volume).collect(),
    }
}

fn volume(given: wire::Volume) -> Volume {
    Volume {
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
    use muster_core::event::{Level, ObjectKind};
    use muster_core::ids::EventId;
    use muster_core::principal::Door;

    use super::super::request;
    use super::*;

    fn from(name: &str) -> EnvValueFrom {
        EnvValueFrom { source: 1, name: name.to_owned(), key: "k".to_owned() }
    }

    fn variables(values: &[&str], sources: &[&str]) -> EnvironmentVariables {
        EnvironmentVariables {
            values: values.iter().map(|name| ((*name).to_owned(), "v".to_owned())).collect(),
            values_from: sources.iter().map(|name| ((*name).to_owned(), from("s"))).collect(),
        }
    }

    #[test]
    fn an_event_of_kubernetes_has_the_name_the_count_and_the_times_of_its_object() {
        let second = |second: i64| muster_core::time::Timestamp::from_micros(second * 1_000_000);
        let record =
            ExternalRecord { name: "fred.17a".to_owned(), count: 7, first: second(10), last: second(90) };
        let mut given = Event {
            id: EventId::from_uuid(uuid::Uuid::from_u128(1)),
            at: second(50),
            level: Level::Info,
            object_kind: ObjectKind::Cluster,
            object_id: String::new(),
            object_name: String::new(),
            cluster_id: None,
            action_id: None,
            reason: "CreatedHeadPod".to_owned(),
            phase: String::new(),
            message: String::new(),
            user: String::new(),
            project: String::new(),
            door: Door::Core,
            data: serde_json::Map::new(),
        };
        let id = given.id.to_string();
        let shown = event("fred", given.clone());
        assert_eq!((shown.id.as_str(), shown.name, shown.count), (id.as_str(), format!("fred-{id}"), 1));
        given.data.insert(ExternalRecord::KEY.to_owned(), serde_json::to_value(record).unwrap());
        let shown = event("fred", given);
        assert_eq!((shown.id.as_str(), shown.name.as_str(), shown.count), ("fred.17a", "fred-fred.17a", 7));
        let seconds = |at: Option<Timestamp>| at.unwrap().seconds;
        assert_eq!((seconds(shown.first_timestamp), seconds(shown.last_timestamp)), (10, 90));
    }

    #[test]
    fn a_cluster_is_shown_as_it_was_given_with_variables_of_all_nodes_at_each() {
        let head = HeadGroupSpec {
            compute_template: "t".to_owned(),
            enable_ingress: true,
            ray_start_params: [("num-cpus".to_owned(), "0".to_owned())].into(),
            environment: Some(variables(&["A"], &["B"])),
            security_context: Some(SecurityContext {
                capabilities: Some(Capabilities { add: vec!["SYS_PTRACE".to_owned()], drop: Vec::new() }),
                privileged: Some(false),
            }),
            volumes: vec![Volume { name: "v".to_owned(), volume_type: 4, ..Volume::default() }],
            ..HeadGroupSpec::default()
        };
        let group = WorkerGroupSpec {
            group_name: "g".to_owned(),
            replicas: 2,
            min_replicas: 1,
            max_replicas: 3,
            image_pull_policy: "Always".to_owned(),
            ..WorkerGroupSpec::default()
        };
        let given = Cluster {
            name: "c".to_owned(),
            user: "u".to_owned(),
            environment: 2,
            envs: Some(variables(&["B", "C"], &["A"])),
            cluster_spec: Some(ClusterSpec {
                head_group_spec: Some(head.clone()),
                worker_group_spec: vec![group.clone()],
                ..ClusterSpec::default()
            }),
            ..Cluster::default()
        };
        let shown = of_wire(request::cluster(given.clone()));
        let expected = ClusterSpec {
            head_group_spec: Some(HeadGroupSpec {
                environment: Some(variables(&["A", "C"], &["B"])),
                ..head
            }),
            worker_group_spec: vec![WorkerGroupSpec {
                ray_start_params: [("node-ip-address".to_owned(), "$MY_POD_IP".to_owned())].into(),
                environment: Some(variables(&["B", "C"], &["A"])),
                ..group
            }],
            ..ClusterSpec::default()
        };
        assert_eq!(shown, Cluster { envs: None, cluster_spec: Some(expected), ..given });
    }
}

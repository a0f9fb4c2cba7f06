//! Converts domain objects to the messages of the core API.

use std::collections::BTreeMap;

use muster_core::action::{Action, Milestone};
use muster_core::address::host_and_port;
use muster_core::cluster::{Cluster, ClusterStatus, Framework, WorkerGroup};
use muster_core::event::{Event, Level};
use muster_core::node::Node;
use muster_core::recipe::NodeRecipe;
use muster_core::shape::Shape;
use muster_core::time::{TimeSpan, Timestamp};
use muster_proto::{v1alpha2 as wire, wkt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wire::cluster::Environment;

use super::shapes;

/// The key under which a group stores the fields that only this API has.
pub(super) const GROUP_SPEC: &str = "group";

/// The key under which a cluster stores the fields that only this API has.
pub(super) const CLUSTER_SPEC: &str = muster_core::recipe::SHOWN;

pub(super) fn moment(at: Timestamp) -> wkt::Timestamp {
    wkt::Timestamp::from_micros(at.micros())
}

pub(super) fn span(span: TimeSpan) -> wkt::Duration {
    wkt::Duration::from_micros(span.micros())
}

fn number<N: TryFrom<u32> + Default>(count: u32) -> N {
    N::try_from(count).unwrap_or_default()
}

/// Reads a message that this API stored as JSON; returns the default if it cannot be read.
pub(super) fn kept<T: DeserializeOwned + Default>(spec: &Map<String, Value>, key: &str) -> T {
    spec.get(key).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

pub(super) fn cluster(cluster: Cluster) -> wire::Cluster {
    let mut given: wire::Cluster = kept(&cluster.spec, CLUSTER_SPEC);
    if cluster.is_external() {
        let label = |name: &str| cluster.labels.get(name).map(String::as_str).unwrap_or_default();
        label("ray.io/version").clone_into(&mut given.version);
        let environment = Environment::from_str_name(label("ray.io/environment"));
        given.environment = environment.unwrap_or(Environment::Dev).into();
    }
    let spec = given.cluster_spec.unwrap_or_default();
    let desired_workers = number(cluster.desired());
    let there = cluster.deleted_at.is_none();
    let idle_ends_at = cluster.idle_ends_at().filter(|_| there).map(moment);
    let idle_since = idle_ends_at.and(cluster.unused_since()).map(moment);
    let lifetime_ends_at = cluster.lifetime_ends_at().filter(|_| there).map(moment);
    let (app, ephemeral) =
        (cluster.ephemeral.as_ref().map(|mark| mark.app.clone()), cluster.ephemeral.is_some());
    let versions = cluster.software_versions(&given.version);
    wire::Cluster {
        python_version: versions.python,
        framework_version: versions.framework,
        // Other rows add these.
        open_jobs: Vec::new(),
        job: String::new(),
        app: app.unwrap_or_default(),
        ephemeral,
        cluster_spec: Some(wire::ClusterSpec {
            worker_group_spec: cluster.groups.iter().map(group).collect(),
            ..spec
        }),
        created_at: Some(moment(cluster.init_at)),
        deleted_at: cluster.deleted_at.map(moment),
        updated_at: cluster.updated_at.map(moment),
        cluster_state: state(&cluster),
        service_endpoint: ports(&cluster),
        id: cluster.id.to_string(),
        profile: cluster.profile_type.to_string(),
        framework: cluster.framework.map(|framework| framework.as_str().to_owned()).unwrap_or_default(),
        provider: cluster.instance.provider().to_owned(),
        instance: cluster.instance.to_string(),
        flavor: cluster.flavor.unwrap_or_default(),
        state: cluster.status.as_str().to_owned(),
        status_reason: cluster.status_reason,
        endpoints: cluster.observed.endpoints,
        outdated_nodes: cluster.observed.outdated,
        owner: Some(wire::Owner {
            scheme: cluster.owner.scheme,
            id: cluster.owner.id,
            name: cluster.owner.name,
        }),
        generation: cluster.generation,
        desired_workers,
        ready_workers: cluster.observed.ready_workers.map(number),
        labels: cluster.labels,
        annotations: cluster.annotations,
        timeout: Some(span(cluster.timeout)),
        idle_timeout: cluster.limits.idle_timeout.map(span),
        max_lifetime: cluster.limits.max_lifetime.map(span),
        idle_since,
        idle_ends_at,
        lifetime_ends_at,
        project: cluster.project,
        name: cluster.name,
        namespace: cluster.namespace,
        user: cluster.user,
        ..given
    }
}

/// Returns the state that the operator reports, or else one of the few states that existing clients know.
fn state(cluster: &Cluster) -> String {
    let reported = cluster.observed.reported_state.as_ref().filter(|_| cluster.deleted_at.is_none());
    let state = match cluster.status {
        ClusterStatus::Active | ClusterStatus::Warning => "ready",
        ClusterStatus::Error | ClusterStatus::Critical => "failed",
        ClusterStatus::Suspended => "suspended",
        _ => "",
    };
    reported.cloned().unwrap_or_else(|| state.to_owned())
}

/// Returns ports by purpose: those that the operator reports, or else those of the endpoints.
fn ports(cluster: &Cluster) -> BTreeMap<String, String> {
    if cluster.observed.reported_state.is_some() {
        return cluster.observed.ports.clone();
    }
    let purpose = |endpoint: &str| match (cluster.framework, endpoint) {
        // These are the names that KubeRay uses.
        (Some(Framework::Ray), "client") => "head".to_owned(),
        (Some(Framework::Ray), "address") => "redis".to_owned(),
        _ => endpoint.to_owned(),
    };
    let port = |address: &str| host_and_port(address).map(|(_, port)| port.to_string());
    let endpoints = cluster.observed.endpoints.iter();
    endpoints.filter_map(|(endpoint, address)| Some((purpose(endpoint), port(address)?))).collect()
}

pub(super) fn group(group: &WorkerGroup) -> wire::WorkerGroupSpec {
    let given: wire::WorkerGroupSpec = kept(&group.spec, GROUP_SPEC);
    let NodeRecipe { image, image_template, env, args, .. } = NodeRecipe::stored_in(group);
    wire::WorkerGroupSpec {
        image: image.unwrap_or_default(),
        image_template: image_template.unwrap_or_default(),
        environment: env,
        args,
        group_name: group.name.clone(),
        replicas: number(group.desired),
        min_replicas: Some(number(group.min)),
        max_replicas: group.max.map(number),
        shape: (group.shape != Shape::default()).then(|| shapes::shown(&group.shape)),
        ..given
    }
}

pub(super) fn node(node: Node) -> wire::Node {
    wire::Node {
        outdated: node.is_outdated(),
        gpu_devices: node.gpu_devices(),
        id: node.id.to_string(),
        name: node.name,
        cluster_id: node.cluster_id.map(|id| id.to_string()).unwrap_or_default(),
        group_name: node.group.unwrap_or_default(),
        role: node.role.as_str().to_owned(),
        index: node.index,
        physical_id: node.physical_id.unwrap_or_default(),
        state: node.status.as_str().to_owned(),
        status_reason: node.status_reason,
        tainted: node.tainted,
        incarnation: node.incarnation,
        profile_id: node.profile_id.to_string(),
        metadata: object(node.metadata),
        data: object(node.data),
        init_at: Some(moment(node.init_at)),
        created_at: node.created_at.map(moment),
        updated_at: node.updated_at.map(moment),
    }
}

/// Converts a map; an empty map is absent on the wire.
fn object(map: Map<String, Value>) -> Option<wkt::Struct> {
    (!map.is_empty()).then(|| map.into())
}

fn json(value: Value) -> Option<wkt::Struct> {
    match value {
        Value::Object(map) => object(map),
        _ => None,
    }
}

pub(super) fn event(event: Event) -> wire::Event {
    wire::Event {
        id: event.id.to_string(),
        at: Some(moment(event.at)),
        level: event.level.as_str().to_owned(),
        object_kind: event.object_kind.as_str().to_owned(),
        object_id: event.object_id,
        object_name: event.object_name,
        cluster_id: event.cluster_id.map(|id| id.to_string()).unwrap_or_default(),
        action_id: event.action_id.map(|id| id.to_string()).unwrap_or_default(),
        reason: event.reason,
        phase: event.phase,
        message: event.message,
        user: event.user,
        project: event.project,
        door: event.door.as_str().to_owned(),
        data: object(event.data),
    }
}

/// Converts an event to the form that is shown within its cluster.
pub(super) fn cluster_event(event: Event) -> wire::ClusterEvent {
    let at = Some(moment(event.at));
    wire::ClusterEvent {
        id: event.id.to_string(),
        name: event.object_name,
        created_at: at,
        first_timestamp: at,
        last_timestamp: at,
        reason: event.reason,
        message: event.message,
        r#type: if matches!(event.level, Level::Info | Level::Debug) { "Normal" } else { "Warning" }
            .to_owned(),
        count: 1,
    }
}

pub(super) fn action(action: Action) -> wire::Action {
    let target = action.target.id().to_string();
    let reached = |milestone: &&Milestone| action.has_reached(**milestone);
    let milestones =
        Milestone::ALL.iter().filter(reached).map(|milestone| milestone.as_str().to_owned()).collect();
    wire::Action {
        // Other rows add these.
        target_name: String::new(),
        cluster_name: String::new(),
        id: action.id.to_string(),
        name: action.name(),
        action: action.kind.as_str().to_owned(),
        target,
        cluster_id: action.cluster_id.map(|id| id.to_string()).unwrap_or_default(),
        cause: action.cause.as_str().to_owned(),
        door: action.door.as_str().to_owned(),
        owner: action.owner.map(|id| id.to_string()).unwrap_or_default(),
        status: action.status.as_str().to_owned(),
        status_reason: action.status_reason,
        inputs: json(action.inputs),
        outputs: json(action.outputs),
        data: json(action.data),
        parent: action.parent.map(|id| id.to_string()).unwrap_or_default(),
        created_at: Some(moment(action.created_at)),
        started_at: action.started_at.map(moment),
        applied_at: action.applied_at.map(moment),
        ended_at: action.ended_at.map(moment),
        updated_at: Some(moment(action.updated_at)),
        timeout: Some(span(action.timeout)),
        user: action.principal.id,
        project: action.principal.project,
        milestones,
    }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    fn observed(framework: Framework, endpoints: &[(&str, &str)]) -> Cluster {
        let mut cluster = Cluster { framework: Some(framework), ..sample::cluster(0, 0, None) };
        cluster.observed.endpoints =
            endpoints.iter().map(|(name, address)| ((*name).to_owned(), (*address).to_owned())).collect();
        cluster
    }

    #[rstest]
    #[case::ray(
        Framework::Ray,
        &[("address", "127.0.0.1:6379"), ("client", "ray://127.0.0.1:10001"), ("dashboard", "http://127.0.0.1:8265")],
        &[("dashboard", "8265"), ("head", "10001"), ("redis", "6379")],
    )]
    #[case::dask(
        Framework::Dask,
        &[("address", "tcp://[::1]:8786"), ("dashboard", "http://localhost:8787/status"), ("other", "none")],
        &[("address", "8786"), ("dashboard", "8787")],
    )]
    fn endpoints_are_shown_as_ports_by_purpose(
        #[case] framework: Framework,
        #[case] endpoints: &[(&str, &str)],
        #[case] expected: &[(&str, &str)],
    ) {
        let shown = ports(&observed(framework, endpoints));
        let shown: Vec<(&str, &str)> =
            shown.iter().map(|(name, port)| (name.as_str(), port.as_str())).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_an_operator_reports_is_shown_as_it_is() {
        let mut cluster = observed(Framework::Ray, &[("address", "ray://head.svc:10001")]);
        cluster.status = ClusterStatus::Active;
        assert_eq!(state(&cluster), "ready");
        cluster.observed.reported_state = Some(String::new());
        assert_eq!((state(&cluster).as_str(), ports(&cluster)), ("", BTreeMap::new()));
        cluster.observed.reported_state = Some("suspended".to_owned());
        cluster.observed.ports = BTreeMap::from([("head".to_owned(), "31850".to_owned())]);
        assert_eq!(
            (state(&cluster).as_str(), ports(&cluster)),
            ("suspended", cluster.observed.ports.clone())
        );
    }
}

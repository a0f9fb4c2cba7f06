//! Converts rows to messages.

use muster_core::action::{Action, Milestone};
use muster_core::cluster::{Cluster, ClusterStatus, WorkerGroup};
use muster_core::event::{Event, Level};
use muster_core::node::Node;
use muster_core::recipe::NodeRecipe;
use muster_core::shape::Shape;
use muster_core::time::{TimeSpan, Timestamp};
use muster_proto::{v1alpha2 as wire, wkt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::shapes;

/// The key of the part of a group that only this API knows.
pub(super) const GROUP_SPEC: &str = "group";

/// The key of the part of a cluster that only this API knows.
pub(super) const CLUSTER_SPEC: &str = muster_core::recipe::SHOWN;

pub(super) fn moment(at: Timestamp) -> wkt::Timestamp {
    wkt::Timestamp::from_micros(at.micros())
}

fn span(span: TimeSpan) -> wkt::Duration {
    wkt::Duration::from_micros(span.micros())
}

fn number<N: TryFrom<u32> + Default>(count: u32) -> N {
    N::try_from(count).unwrap_or_default()
}

/// Reads a part that this API stored as JSON; the default if it cannot be read.
pub(super) fn kept<T: DeserializeOwned + Default>(spec: &Map<String, Value>, key: &str) -> T {
    spec.get(key).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

pub(super) fn cluster(cluster: Cluster) -> wire::Cluster {
    let given: wire::Cluster = kept(&cluster.spec, CLUSTER_SPEC);
    let head = given.cluster_spec.and_then(|spec| spec.head_group_spec);
    let desired_workers = number(cluster.desired());
    let there = cluster.deleted_at.is_none();
    let idle_ends_at = cluster.idle_ends_at().filter(|_| there).map(moment);
    let idle_since = idle_ends_at.and(cluster.unused_since()).map(moment);
    let lifetime_ends_at = cluster.lifetime_ends_at().filter(|_| there).map(moment);
    wire::Cluster {
        cluster_spec: Some(wire::ClusterSpec {
            head_group_spec: head,
            worker_group_spec: cluster.groups.iter().map(group).collect(),
        }),
        created_at: Some(moment(cluster.init_at)),
        deleted_at: cluster.deleted_at.map(moment),
        updated_at: cluster.updated_at.map(moment),
        cluster_state: state(cluster.status).to_owned(),
        service_endpoint: cluster.observed.endpoints.clone(),
        id: cluster.id.to_string(),
        profile: cluster.profile_type.to_string(),
        framework: cluster.framework.map(|framework| framework.as_str().to_owned()).unwrap_or_default(),
        provider: cluster.instance.provider().to_owned(),
        instance: cluster.instance.to_string(),
        flavor: cluster.flavor.unwrap_or_default(),
        state: cluster.status.as_str().to_owned(),
        status_reason: cluster.status_reason,
        endpoints: cluster.observed.endpoints,
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

/// The few states that clients of the older API know.
const fn state(status: ClusterStatus) -> &'static str {
    match status {
        ClusterStatus::Active | ClusterStatus::Warning => "ready",
        ClusterStatus::Error | ClusterStatus::Critical => "failed",
        ClusterStatus::Suspended => "suspended",
        _ => "",
    }
}

pub(super) fn group(group: &WorkerGroup) -> wire::WorkerGroupSpec {
    let given: wire::WorkerGroupSpec = kept(&group.spec, GROUP_SPEC);
    let NodeRecipe { image, env, args, .. } = NodeRecipe::stored_in(group);
    wire::WorkerGroupSpec {
        image: image.unwrap_or_default(),
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

/// An empty map is absent on the wire.
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

/// An event within its cluster.
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

//! Converts domain objects to the wire format of the clustering API.

use muster_core::action::{Action, ActionStatus, Cause};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, NodeId, PolicyId, ProfileId};
use muster_core::node::Node;
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_core::time::Timestamp;
use muster_service::{Edges, RelatedRows};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::V1;
use super::version::MicroVersion;

/// The version that added `tainted` to nodes.
const TAINTED: MicroVersion = MicroVersion(13);

/// The version that added `cluster_id` to actions.
const CLUSTER_OF_ACTION: MicroVersion = MicroVersion(14);

/// Formats a time in whole seconds.
pub(super) fn time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_second(at.micros().div_euclid(1_000_000)).unwrap_or_default();
    at.to_string()
}

/// Formats an optional time; null if it is absent.
pub(super) fn optional_time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| time(at).into())
}

pub(super) fn formatted(at: Timestamp, format: &str) -> String {
    let at = jiff::Timestamp::from_microsecond(at.micros()).unwrap_or_default();
    at.strftime(format).to_string()
}

/// Converts to seconds since 1970 with a fraction; null if the time is absent.
fn seconds(at: Option<Timestamp>) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 are exact for 280 years")]
    at.map_or(Value::Null, |at| json!(at.micros() as f64 / 1e6))
}

/// A cluster in the wire format; fields are in alphabetical order, like the keys of all other objects.
#[derive(Debug, Serialize)]
pub(super) struct ShownCluster<'c> {
    config: &'c Map<String, Value>,
    created_at: Option<String>,
    data: &'c Map<String, Value>,
    dependents: &'c Map<String, Value>,
    desired_capacity: u32,
    domain: (),
    id: ClusterId,
    init_at: String,
    max_size: i64,
    metadata: &'c Map<String, Value>,
    min_size: u32,
    name: &'c str,
    nodes: &'c [NodeId],
    policies: &'c [PolicyId],
    profile_id: ProfileId,
    profile_name: Option<&'c str>,
    project: &'c str,
    status: ClusterStatus,
    status_reason: &'c str,
    timeout: i64,
    updated_at: Option<String>,
    user: &'c str,
}

/// Converts a cluster, with its workers, its policies and the name of its profile.
pub(super) fn cluster<'c>(cluster: &'c Cluster, with: &'c RelatedRows) -> ShownCluster<'c> {
    ShownCluster {
        config: &cluster.config,
        created_at: cluster.created_at.map(time),
        data: &cluster.data,
        dependents: &cluster.dependents,
        desired_capacity: cluster.desired(),
        domain: (),
        id: cluster.id,
        init_at: time(cluster.init_at),
        max_size: cluster.max_size().map_or(-1, i64::from),
        metadata: &cluster.metadata,
        min_size: cluster.min_size(),
        name: &cluster.name,
        nodes: with.nodes.get(&cluster.id).map_or(&[], Vec::as_slice),
        policies: with.policies.get(&cluster.id).map_or(&[], Vec::as_slice),
        profile_id: cluster.profile_id,
        profile_name: with.profiles.get(&cluster.profile_id).map(String::as_str),
        project: &cluster.project,
        status: cluster.status,
        status_reason: &cluster.status_reason,
        timeout: cluster.timeout.secs(),
        updated_at: cluster.updated_at.map(time),
        user: &cluster.user,
    }
}

/// Converts a node.
pub(super) fn node(node: &Node, profile_name: Option<&str>, version: MicroVersion) -> Value {
    let mut shown = json!({
        "id": node.id.to_string(),
        "name": node.name,
        "cluster_id": node.cluster_id.map(|id| id.to_string()).unwrap_or_default(),
        "physical_id": node.physical_id,
        "profile_id": node.profile_id.to_string(),
        "profile_name": profile_name,
        "user": node.user,
        "project": node.project,
        "domain": null,
        "index": node.index,
        "role": role(node),
        "init_at": time(node.init_at),
        "created_at": optional_time(node.created_at),
        "updated_at": optional_time(node.updated_at),
        "status": node.status.as_str(),
        "status_reason": node.status_reason,
        "data": node.data,
        "metadata": node.metadata,
        "dependents": node.dependents,
    });
    if version >= TAINTED {
        shown["tainted"] = node.tainted.into();
    }
    shown
}

/// Returns the role that a user gave the node; `head` for a head.
fn role(node: &Node) -> &str {
    use muster_core::node::NodeRole;
    match node.role {
        NodeRole::Head => NodeRole::Head.as_str(),
        NodeRole::Worker | NodeRole::Unknown(_) => &node.user_role,
    }
}

/// Converts a profile.
pub(super) fn profile(profile: &Profile) -> Value {
    json!({
        "id": profile.id.to_string(),
        "name": profile.name,
        "type": profile.kind.to_string(),
        "user": profile.user,
        "project": profile.project,
        "domain": null,
        "spec": spec(profile),
        "metadata": profile.metadata,
        "created_at": time(profile.created_at),
        "updated_at": optional_time(profile.updated_at),
    })
}

/// Returns the specification as the client gave it.
fn spec(profile: &Profile) -> Value {
    let mut spec = profile.envelope.clone();
    if spec.is_empty() {
        spec.insert("type".to_owned(), profile.kind.name.clone().into());
        spec.insert("version".to_owned(), profile.kind.version.clone().into());
    }
    spec.insert("properties".to_owned(), Value::Object(profile.properties.clone()));
    Value::Object(spec)
}

/// Converts an action.
pub(super) fn action(action: &Action, edges: &Edges, version: MicroVersion) -> Value {
    let ids = |ids: &[ActionId]| Value::from(ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    let target = action.target.id().to_string();
    // Clients poll for the status WAITING while nodes wait for a lifecycle hook.
    let waits = action.status == ActionStatus::Running && edges.waits;
    let (status, reason) = if waits {
        (ActionStatus::Waiting, "Waiting for depended actions.")
    } else {
        (action.status, action.status_reason.as_str())
    };
    let mut shown = json!({
        "id": action.id.to_string(),
        "name": action.name(),
        "action": action.kind.as_str(),
        "target": target,
        "cause": cause(action.cause),
        "owner": action.owner.map(|id| id.to_string()),
        "interval": -1,
        "start_time": seconds(action.started_at),
        "end_time": seconds(action.ended_at),
        "timeout": action.timeout.secs(),
        "status": status.as_str(),
        "status_reason": reason,
        "inputs": map(&action.inputs),
        "outputs": map(&action.outputs),
        "data": map(&action.data),
        "depends_on": ids(&edges.on),
        "depended_by": ids(&edges.by),
        "created_at": time(action.created_at),
        "updated_at": time(action.updated_at),
        "user": action.principal.id,
        "project": action.principal.project,
    });
    if version >= CLUSTER_OF_ACTION {
        shown["cluster_id"] = action.cluster_id.map(|id| id.to_string()).unwrap_or_default().into();
    }
    shown
}

/// Returns the cause in terms of the API, which has none for healing: it counts as a request.
const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Healing => Cause::Request.as_str(),
        cause => cause.as_str(),
    }
}

/// Returns an object; an absent value becomes an empty object.
fn map(value: &Value) -> Value {
    if value.is_object() { value.clone() } else { Value::Object(Map::new()) }
}

/// Converts an event.
pub(super) fn event(event: &Event) -> Value {
    json!({
        "id": event.id.to_string(),
        "timestamp": formatted(event.at, "%Y-%m-%dT%H:%M:%S+00:00"),
        "oid": event.object_id,
        "oname": event.object_name,
        "otype": event.object_kind.as_str(),
        "cluster_id": event.cluster_id.map(|id| id.to_string()),
        "cluster": null,
        "level": event.level.as_str(),
        "user": event.user,
        "project": event.project,
        "action": event.reason,
        "status": event.phase,
        "status_reason": event.message,
        "meta_data": meta_data(event),
    })
}

fn meta_data(event: &Event) -> Value {
    let mut data = event.data.clone();
    data.insert("door".to_owned(), event.door.as_str().into());
    if let Some(action) = event.action_id {
        data.insert("action_id".to_owned(), action.to_string().into());
    }
    Value::Object(data)
}

/// Converts a receiver; `base` is the address of this server for clients.
pub(super) fn receiver(receiver: &Receiver, base: &str) -> Value {
    let mut query = form_urlencoded::Serializer::new(String::from("V=2"));
    let mut params: Vec<(&String, &Value)> = receiver.params.iter().collect();
    params.sort_by_key(|(key, _)| *key);
    for (key, value) in params {
        query.append_pair(key, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    let url = format!("{base}{V1}/webhooks/{}/trigger?{}", receiver.id, query.finish());
    json!({
        "id": receiver.id.to_string(),
        "name": receiver.name,
        "type": receiver.kind.as_str(),
        "user": receiver.principal.id,
        "project": receiver.project,
        "domain": null,
        "created_at": time(receiver.created_at),
        "updated_at": optional_time(receiver.updated_at),
        "cluster_id": receiver.cluster_id.to_string(),
        "actor": receiver.actor,
        "action": receiver.action.as_str(),
        "params": receiver.params,
        "channel": {"alarm_url": url},
    })
}

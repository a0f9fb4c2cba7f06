//! Construction of events: who, through which API, and why.

use muster_core::action::{Action, ActionKind};
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level, ObjectKind};
use muster_core::ids::EventId;
use muster_core::job::Job;
use muster_core::node::Node;
use muster_core::principal::Door;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::ids::new_id;

/// Stable reasons, which events, status reasons, metrics and docs share.
pub(crate) mod reason {
    /// An external node was adopted.
    pub(crate) const NODE_ADOPTED: &str = "NodeAdopted";
    /// A node stopped working unexpectedly.
    pub(crate) const NODE_LOST: &str = "NodeLost";
    /// A health policy found an unhealthy node.
    pub(crate) const NODE_UNHEALTHY: &str = "NodeUnhealthy";
    /// A lifecycle hook could not be delivered.
    pub(crate) const HOOK_NOT_DELIVERED: &str = "HookNotDelivered";
    /// A node ended with its machine, and is not recovered automatically.
    pub(crate) const HOST_RESTARTED: &str = "HostRestarted";
    /// The spec of record of a cluster was changed outside Muster.
    pub(crate) const CHANGED_ELSEWHERE: &str = "ChangedElsewhere";
    /// An external cluster was discovered, and has a row now.
    pub(crate) const DISCOVERED: &str = "Discovered";
    /// An image was built from its template.
    pub(crate) const IMAGE_BUILT: &str = "ImageBuilt";
    /// The build of an image failed.
    pub(crate) const IMAGE_BUILD_FAILED: &str = "ImageBuildFailed";
    /// The object of a deleted cluster exists.
    pub(crate) const LEFTOVER_FOUND: &str = "LeftoverFound";
    /// An object of a deleted cluster was removed.
    pub(crate) const LEFTOVER_REMOVED: &str = "LeftoverRemoved";
    /// A cluster was deleted outside Muster.
    pub(crate) const DELETED_ELSEWHERE: &str = "DeletedElsewhere";
    /// Nodes run with an outdated recipe until they are restarted.
    pub(crate) const RESTART_NEEDED: &str = "RestartNeeded";
    /// The workers of a cluster are replaced together with its head.
    pub(crate) const WORKERS_REPLACED: &str = "WorkersReplaced";
    /// A cluster is deleted because it was idle for its idle timeout.
    pub(crate) const IDLE_TIMEOUT: &str = "IdleTimeout";
    /// A cluster is idle and will soon be deleted.
    pub(crate) const IDLE_TIMEOUT_SOON: &str = "IdleTimeoutSoon";
    /// A cluster is deleted because its lifetime is over.
    pub(crate) const LIFETIME_OVER: &str = "LifetimeOver";
    /// The lifetime of a cluster is nearly over.
    pub(crate) const LIFETIME_OVER_SOON: &str = "LifetimeOverSoon";
    /// The app that a cluster ends with is gone.
    pub(crate) const APP_GONE: &str = "AppGone";
    /// A cluster is deleted because its app is gone.
    pub(crate) const DELETED_WITH_APP: &str = "DeletedWithApp";
    /// The command of a job was started.
    pub(crate) const JOB_STARTED: &str = "JobStarted";
    /// The command of a job ended with exit status 0.
    pub(crate) const JOB_SUCCEEDED: &str = "JobSucceeded";
    /// The command of a job failed, or could not be run.
    pub(crate) const JOB_FAILED: &str = "JobFailed";
    /// A job was stopped on request.
    pub(crate) const JOB_STOPPED: &str = "JobStopped";
    /// A cluster is deleted because the job that it was created for has ended.
    pub(crate) const DELETED_WITH_JOB: &str = "DeletedWithJob";
    /// The nodes of a cluster together request more than their machine has.
    pub(crate) const OVERCOMMITTED: &str = "Overcommitted";
    /// The database was restored from an older copy than the objects that it describes; its fences were raised.
    pub(crate) const DATABASE_BEHIND: &str = "DatabaseBehind";
    /// A row was marked deleted because no engine serves its instance any more.
    pub(crate) const INSTANCE_ABANDONED: &str = "InstanceAbandoned";
}

/// Creates an event of an action about its cluster.
pub(crate) fn of_action(
    action: &Action,
    cluster: &Cluster,
    phase: &str,
    message: &str,
    at: Timestamp,
) -> Event {
    let (level, kind) = (level_of(phase), action_label(action));
    let event = of_cluster(Some(action), cluster, level, kind, message, at);
    Event { phase: phase.to_owned(), data: origin(action), ..event }
}

/// Creates an event of an action about its node.
pub(crate) fn of_node_action(
    action: &Action,
    node: &Node,
    phase: &str,
    message: &str,
    at: Timestamp,
) -> Event {
    let (level, kind) = (level_of(phase), action_label(action));
    let event = of_node(Some(action), node, level, kind, message, at);
    Event { phase: phase.to_owned(), data: origin(action), ..event }
}

fn level_of(phase: &str) -> Level {
    if phase == "error" { Level::Error } else { Level::Info }
}

/// Returns the label of an action in events: its kind, or the name of its operation.
pub(crate) fn action_label(action: &Action) -> &str {
    let operation = || action.inputs.get("operation").and_then(Value::as_str);
    match action.kind {
        ActionKind::ClusterOperation | ActionKind::NodeOperation => {
            operation().unwrap_or(action.kind.as_str())
        }
        kind => kind.as_str(),
    }
}

/// Returns the API that the action came through and its reason, as the data of an event.
fn origin(action: &Action) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("door".to_owned(), Value::from(action.door.as_str()));
    if !action.reason.is_empty() {
        data.insert("reason".to_owned(), Value::from(action.reason.clone()));
    }
    data
}

/// Creates an event about a cluster, during an action or outside any.
pub(crate) fn of_cluster(
    action: Option<&Action>,
    cluster: &Cluster,
    level: Level,
    reason: &str,
    message: &str,
    at: Timestamp,
) -> Event {
    Event {
        object_kind: ObjectKind::Cluster,
        object_id: cluster.id.to_string(),
        object_name: cluster.name.clone(),
        cluster_id: Some(cluster.id),
        project: cluster.project.clone(),
        ..new_event(action, level, reason, message, at)
    }
}

/// Creates an event about an image template, by its namespace and name.
pub(crate) fn of_image(
    (namespace, name): (&str, &str),
    project: &str,
    level: Level,
    reason: &str,
    message: &str,
    at: Timestamp,
) -> Event {
    Event {
        object_kind: ObjectKind::Other,
        object_id: format!("{namespace}/{name}"),
        object_name: name.to_owned(),
        project: project.to_owned(),
        ..new_event(None, level, reason, message, at)
    }
}

/// Creates an event about a job, which is listed with the events of its cluster.
pub(crate) fn of_job(job: &Job, level: Level, reason: &str, message: &str, at: Timestamp) -> Event {
    Event {
        object_kind: ObjectKind::Other,
        object_id: job.id.to_string(),
        object_name: job.name.clone(),
        cluster_id: Some(job.cluster_id),
        project: job.project.clone(),
        ..new_event(None, level, reason, message, at)
    }
}

/// Creates an event about a node, during an action or outside any.
pub(crate) fn of_node(
    action: Option<&Action>,
    node: &Node,
    level: Level,
    reason: &str,
    message: &str,
    at: Timestamp,
) -> Event {
    Event {
        object_kind: ObjectKind::Node,
        object_id: node.id.to_string(),
        object_name: node.name.clone(),
        cluster_id: node.cluster_id,
        phase: if level >= Level::Error { "error".to_owned() } else { String::new() },
        project: node.project.clone(),
        ..new_event(action, level, reason, message, at)
    }
}

/// Creates an event without an object, which the caller adds. Outside any action its user is Muster.
fn new_event(action: Option<&Action>, level: Level, reason: &str, message: &str, at: Timestamp) -> Event {
    Event {
        id: EventId::from_uuid(new_id()),
        at,
        level,
        object_kind: ObjectKind::Cluster,
        object_id: String::new(),
        object_name: String::new(),
        cluster_id: None,
        action_id: action.map(|action| action.id),
        reason: reason.to_owned(),
        phase: String::new(),
        message: message.to_owned(),
        user: action.map_or_else(|| "muster".to_owned(), |action| action.principal.id.clone()),
        project: String::new(),
        door: action.map_or(Door::Engine, |action| action.door),
        data: Map::new(),
    }
}

//! Creation, updates and deletion of nodes, and actions on them.

use http::StatusCode;
use muster_core::change::{Change, Check, Delete, NodeUpdate, Recovery};
use muster_core::membership::HEAD_STAYS;
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::spec::listed;
use muster_service::NewNode;
use serde_json::{Map, Value};

use super::call::ClusteringCall;
use super::cluster_actions::recovery;
use super::field_reader::FieldReader;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::version::MicroVersion;

/// The version that added tainted nodes.
const TAINTED: MicroVersion = MicroVersion(13);

pub(super) async fn create(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("node")?);
    let name = form.name("name")?;
    let profile = form.text("profile_id")?;
    let cluster = form.text("cluster_id")?.filter(|given| !given.is_empty());
    let role = form.short_text("role")?.unwrap_or_default();
    let metadata = form.map("metadata")?.unwrap_or_default();
    form.require("name").require("profile_id").done()?;
    let profile = call.named_profile(profile.unwrap_or_default()).await?;
    let cluster = match cluster {
        None => None,
        Some(given) => {
            let unknown = || SenlinError::unknown("cluster", given);
            Some(call.named_cluster(given).await?.ok_or_else(unknown)?)
        }
    };
    let instance = match &cluster {
        Some(cluster) => cluster.instance.clone(),
        None => {
            call.service().namespace_of(&call.principal()?.project)?;
            call.service().instance_for("", &profile.kind)?
        }
    };
    let new = NewNode {
        name: name.unwrap_or_default().to_owned(),
        profile,
        cluster,
        instance,
        role: role.to_owned(),
        metadata,
    };
    let (action, node) = call.service().create_node(&call.caller()?, new).await?;
    let shown = call.shown_node(&node).await?;
    Ok(Reply::of("node", shown).accepted(call, action.id))
}

pub(super) async fn update(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.changed_object("node")?);
    let name = form.name("name")?;
    let profile = form.text("profile_id")?;
    let role = form.short_text("role")?;
    let metadata = form.map("metadata")?;
    let tainted = if call.version >= TAINTED { form.boolean("tainted")? } else { None };
    form.done()?;
    let node = call.node(call.path(0)).await?;
    let mut update = NodeUpdate {
        name: name.filter(|name| *name != node.name).map(str::to_owned),
        role: role.filter(|role| *role != node.user_role).map(str::to_owned),
        metadata,
        tainted: tainted.filter(|tainted| *tainted != node.tainted),
        ..NodeUpdate::default()
    };
    if let Some(profile) = profile {
        let profile = call.named_profile(profile).await?;
        let present = call.service().profile(node.profile_id).await?;
        if present.is_some_and(|present| present.kind.name != profile.kind.name) {
            return Err(SenlinError::bad(
                "Cannot update a node to a different profile type, operation aborted",
            ));
        }
        update.profile_id = Some(profile.id).filter(|id| *id != node.profile_id);
    }
    if update.is_empty() {
        return Err(SenlinError::bad("No property needs an update"));
    }
    let action = call.service().change_node(&call.caller()?, &node, Change::UpdateNode(update)).await?.id;
    let shown = call.shown_node(&node).await?;
    Ok(Reply::of("node", shown).accepted(call, action))
}

/// The statuses in which a deletion has to be forced while an action is changing the node.
const BUSY: [NodeStatus; 4] =
    [NodeStatus::Creating, NodeStatus::Updating, NodeStatus::Deleting, NodeStatus::Recovering];

pub(super) async fn delete(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let body = call.body_or_nothing();
    let force = FieldReader::new(&body).boolean("force")?.unwrap_or(false);
    let given = call.path(0);
    let node = call.node(given).await?;
    if node.role == NodeRole::Head {
        return Err(SenlinError::bad(HEAD_STAYS));
    }
    if !force
        && BUSY.contains(&node.status)
        && call.service().is_changing(node.cluster_id, Some(node.id)).await?
    {
        return Err(SenlinError::conflict(
            "ActionInProgress",
            format!("The node '{given}' is in status {}.", node.status),
        ));
    }
    if !node.dependents.is_empty() {
        return Err(SenlinError::conflict(
            "ResourceInUse",
            format!("The node '{given}' cannot be deleted: still depended by other clusters and/or nodes."),
        ));
    }
    let delete = Change::DeleteNode(Delete { force });
    let action = call.service().change_node(&call.caller()?, &node, delete).await?.id;
    Ok(Reply::empty(StatusCode::ACCEPTED).accepted(call, action))
}

/// The parameters of a recovery.
const RECOVERY: [&str; 5] = ["operation", "operation_params", "check", "delete_timeout", "force_recreate"];

pub(super) async fn act(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let body = call.body()?;
    let mut entries = body.iter();
    let (name, data) = entries.next().ok_or_else(|| SenlinError::form("No action specified."))?;
    if entries.next().is_some() {
        return Err(SenlinError::form("Multiple actions specified."));
    }
    if !["check", "recover"].contains(&name.as_str()) {
        return Err(SenlinError::form(format!("Unrecognized action '{name}' specified")));
    }
    let data = match data {
        Value::Null => Map::new(),
        Value::Object(data) => data.clone(),
        _ => return Err(SenlinError::form("The params provided is not a map.")),
    };
    let node = call.node(call.path(0)).await?;
    let change = if name == "check" {
        Change::CheckNode(Check(data))
    } else {
        let unknown: Vec<&str> =
            data.keys().map(String::as_str).filter(|key| !RECOVERY.contains(key)).collect();
        if !unknown.is_empty() {
            return Err(SenlinError::bad(format!(
                "Action parameter {} is not recognizable",
                listed(unknown)
            )));
        }
        Change::RecoverNode(node_recovery(&data)?)
    };
    let action = call.service().change_node(&call.caller()?, &node, change).await?.id;
    Ok(Reply::of("action", action.to_string()).accepted(call, action))
}

fn node_recovery(data: &Map<String, Value>) -> Result<Recovery, SenlinError> {
    let mut form = FieldReader::new(data);
    let operation = form.any("operation").map(recovery).transpose()?;
    let operation_params = match form.any("operation_params") {
        None => None,
        Some(Value::Object(params)) => Some(params.clone()),
        Some(_) => return Err(SenlinError::form("The params provided is not a map.")),
    };
    Ok(Recovery {
        operation,
        operation_params,
        check: form.boolean("check")?,
        force_recreate: form.boolean("force_recreate")?,
        delete_timeout: form.count("delete_timeout")?,
        check_capacity: None,
    })
}

//! Making, changing and removing nodes.

use http::StatusCode;
use muster_core::action::{ActionKind, OnConflict, Target};
use muster_core::ids::{ActionId, ClusterId};
use muster_core::membership::HEAD_STAYS;
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::spec::listed;
use muster_engine::{NewNode, NodeChange};
use muster_store::reads::Thing;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::cluster_actions::recovery;
use super::fault::Fault;
use super::form::Form;
use super::reply::Reply;
use super::version::Version;
use crate::placement;

/// Since when nodes can be marked to go first.
const TAINTED: Version = Version(13);

impl Call {
    /// Has something done to a node; refused while somebody else's action has it.
    pub(super) async fn submit_node(
        &self,
        kind: ActionKind,
        node: &Node,
        inputs: Value,
    ) -> Result<ActionId, Fault> {
        let on_conflict = match kind {
            ActionKind::NodeDelete => OnConflict::Preempt,
            ActionKind::NodeOperation => OnConflict::Queue,
            _ => OnConflict::Reject,
        };
        let change = NodeChange { kind, node: node.clone(), inputs, on_conflict, timeout: None };
        match self.engine().submit_node(change, self.caller()?).await {
            Ok(accepted) => Ok(accepted.action.id),
            Err(error) => Err(Fault::submitted(error, kind, Target::Node(node.id))),
        }
    }
}

pub(super) async fn create(call: &Call) -> Result<Reply, Fault> {
    let mut form = Form::new(call.new_object("node")?);
    let name = form.name("name")?;
    let profile = form.text("profile_id")?;
    let cluster = form.text("cluster_id")?.filter(|given| !given.is_empty());
    let role = form.text("role")?.unwrap_or_default();
    let metadata = form.map("metadata")?.unwrap_or_default();
    form.require("name").require("profile_id").done()?;
    let profile = call.named_profile(profile.unwrap_or_default()).await?;
    let cluster = match cluster {
        None => None,
        Some(given) => {
            let unknown = || Fault::unknown("cluster", given);
            let id = call.identify(Thing::Cluster, given).await?.ok_or_else(unknown)?;
            Some(call.engine().store().cluster(ClusterId::from_uuid(id)).await?.ok_or_else(unknown)?)
        }
    };
    let instance = match &cluster {
        Some(cluster) => cluster.instance.clone(),
        None => {
            placement::namespace_of(call.engine(), &call.principal()?.project)?;
            placement::instance_for(call.engine(), "", &profile.kind)?
        }
    };
    placement::may_run_code(&call.door.info, call.principal()?, &instance)?;
    let new = NewNode {
        name: name.unwrap_or_default().to_owned(),
        profile,
        cluster,
        instance,
        role: role.to_owned(),
        metadata,
    };
    let (accepted, node) = call.engine().create_node(new, call.caller()?).await?;
    let shown = call.shown_node(&node).await?;
    Ok(Reply::of("node", shown).accepted(call, accepted.action.id))
}

pub(super) async fn update(call: &Call) -> Result<Reply, Fault> {
    let mut form = Form::new(call.changed_object("node")?);
    let name = form.name("name")?;
    let profile = form.text("profile_id")?;
    let role = form.text("role")?;
    let metadata = form.map("metadata")?;
    let tainted = if call.version >= TAINTED { form.truth("tainted")? } else { None };
    form.done()?;
    let node = call.node(call.path(0)).await?;
    let mut inputs = Map::new();
    if let Some(profile) = profile {
        let profile = call.named_profile(profile).await?;
        let present = call.engine().store().profile(node.profile_id).await?;
        if present.is_some_and(|present| present.kind.name != profile.kind.name) {
            return Err(Fault::bad("Cannot update a node to a different profile type, operation aborted"));
        }
        if profile.id != node.profile_id {
            inputs.insert("profile_id".to_owned(), profile.id.to_string().into());
        }
    }
    if let Some(name) = name.filter(|name| *name != node.name) {
        inputs.insert("name".to_owned(), name.into());
    }
    if let Some(role) = role.filter(|role| *role != node.user_role) {
        inputs.insert("role".to_owned(), role.into());
    }
    if let Some(metadata) = metadata {
        inputs.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(tainted) = tainted.filter(|tainted| *tainted != node.tainted) {
        inputs.insert("tainted".to_owned(), tainted.into());
    }
    if inputs.is_empty() {
        return Err(Fault::bad("No property needs an update"));
    }
    let action = call.submit_node(ActionKind::NodeUpdate, &node, Value::Object(inputs)).await?;
    let shown = call.shown_node(&node).await?;
    Ok(Reply::of("node", shown).accepted(call, action))
}

/// What a node is doing while it cannot simply be deleted.
const BUSY: [NodeStatus; 4] =
    [NodeStatus::Creating, NodeStatus::Updating, NodeStatus::Deleting, NodeStatus::Recovering];

pub(super) async fn delete(call: &Call) -> Result<Reply, Fault> {
    let body = call.body_or_nothing();
    let force = Form::new(&body).truth("force")?.unwrap_or(false);
    let given = call.path(0);
    let node = call.node(given).await?;
    if node.role == NodeRole::Head {
        return Err(Fault::bad(HEAD_STAYS));
    }
    if !force
        && BUSY.contains(&node.status)
        && call.engine().somebody_changes(node.cluster_id, Some(node.id)).await?
    {
        return Err(Fault::conflict(
            "ActionInProgress",
            format!("The node '{given}' is in status {}.", node.status),
        ));
    }
    if !node.dependents.is_empty() {
        return Err(Fault::conflict(
            "ResourceInUse",
            format!("The node '{given}' cannot be deleted: still depended by other clusters and/or nodes."),
        ));
    }
    let inputs = if force { json!({"force": true}) } else { json!({}) };
    let action = call.submit_node(ActionKind::NodeDelete, &node, inputs).await?;
    Ok(Reply::empty(StatusCode::ACCEPTED).accepted(call, action))
}

/// What a recovery may be told.
const RECOVERY: [&str; 5] = ["operation", "operation_params", "check", "delete_timeout", "force_recreate"];

pub(super) async fn act(call: &Call) -> Result<Reply, Fault> {
    let body = call.body()?;
    let mut entries = body.iter();
    let (name, data) = entries.next().ok_or_else(|| Fault::form("No action specified."))?;
    if entries.next().is_some() {
        return Err(Fault::form("Multiple actions specified."));
    }
    if !["check", "recover"].contains(&name.as_str()) {
        return Err(Fault::form(format!("Unrecognized action '{name}' specified")));
    }
    let data = match data {
        Value::Null => Map::new(),
        Value::Object(data) => data.clone(),
        _ => return Err(Fault::form("The params provided is not a map.")),
    };
    let node = call.node(call.path(0)).await?;
    let action = if name == "check" {
        call.submit_node(ActionKind::NodeCheck, &node, Value::Object(data)).await?
    } else {
        let unknown: Vec<&str> =
            data.keys().map(String::as_str).filter(|key| !RECOVERY.contains(key)).collect();
        if !unknown.is_empty() {
            return Err(Fault::bad(format!("Action parameter {} is not recognizable", listed(unknown))));
        }
        call.submit_node(ActionKind::NodeRecover, &node, recovery_inputs(&data)?).await?
    };
    Ok(Reply::of("action", action.to_string()).accepted(call, action))
}

/// What is said of a recovery, as the engine reads it.
fn recovery_inputs(data: &Map<String, Value>) -> Result<Value, Fault> {
    let mut form = Form::new(data);
    let mut inputs = Map::new();
    let mut say = |key: &str, value: Option<Value>| inputs.extend(value.map(|value| (key.to_owned(), value)));
    say("operation", form.any("operation").map(recovery).transpose()?.map(Value::from));
    let params = form.any("operation_params").cloned();
    if params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(Fault::form("The params provided is not a map."));
    }
    say("operation_params", params);
    for key in ["check", "force_recreate"] {
        say(key, form.truth(key)?.map(Value::from));
    }
    say("delete_timeout", form.count("delete_timeout")?.map(Value::from));
    Ok(Value::Object(inputs))
}

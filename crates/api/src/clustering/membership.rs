//! Requests that change the members of a cluster, or its policies.

use std::collections::HashSet;

use muster_core::change::{Change, PolicyChange};
use muster_core::ids::ActionId;
use serde_json::{Map, Value};

use super::call::ClusteringCall;
use super::field_reader::FieldReader;
use super::senlin_error::{MALFORMED, SenlinError};
use super::version::MicroVersion;

/// The version that added the replacement of members.
const REPLACE: MicroVersion = MicroVersion(3);

/// The version that added the deletion of removed members.
const DESTROY: MicroVersion = MicroVersion(4);

/// The version that added the completion of lifecycle hooks.
const LIFECYCLE: MicroVersion = MicroVersion(9);

/// Reads the list of nodes that a request names.
fn nodes(form: &mut FieldReader<'_>) -> Result<Vec<String>, SenlinError> {
    let given = match form.any("nodes") {
        None => Vec::new(),
        // Senlin treats a text as a list of characters.
        Some(Value::String(text)) => text.chars().map(String::from).collect(),
        Some(Value::Array(items)) => {
            let text =
                |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| SenlinError::form(MALFORMED));
            items.iter().map(text).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(SenlinError::form(MALFORMED)),
    };
    if given.is_empty() {
        return Err(SenlinError::form("Value for 'nodes' must have at least 1 item(s)."));
    }
    let mut unique = HashSet::new();
    if given.iter().all(|node| unique.insert(node)) {
        Ok(given)
    } else {
        Err(SenlinError::form("Items for 'nodes' must be unique"))
    }
}

pub(super) async fn add(call: &ClusteringCall, data: &Map<String, Value>) -> Result<ActionId, SenlinError> {
    let mut form = FieldReader::new(data);
    let given = nodes(&mut form)?;
    form.done()?;
    let cluster = call.cluster(call.path(0)).await?;
    Ok(call.service().add_nodes(call.access()?, &call.caller()?, &cluster, given).await?.id)
}

pub(super) async fn remove(
    call: &ClusteringCall,
    data: &Map<String, Value>,
) -> Result<ActionId, SenlinError> {
    let mut form = FieldReader::new(data);
    let given = nodes(&mut form)?;
    let destroy = form.boolean("destroy_after_deletion")?;
    form.done()?;
    if destroy.is_some() && call.version < DESTROY {
        return Err(SenlinError::form(
            "Additional properties are not allowed ('destroy_after_deletion' was unexpected)",
        ));
    }
    let cluster = call.cluster(call.path(0)).await?;
    let action =
        call.service().remove_nodes(call.access()?, &call.caller()?, &cluster, given, destroy).await?;
    Ok(action.id)
}

pub(super) async fn replace(
    call: &ClusteringCall,
    data: &Map<String, Value>,
) -> Result<ActionId, SenlinError> {
    if call.version < REPLACE {
        return Err(SenlinError::too_old(call.version));
    }
    let mut form = FieldReader::new(data);
    let not_a_map = || SenlinError::form("The data provided is not a map");
    let pairs = form.any("nodes").and_then(Value::as_object).filter(|pairs| !pairs.is_empty());
    let pairs = pairs.ok_or_else(not_a_map)?;
    form.done()?;
    let mut old = Vec::new();
    let mut new = Vec::new();
    for (from, to) in pairs {
        match to {
            Value::String(to) => new.push(to.clone()),
            Value::Null => return Err(SenlinError::form(format!("Field `nodes[{from}]' cannot be None"))),
            _ => return Err(SenlinError::form(MALFORMED)),
        }
        old.push(from.clone());
    }
    let mut unique = HashSet::new();
    if !new.iter().all(|node| unique.insert(node)) {
        return Err(SenlinError::form("Map contains duplicated values"));
    }
    let cluster = call.cluster(call.path(0)).await?;
    let action = call.service().replace_nodes(call.access()?, &call.caller()?, &cluster, (old, new)).await?;
    Ok(action.id)
}

/// The change of a policy's binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BindingRequest {
    Attach,
    Detach,
    Update,
}

/// Attaches or detaches a policy, or enables or disables an attached one.
pub(super) async fn policy(
    call: &ClusteringCall,
    kind: BindingRequest,
    data: &Map<String, Value>,
) -> Result<ActionId, SenlinError> {
    let mut form = FieldReader::new(data);
    let given = form.text("policy_id")?;
    let enabled = match kind {
        BindingRequest::Detach => None,
        _ => form.boolean("enabled")?,
    };
    form.require("policy_id").done()?;
    let given = given.unwrap_or_default();
    let named = call.path(0);
    let cluster = call.cluster(named).await?;
    let policy = call.named_policy(given).await?;
    if kind != BindingRequest::Attach && call.service().binding(&cluster, &policy).await?.is_none() {
        return Err(SenlinError::bad(format!(
            "The policy '{given}' is not attached to the specified cluster '{named}'"
        )));
    }
    let change = PolicyChange { policy_id: policy.id, enabled };
    let change = match kind {
        BindingRequest::Attach => Change::AttachPolicy(change),
        BindingRequest::Detach => Change::DetachPolicy(change),
        BindingRequest::Update => Change::UpdatePolicy(change),
    };
    Ok(call.service().change_cluster(&call.caller()?, &cluster, change).await?.id)
}

/// Reads the token of a completed lifecycle hook, which is the id of the action that waits for the hook.
pub(super) fn lifecycle_token<'d>(
    call: &ClusteringCall,
    data: &'d Map<String, Value>,
) -> Result<&'d str, SenlinError> {
    if call.version < LIFECYCLE {
        return Err(SenlinError::too_old(call.version));
    }
    let mut form = FieldReader::new(data);
    let token = form.text("lifecycle_action_token")?;
    form.require("lifecycle_action_token").done()?;
    Ok(token.unwrap_or_default())
}

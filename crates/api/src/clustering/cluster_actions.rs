//! `POST /clusters/{id}/actions`: one action on a cluster per request.

use muster_core::change::{Change, Check, Recovery, ResizeGroup, Scale};
use muster_core::ids::ActionId;
use muster_core::spec::listed;
use serde_json::{Map, Value, json};

use super::call::ClusteringCall;
use super::field_reader::FieldReader;
use super::membership::{self, BindingRequest};
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::sizes;

/// An action that a request can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterAction {
    Resize,
    ScaleOut,
    ScaleIn,
    Check,
    Recover,
    AddNodes,
    RemoveNodes,
    ReplaceNodes,
    Policy(BindingRequest),
    CompleteLifecycle,
}

/// The names of the actions.
const ACTIONS: [(&str, ClusterAction); 12] = [
    ("resize", ClusterAction::Resize),
    ("scale_out", ClusterAction::ScaleOut),
    ("scale_in", ClusterAction::ScaleIn),
    ("check", ClusterAction::Check),
    ("recover", ClusterAction::Recover),
    ("add_nodes", ClusterAction::AddNodes),
    ("del_nodes", ClusterAction::RemoveNodes),
    ("replace_nodes", ClusterAction::ReplaceNodes),
    ("policy_attach", ClusterAction::Policy(BindingRequest::Attach)),
    ("policy_detach", ClusterAction::Policy(BindingRequest::Detach)),
    ("policy_update", ClusterAction::Policy(BindingRequest::Update)),
    ("complete_lifecycle", ClusterAction::CompleteLifecycle),
];

/// An action with its data.
pub(super) struct RequestedAction {
    pub(super) action: ClusterAction,
    pub(super) data: Map<String, Value>,
}

fn requested_action(body: &Map<String, Value>) -> Result<RequestedAction, SenlinError> {
    let mut entries = body.iter();
    let (name, data) = entries.next().ok_or_else(|| SenlinError::form("No action specified"))?;
    if entries.next().is_some() {
        return Err(SenlinError::form("Multiple actions specified"));
    }
    let known = ACTIONS.iter().find(|(known, _)| known == name).map(|(_, action)| *action);
    let action = known.ok_or_else(|| SenlinError::form(format!("Unrecognized action '{name}' specified")))?;
    match data {
        Value::Object(data) => Ok(RequestedAction { action, data: data.clone() }),
        Value::Null => Ok(RequestedAction { action, data: Map::new() }),
        _ => Err(SenlinError::form("The data provided is not a map")),
    }
}

pub(super) async fn act(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    perform(call, requested_action(call.body()?)?).await
}

/// Executes the requested action; triggers of receivers use it too.
pub(super) async fn perform(
    call: &ClusteringCall,
    RequestedAction { action, data }: RequestedAction,
) -> Result<Reply, SenlinError> {
    match action {
        ClusterAction::Resize => resize(call, &data).await,
        ClusterAction::ScaleOut => scale(call, "scale-out", Change::ScaleOut, &data).await,
        ClusterAction::ScaleIn => scale(call, "scale-in", Change::ScaleIn, &data).await,
        ClusterAction::Check => check(call, data).await,
        ClusterAction::Recover => recover(call, &data).await,
        ClusterAction::AddNodes => Ok(accepted(call, membership::add(call, &data).await?)),
        ClusterAction::RemoveNodes => Ok(accepted(call, membership::remove(call, &data).await?)),
        ClusterAction::ReplaceNodes => Ok(accepted(call, membership::replace(call, &data).await?)),
        ClusterAction::Policy(change) => policy(call, change, &data).await,
        ClusterAction::CompleteLifecycle => complete_lifecycle(call, &data).await,
    }
}

/// Completes a lifecycle hook: the waiting action continues. For an action that does not wait this has no effect.
async fn complete_lifecycle(call: &ClusteringCall, data: &Map<String, Value>) -> Result<Reply, SenlinError> {
    let token = membership::lifecycle_token(call, data)?;
    let cluster = call.cluster(call.path(0)).await?;
    let action = call.action(token).await?;
    if action.cluster_id != Some(cluster.id) {
        return Err(SenlinError::missing("action", token));
    }
    call.service().complete_lifecycle(action.id).await?;
    Ok(accepted(call, action.id))
}

async fn policy(
    call: &ClusteringCall,
    kind: BindingRequest,
    data: &Map<String, Value>,
) -> Result<Reply, SenlinError> {
    Ok(accepted(call, membership::policy(call, kind, data).await?))
}

fn accepted(call: &ClusteringCall, action: ActionId) -> Reply {
    Reply::of("action", action.to_string()).accepted(call, action)
}

async fn resize(call: &ClusteringCall, data: &Map<String, Value>) -> Result<Reply, SenlinError> {
    let limit = call.service().max_nodes();
    let (group, resize) = sizes::resize(data, limit, call.version)?;
    let change = Change::Resize(ResizeGroup { group, resize, candidates: None });
    let cluster = call.cluster(call.path(0)).await?;
    call.service().check_sizes(&cluster, &change).await?;
    let action = call.service().change_cluster(&call.caller()?, &cluster, change).await?.id;
    let shown = call.shown_cluster(&cluster).await?;
    Ok(Reply::whole(&json!({"action": action.to_string(), "cluster": shown})).accepted(call, action))
}

async fn scale(
    call: &ClusteringCall,
    name: &str,
    change: impl Fn(Scale) -> Change,
    data: &Map<String, Value>,
) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(data);
    let count = form.count("count")?;
    form.done()?;
    if count == Some(0) {
        return Err(SenlinError::bad(format!("Count for {name} request cannot be 0")));
    }
    let cluster = call.cluster(call.path(0)).await?;
    let change = change(Scale { count, ..Scale::default() });
    if count.is_some() && matches!(change, Change::ScaleOut(_)) {
        call.service().check_sizes(&cluster, &change).await?;
    }
    let action = call.service().change_cluster(&call.caller()?, &cluster, change).await?;
    Ok(accepted(call, action.id))
}

async fn check(call: &ClusteringCall, data: Map<String, Value>) -> Result<Reply, SenlinError> {
    let cluster = call.cluster(call.path(0)).await?;
    let check = Change::CheckCluster(Check(data));
    Ok(accepted(call, call.service().change_cluster(&call.caller()?, &cluster, check).await?.id))
}

/// The parameters of a recovery.
pub(super) const RECOVERY: [&str; 4] = ["operation", "operation_params", "check", "check_capacity"];

async fn recover(call: &ClusteringCall, data: &Map<String, Value>) -> Result<Reply, SenlinError> {
    let cluster = call.cluster(call.path(0)).await?;
    let unknown: Vec<&str> = data.keys().map(String::as_str).filter(|key| !RECOVERY.contains(key)).collect();
    if !unknown.is_empty() {
        return Err(SenlinError::bad(format!("Action parameter {} is not recognizable", listed(unknown))));
    }
    let mut form = FieldReader::new(data);
    let recovery = Change::RecoverCluster(Recovery {
        operation: form.any("operation").map(recovery).transpose()?,
        check: form.boolean("check")?,
        // Nodes are added or removed only if the request asks for it.
        check_capacity: Some(form.boolean("check_capacity")?.unwrap_or(false)),
        operation_params: form.map("operation_params")?,
        ..Recovery::default()
    });
    Ok(accepted(call, call.service().change_cluster(&call.caller()?, &cluster, recovery).await?.id))
}

/// Parses the operation that recovers a node, in upper or lower case.
pub(super) fn recovery(given: &Value) -> Result<String, SenlinError> {
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    let value = shown.to_uppercase();
    if ["REBOOT", "REBUILD", "RECREATE"].contains(&value.as_str()) {
        return Ok(value);
    }
    Err(SenlinError::bad(format!(
        "Operation value '{shown}' has to be one of the following: REBOOT, REBUILD, RECREATE"
    )))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({}), "No action specified")]
    #[case(json!({"check": {}, "recover": {}}), "Multiple actions specified")]
    #[case(json!({"foo": {}}), "Unrecognized action 'foo' specified")]
    #[case(json!({"check": [1]}), "The data provided is not a map")]
    fn a_body_names_exactly_one_action(#[case] body: Value, #[case] message: &str) {
        let refused = requested_action(body.as_object().unwrap()).err().unwrap();
        assert_eq!((refused.status.as_u16(), refused.message.as_str()), (400, message));
    }

    #[test]
    fn a_recovery_is_read_in_any_case() {
        assert_eq!(recovery(&json!("reboot")).unwrap(), "REBOOT");
        assert_eq!(
            recovery(&json!("FOO")).unwrap_err().message,
            "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE."
        );
    }
}

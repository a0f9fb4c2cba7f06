//! `POST /clusters/{id}/actions`: what can be done to a cluster, one thing at a time.

use muster_core::action::{ActionKind, OnConflict, Target};
use muster_core::cluster::Cluster;
use muster_core::ids::{ActionId, ClusterId};
use muster_core::spec::listed;
use muster_engine::Change;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::fault::Fault;
use super::form::Form;
use super::membership;
use super::reply::Reply;
use super::sizes;

impl Call {
    /// Has something done to a cluster; refused while somebody else's action has it.
    pub(super) async fn submit(
        &self,
        kind: ActionKind,
        cluster: &Cluster,
        inputs: Value,
    ) -> Result<ActionId, Fault> {
        let on_conflict = OnConflict::Reject;
        let change =
            Change { kind, cluster: cluster.clone(), node: None, inputs, on_conflict, timeout: None };
        match self.engine().submit(change, self.caller()?).await {
            Ok(accepted) => Ok(accepted.action.id),
            Err(error) => Err(Fault::submitted(error, kind, Target::Cluster(cluster.id))),
        }
    }
}

/// One thing to be done, with what is said of it.
struct Deed<'b> {
    name: &'b str,
    data: Map<String, Value>,
}

fn deed(body: &Map<String, Value>) -> Result<Deed<'_>, Fault> {
    let mut entries = body.iter();
    let (name, data) = entries.next().ok_or_else(|| Fault::form("No action specified"))?;
    if entries.next().is_some() {
        return Err(Fault::form("Multiple actions specified"));
    }
    let known = [
        "resize",
        "scale_out",
        "scale_in",
        "check",
        "recover",
        "add_nodes",
        "del_nodes",
        "replace_nodes",
        "policy_attach",
        "policy_detach",
        "policy_update",
        "complete_lifecycle",
    ];
    if !known.contains(&name.as_str()) {
        return Err(Fault::form(format!("Unrecognized action '{name}' specified")));
    }
    match data {
        Value::Object(data) => Ok(Deed { name, data: data.clone() }),
        Value::Null => Ok(Deed { name, data: Map::new() }),
        _ => Err(Fault::form("The data provided is not a map")),
    }
}

pub(super) async fn act(call: &Call) -> Result<Reply, Fault> {
    let Deed { name, data } = deed(call.body()?)?;
    match name {
        "resize" => resize(call, &data).await,
        "scale_out" => scale(call, ActionKind::ClusterScaleOut, &data).await,
        "scale_in" => scale(call, ActionKind::ClusterScaleIn, &data).await,
        "check" => check(call, data).await,
        "recover" => recover(call, &data).await,
        "add_nodes" => Ok(accepted(call, membership::add(call, &data).await?)),
        "del_nodes" => Ok(accepted(call, membership::remove(call, &data).await?)),
        "replace_nodes" => Ok(accepted(call, membership::replace(call, &data).await?)),
        "policy_attach" => policy(call, ActionKind::ClusterAttachPolicy, &data).await,
        "policy_detach" => policy(call, ActionKind::ClusterDetachPolicy, &data).await,
        "policy_update" => policy(call, ActionKind::ClusterUpdatePolicy, &data).await,
        "complete_lifecycle" => complete_lifecycle(call, &data).await,
        name => Err(Fault::form(format!("Unrecognized action '{name}' specified"))),
    }
}

/// Says that a node may go; the action that waits for it goes on. One that does not wait hears it without harm.
async fn complete_lifecycle(call: &Call, data: &Map<String, Value>) -> Result<Reply, Fault> {
    let token = membership::lifecycle_token(call, data)?;
    call.cluster(call.path(0)).await?;
    let action = call.action(token).await?;
    call.engine().complete_lifecycle(action.id).await?;
    Ok(accepted(call, action.id))
}

async fn policy(call: &Call, kind: ActionKind, data: &Map<String, Value>) -> Result<Reply, Fault> {
    Ok(accepted(call, membership::policy(call, kind, data).await?))
}

fn accepted(call: &Call, action: ActionId) -> Reply {
    Reply::of("action", action.to_string()).accepted(call, action)
}

async fn resize(call: &Call, data: &Map<String, Value>) -> Result<Reply, Fault> {
    let limit = call.engine().config().max_nodes_per_cluster;
    let asked = sizes::resize(data, limit, call.version)?;
    let group = data.get("group").and_then(Value::as_str);
    let cluster = call.cluster(call.path(0)).await?;
    let (_, present) = call.present(&cluster, group).await?;
    asked.apply(present, limit).map_err(|refused| Fault::bad(refused.to_string()))?;
    let action = call.submit(ActionKind::ClusterResize, &cluster, sizes::inputs(&asked, group)).await?;
    let shown = call.shown_cluster(&cluster).await?;
    Ok(Reply::whole(&json!({"action": action.to_string(), "cluster": shown})).accepted(call, action))
}

async fn scale(call: &Call, kind: ActionKind, data: &Map<String, Value>) -> Result<Reply, Fault> {
    let mut form = Form::new(data);
    let count = form.count("count")?;
    form.done()?;
    if count == Some(0) {
        return Err(Fault::bad(format!("Count for {} request cannot be 0", sizes::scale_word(kind))));
    }
    let cluster = call.cluster(call.path(0)).await?;
    if let Some(count) = count
        && kind == ActionKind::ClusterScaleOut
    {
        let (limit, present) =
            (call.engine().config().max_nodes_per_cluster, call.present(&cluster, None).await?.1);
        let target = u64::from(present.size) + u64::from(count);
        if target > u64::from(limit) {
            return Err(Fault::bad(format!(
                "The target capacity ({target}) is greater than the maximum number of nodes allowed per cluster ({limit})"
            )));
        }
    }
    may_scale(call, cluster.id, kind).await?;
    let inputs = count.map_or_else(|| json!({}), |count| json!({"count": count}));
    Ok(accepted(call, call.submit(kind, &cluster, inputs).await?))
}

/// Whether no policy rests after the last scaling of this kind.
pub(super) async fn may_scale(call: &Call, cluster: ClusterId, kind: ActionKind) -> Result<(), Fault> {
    let Some(policy) = call.engine().cooling(cluster, kind).await? else { return Ok(()) };
    Err(Fault::conflict(
        "ActionCooldown",
        format!(
            "The {kind} action for cluster {cluster} cannot be processed due to Policy {} cooldown still in progress",
            policy.id
        ),
    ))
}

async fn check(call: &Call, data: Map<String, Value>) -> Result<Reply, Fault> {
    let cluster = call.cluster(call.path(0)).await?;
    Ok(accepted(call, call.submit(ActionKind::ClusterCheck, &cluster, Value::Object(data)).await?))
}

/// What a recovery may be told.
const RECOVERY: [&str; 4] = ["operation", "operation_params", "check", "check_capacity"];

async fn recover(call: &Call, data: &Map<String, Value>) -> Result<Reply, Fault> {
    let cluster = call.cluster(call.path(0)).await?;
    let unknown: Vec<&str> = data.keys().map(String::as_str).filter(|key| !RECOVERY.contains(key)).collect();
    if !unknown.is_empty() {
        return Err(Fault::bad(format!("Action parameter {} is not recognizable", listed(unknown))));
    }
    let mut form = Form::new(data);
    let mut inputs = Map::new();
    if let Some(operation) = form.any("operation") {
        inputs.insert("operation".to_owned(), recovery(operation)?.into());
    }
    if let Some(check) = form.truth("check")? {
        inputs.insert("check".to_owned(), check.into());
    }
    // Nodes are added or removed only if that is asked for.
    let capacity = form.truth("check_capacity")?.unwrap_or(false);
    inputs.insert("check_capacity".to_owned(), capacity.into());
    if let Some(params) = form.map("operation_params")? {
        inputs.insert("operation_params".to_owned(), params.into());
    }
    Ok(accepted(call, call.submit(ActionKind::ClusterRecover, &cluster, Value::Object(inputs)).await?))
}

/// How a node is brought back.
pub(super) fn recovery(given: &Value) -> Result<String, Fault> {
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    let word = shown.to_uppercase();
    if ["REBOOT", "REBUILD", "RECREATE"].contains(&word.as_str()) {
        return Ok(word);
    }
    Err(Fault::bad(format!(
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
    fn one_thing_is_done_at_a_time(#[case] body: Value, #[case] message: &str) {
        let refused = deed(body.as_object().unwrap()).err().unwrap();
        assert_eq!((refused.status.as_u16(), refused.message.as_str()), (400, message));
    }

    #[test]
    fn a_recovery_is_said_in_any_case() {
        assert_eq!(recovery(&json!("reboot")).unwrap(), "REBOOT");
        assert_eq!(
            recovery(&json!("FOO")).unwrap_err().message,
            "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE."
        );
    }
}

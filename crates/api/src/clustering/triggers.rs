//! Webhook triggers: callers without an account change a cluster through a receiver, on behalf of its creator.
//!
//! A trigger is converted to the request that the creator would send, and is validated and authorized like it.

use muster_core::action::ActionKind;
use muster_core::ids::ReceiverId;
use muster_core::principal::{Principal, Role};
use muster_core::receiver::Receiver;
use muster_service::{AccessTarget, Case, Verb};
use serde_json::{Map, Value};

use super::call::ClusteringCall;
use super::cluster_actions::{self, ClusterAction, RECOVERY, RequestedAction};
use super::membership::BindingRequest;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::version::MicroVersion;
use super::{clusters, operations};

/// The version from which the body of a trigger contains the inputs directly, without the key `params`.
const BARE_INPUTS: MicroVersion = MicroVersion(10);

/// The parameter that determines which code nodes run.
const PROFILE: &str = "profile_id";

/// The permission that the receiver's creator needs for a trigger.
const CHANGE: Case = Case::new("trigger", Verb::Change, AccessTarget::Project);

/// Submits the action of a receiver.
pub(super) async fn trigger(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let wire = call
        .query
        .last("V")
        .ok_or_else(|| SenlinError::form("V query parameter is required in webhook trigger URL"))?;
    let given = call.path(0);
    let missing = || SenlinError::missing("receiver", given);
    let id: ReceiverId = given.parse().map_err(|_| missing())?;
    let receiver = call.service().receiver(id).await?.ok_or_else(missing)?;
    let mut body = call.body_or_nothing();
    if wire == "1" && call.version < BARE_INPUTS {
        let params = body.remove("params").and_then(|params| params.as_object().cloned());
        body = params.unwrap_or_default();
    }
    // Use the present roles of the creator: they may have been revoked since the receiver was created.
    let creator = call.resolve(&receiver.principal).await?.ok_or_else(SenlinError::forbidden)?;
    let creator = if names_other_code(&receiver, &body) { without_admin(creator) } else { creator };
    let mut creators = call.in_name_of(creator, &receiver);
    creators.authorize(&CHANGE)?;
    let cluster = receiver.cluster_id.to_string();
    if creators.named_cluster(&cluster).await?.is_none_or(|cluster| cluster.deleted_at.is_some()) {
        return Err(SenlinError::bad(format!("The referenced cluster '{cluster}' could not be found")));
    }
    let (request, known) = request(receiver.action).ok_or_else(|| {
        SenlinError::bad(format!("No receiver can submit the action '{}'", receiver.action))
    })?;
    let submitted = submit(creators, request, inputs(&receiver, known, body)?).await?;
    let action = submitted.action().ok_or_else(SenlinError::forbidden)?;
    Ok(Reply::of("action", action.to_string()).accepted(call, action))
}

/// Returns true if a trigger gives another profile than the receiver, so that its sender determines what nodes run.
fn names_other_code(receiver: &Receiver, given: &Map<String, Value>) -> bool {
    given.get(PROFILE).is_some_and(|profile| receiver.params.get(PROFILE) != Some(profile))
}

/// Reduces a principal to the role of a member: anyone who knows the id of a receiver can trigger it.
fn without_admin(principal: Principal) -> Principal {
    let mut roles = principal.roles;
    if roles.remove(&Role::Admin) {
        roles.insert(Role::Member);
    }
    Principal { roles, ..principal }
}

/// The request that a trigger is converted to.
#[derive(Debug, Clone, Copy)]
enum CreatorsRequest {
    Update,
    Delete,
    Operate,
    Act(ClusterAction),
}

/// Returns the request for an action, and the parameters that the request accepts; none if receivers cannot submit the
/// action.
const fn request(action: ActionKind) -> Option<(CreatorsRequest, &'static [&'static str])> {
    use ClusterAction as Act;
    use CreatorsRequest as Request;
    Some(match action {
        ActionKind::ClusterDelete => (Request::Delete, &["force"]),
        ActionKind::ClusterUpdate => (
            Request::Update,
            &[
                "name",
                PROFILE,
                "profile_only",
                "metadata",
                "timeout",
                "config",
                "desired_capacity",
                "min_size",
                "max_size",
            ],
        ),
        ActionKind::ClusterOperation => (Request::Operate, &["operation", "params", "filters"]),
        ActionKind::ClusterAddNodes => (Request::Act(Act::AddNodes), &["nodes"]),
        ActionKind::ClusterDelNodes => (Request::Act(Act::RemoveNodes), &["nodes", "destroy_after_deletion"]),
        ActionKind::ClusterReplaceNodes => (Request::Act(Act::ReplaceNodes), &["nodes"]),
        ActionKind::ClusterResize => (
            Request::Act(Act::Resize),
            &["adjustment_type", "number", "min_size", "max_size", "min_step", "strict", "group"],
        ),
        ActionKind::ClusterScaleOut => (Request::Act(Act::ScaleOut), &["count"]),
        ActionKind::ClusterScaleIn => (Request::Act(Act::ScaleIn), &["count"]),
        ActionKind::ClusterCheck => (Request::Act(Act::Check), &["delete_check_action"]),
        ActionKind::ClusterRecover => (Request::Act(Act::Recover), &RECOVERY),
        ActionKind::ClusterAttachPolicy => {
            (Request::Act(Act::Policy(BindingRequest::Attach)), &["policy_id", "enabled"])
        }
        ActionKind::ClusterDetachPolicy => {
            (Request::Act(Act::Policy(BindingRequest::Detach)), &["policy_id"])
        }
        ActionKind::ClusterUpdatePolicy => {
            (Request::Act(Act::Policy(BindingRequest::Update)), &["policy_id", "enabled"])
        }
        ActionKind::ClusterCreate
        | ActionKind::NodeCreate
        | ActionKind::NodeDelete
        | ActionKind::NodeUpdate
        | ActionKind::NodeJoin
        | ActionKind::NodeLeave
        | ActionKind::NodeCheck
        | ActionKind::NodeRecover
        | ActionKind::NodeOperation
        | ActionKind::Unknown(_) => return None,
    })
}

/// Returns the parameters of the receiver, overridden by those of the trigger. A trigger may override only parameters
/// that the receiver declares. Keys that are not parameters, such as the description of an alarm, are dropped.
fn inputs(
    receiver: &Receiver,
    known: &[&str],
    given: Map<String, Value>,
) -> Result<Map<String, Value>, SenlinError> {
    let mut inputs = receiver.params.clone();
    for (key, value) in given {
        if inputs.contains_key(&key) {
            inputs.insert(key, value);
        } else if known.contains(&key.as_str()) {
            return Err(SenlinError::bad(format!(
                "The receiver does not declare the parameter '{key}': add it to the receiver's params"
            )));
        }
    }
    inputs.retain(|key, _| known.contains(&key.as_str()));
    Ok(inputs)
}

/// Executes the request on behalf of the creator.
async fn submit(
    mut call: ClusteringCall,
    request: CreatorsRequest,
    mut inputs: Map<String, Value>,
) -> Result<Reply, SenlinError> {
    match request {
        CreatorsRequest::Update => {
            call.replace_body(Map::from_iter([("cluster".to_owned(), Value::Object(inputs))]));
            clusters::update(&call).await
        }
        CreatorsRequest::Delete => {
            call.replace_body(inputs);
            clusters::delete(&call).await
        }
        CreatorsRequest::Operate => {
            let operation = inputs.remove("operation").unwrap_or_default();
            let operation = operation.as_str().ok_or_else(|| SenlinError::form("No operation specified"))?;
            call.replace_body(Map::from_iter([(operation.to_owned(), Value::Object(inputs))]));
            operations::on_cluster(&call).await
        }
        CreatorsRequest::Act(action) => {
            cluster_actions::perform(&call, RequestedAction { action, data: inputs }).await
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::receiver::ReceiverKind;
    use muster_core::sample;
    use muster_core::time::Timestamp;
    use rstest::rstest;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn receiver(params: &Value) -> Receiver {
        Receiver {
            id: ReceiverId::from_uuid(Uuid::nil()),
            name: "r".to_owned(),
            kind: ReceiverKind::Webhook,
            project: "demo".to_owned(),
            principal: sample::principal(),
            cluster_id: sample::cluster(1, 0, None).id,
            action: ActionKind::ClusterScaleOut,
            actor: Map::new(),
            params: map(params),
            created_at: Timestamp::default(),
            updated_at: None,
        }
    }

    #[rstest]
    #[case::its_own(json!({"count": 1}), json!({}), json!({"count": 1}))]
    #[case::another_value(json!({"count": 1}), json!({"count": 3}), json!({"count": 3}))]
    #[case::an_alarm(json!({"count": 1}), json!({"alarm_id": "a", "reason": "r"}), json!({"count": 1}))]
    #[case::declared_and_no_parameter(json!({"colour": "red"}), json!({"colour": "blue"}), json!({}))]
    fn a_trigger_gives_other_values_for_what_is_declared(
        #[case] params: Value,
        #[case] given: Value,
        #[case] expected: Value,
    ) {
        assert_eq!(inputs(&receiver(&params), &["count"], map(&given)), Ok(map(&expected)));
    }

    #[test]
    fn a_parameter_that_is_not_declared_is_refused() {
        let refused = inputs(&receiver(&json!({})), &["count"], map(&json!({"count": 3}))).unwrap_err();
        assert_eq!(
            (refused.status.as_u16(), refused.message.as_str()),
            (400, "The receiver does not declare the parameter 'count': add it to the receiver's params.")
        );
    }
}

//! What every mutation has in common: who asks, whether it was asked before, how long to wait.

use std::str::FromStr as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_core::action::{Action, Milestone};
use muster_core::cluster::Cluster;
use muster_core::principal::{Door, Principal};
use muster_core::time::Span;
use muster_engine::{Caller, SubmitError};
use muster_proto::wkt;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

use super::CoreApi;
use crate::auth::hash;
use crate::error::{ACTION_HEADER, ApiError};

/// The header that may stand for the field `request_id`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How long a mutation waits if it does not say.
const DEFAULT_WAIT: Span = Span::from_secs(30);

/// The longest that a mutation may wait; connections do not live for ever.
const LONGEST_WAIT: Span = Span::from_secs(3600);

/// What a mutation waits for.
pub(super) struct Wait {
    milestone: Milestone,
    pub(super) at_most: Span,
}

impl Wait {
    pub(super) fn parse(wait_for: &str, wait_timeout: Option<wkt::Duration>) -> Result<Self, ApiError> {
        let milestone = match wait_for {
            "" => Milestone::Applied,
            word => {
                Milestone::from_str(word).map_err(|error| ApiError::invalid(format!("wait_for: {error}")))?
            }
        };
        let at_most = match wait_timeout.map(wkt::Duration::micros) {
            None => DEFAULT_WAIT,
            Some(micros) if (0..=LONGEST_WAIT.micros()).contains(&micros) => Span::from_micros(micros),
            Some(micros) => {
                let (given, limit) = (wkt::Duration::from_micros(micros), LONGEST_WAIT.secs());
                return Err(ApiError::invalid(format!(
                    "wait_timeout is {given}: between 0s and {limit}s is possible"
                )));
            }
        };
        Ok(Self { milestone, at_most })
    }

    /// Whether an action has come as far as was asked for. A milestone that is behind it stays reached, whatever became
    /// of the action since: the answer must not depend on who was faster.
    fn check(&self, action: &Action) -> Result<(), ApiError> {
        let Self { milestone, at_most } = self;
        if action.has_reached(*milestone) {
            return Ok(());
        }
        let id = action.id.to_string();
        if action.status.is_final() {
            let refusal = ApiError::impossible(action.status_reason.clone());
            return Err(refusal.word("ActionFailed").about(id));
        }
        let (kind, seconds) = (action.kind, at_most.secs());
        let sentence =
            format!("{kind} has not been {milestone} within {seconds} seconds; it goes on as action {id}");
        Err(ApiError::timed_out(sentence).about(id))
    }
}

/// Who asks, and under which name of their own.
pub(super) fn caller(
    principal: Principal,
    metadata: &MetadataMap,
    request_id: &str,
    method: &str,
    request: &impl Message,
) -> Caller {
    let header = metadata.get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let id = Some(request_id).filter(|id| !id.is_empty()).or(header);
    let digest = || hash(&format!("{method} {}", URL_SAFE_NO_PAD.encode(request.encode_to_vec())));
    Caller {
        principal,
        door: Door::Core,
        reason: String::new(),
        request: id.map(|id| (id.to_owned(), digest())),
    }
}

impl CoreApi {
    /// Waits as asked, and answers with the cluster as it then is.
    pub(super) async fn answer(&self, action: Action, wait: &Wait) -> Result<(Cluster, Action), ApiError> {
        let action = self.engine.wait(action.id, wait.milestone, wait.at_most).await?;
        wait.check(&action)?;
        let id = action.id;
        let missing = || ApiError::not_found("the cluster is not there any more").about(id.to_string());
        let cluster = action.cluster_id.ok_or_else(missing)?;
        let cluster = self.engine.store().cluster(cluster).await?.ok_or_else(missing)?;
        Ok((cluster, action))
    }
}

/// An answer that names the action behind it.
pub(super) fn with_action<T>(message: T, action: &Action) -> Result<Response<T>, Status> {
    let mut response = Response::new(message);
    let id = action.id.to_string().parse();
    response.metadata_mut().insert(ACTION_HEADER, id.map_err(|_| Status::internal("an id is no header"))?);
    Ok(response)
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let sentence = error.to_string();
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::NoProvider(_) => Self::invalid(sentence).word("NoProvider"),
            SubmitError::UnknownType { .. } => Self::invalid(sentence).word("UnknownProfileType"),
            SubmitError::NotSupported(_) => Self::invalid(sentence).word("NotSupported"),
            SubmitError::Invalid(_) => Self::invalid(sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::action::{ActionKind, ActionStatus};
    use muster_core::ids::ClusterId;
    use muster_core::sample;
    use muster_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn answer(milestone: Milestone, status: ActionStatus, applied: bool) -> Result<(), String> {
        let cluster = ClusterId::from_uuid(Uuid::from_u128(1));
        let action = Action {
            status,
            applied_at: applied.then_some(Timestamp::from_micros(1)),
            ..sample::action(2, ActionKind::ClusterResize, cluster)
        };
        Wait { milestone, at_most: DEFAULT_WAIT }.check(&action).map_err(|refusal| refusal.word)
    }

    #[test]
    fn a_milestone_that_was_reached_stays_reached_whatever_comes_after() {
        for status in [ActionStatus::Running, ActionStatus::Failed, ActionStatus::Cancelled] {
            assert_eq!(answer(Milestone::Applied, status, true), Ok(()), "{status}");
        }
        assert_eq!(answer(Milestone::Applied, ActionStatus::Failed, false), Err("ActionFailed".to_owned()));
        assert_eq!(answer(Milestone::Reached, ActionStatus::Failed, true), Err("ActionFailed".to_owned()));
        assert_eq!(
            answer(Milestone::Reached, ActionStatus::Running, true),
            Err("DeadlineExceeded".to_owned())
        );
    }
}

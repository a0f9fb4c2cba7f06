//! What every mutation has in common: who asks, whether it was asked before, how long to wait.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_core::action::{Action, ActionStatus, Milestone};
use muster_core::cluster::Cluster;
use muster_core::principal::Door;
use muster_core::time::Span;
use muster_engine::ports::provider::NO_NAMESPACE;
use muster_engine::{Caller, SubmitError};
use muster_proto::wkt;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

use super::find::optional_word;
use super::{CoreApi, limits};
use crate::access::Access;
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
    pub(super) milestone: Milestone,
    at_most: Span,
}

impl Wait {
    pub(super) fn parse(wait_for: &str, wait_timeout: Option<wkt::Duration>) -> Result<Self, ApiError> {
        let milestone = optional_word("wait_for", wait_for)?.unwrap_or(Milestone::Applied);
        let at_most = match wait_timeout {
            None => DEFAULT_WAIT,
            Some(given) => limits::between("wait_timeout", given, Span::default(), LONGEST_WAIT)?,
        };
        Ok(Self { milestone, at_most })
    }

    /// Whether an action has come as far as was asked for. A milestone that is behind it stays reached, whatever became
    /// of the action since: the answer must not depend on who was faster.
    fn check(&self, action: &Action) -> Result<(), ApiError> {
        if action.has_reached(self.milestone) {
            return Ok(());
        }
        let verb = match action.status {
            ActionStatus::Cancelled => "was cancelled",
            status if status.is_final() => "has failed",
            _ => return Err(not_yet(action, &format!("been {}", self.milestone), self)),
        };
        let refusal = ApiError::impossible(format!("{} {verb}: {}", action.kind, action.status_reason));
        Err(refusal.word("ActionFailed").about(action.id.to_string()))
    }
}

/// What is asked for, without how long to wait for it and under which name: the same request may be sent again with
/// more patience, or with its name in the header.
macro_rules! asked {
    ($request:expr) => {{
        let mut asked = $request.clone();
        asked.wait_for.clear();
        asked.wait_timeout = None;
        asked.request_id.clear();
        asked
    }};
}

pub(super) use asked;

/// Who asks, and under which name of their own.
pub(super) fn caller(
    access: &Access,
    metadata: &MetadataMap,
    request_id: &str,
    method: &str,
    request: &impl Message,
) -> Result<Caller, ApiError> {
    let header = metadata.get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let id = match (request_id, header) {
        ("", header) => header,
        (given, Some(header)) if given != header => {
            return Err(ApiError::invalid(format!(
                "request_id is '{given:.40}' and {IDEMPOTENCY_KEY} '{header:.40}': leave one out"
            )));
        }
        (given, _) => Some(given),
    };
    id.map_or(Ok(()), limits::request_id)?;
    let digest = || hash(&format!("{method} {}", URL_SAFE_NO_PAD.encode(request.encode_to_vec())));
    Ok(Caller {
        principal: access.principal().clone(),
        door: Door::Core,
        reason: String::new(),
        request: id.map(|id| (id.to_owned(), digest())),
    })
}

impl CoreApi {
    /// The answer to a request that came before; nothing if this is its first time.
    pub(super) async fn again(
        &self,
        caller: &Caller,
        wait: &Wait,
    ) -> Result<Option<(Cluster, Action)>, ApiError> {
        match self.engine.replayed(caller).await? {
            Some(action) => self.answer(action, wait).await.map(Some),
            None => Ok(None),
        }
    }

    /// Waits as asked, and answers with the cluster as it then is.
    pub(super) async fn answer(&self, action: Action, wait: &Wait) -> Result<(Cluster, Action), ApiError> {
        let id = action.id;
        let action = self.wait(action, wait).await?;
        wait.check(&action)?;
        let missing = || ApiError::not_found("the cluster is not there any more").about(id.to_string());
        let cluster = action.cluster_id.ok_or_else(missing)?;
        let cluster = self.engine.store().cluster(cluster).await;
        let cluster = cluster.map_err(|error| ApiError::from(error).about(id.to_string()))?;
        Ok((cluster.ok_or_else(missing)?, action))
    }

    /// Waits until an action has ended.
    pub(super) async fn ended(&self, action: Action, wait: Wait) -> Result<Action, ApiError> {
        let wait = Wait { milestone: Milestone::Reached, ..wait };
        let action = self.wait(action, &wait).await?;
        if action.status.is_final() { Ok(action) } else { Err(not_yet(&action, "ended", &wait)) }
    }

    /// Waits until the milestone, the time or the server comes to its end.
    async fn wait(&self, action: Action, wait: &Wait) -> Result<Action, ApiError> {
        let id = action.id;
        if action.has_reached(wait.milestone) || action.status.is_final() {
            return Ok(action);
        }
        let reached = tokio::select! {
            reached = self.engine.wait(id, wait.milestone, wait.at_most) => reached,
            () = self.closing.cancelled() => {
                let sentence = format!(
                    "the server is stopping, and {} has not been {} yet; it goes on as action {id}: \
                     look at that once a server answers again",
                    action.kind, wait.milestone
                );
                return Err(ApiError::unavailable(sentence).word("ServerStopping").about(id.to_string()));
            }
        };
        reached.map_err(|error| ApiError::from(error).about(id.to_string()))
    }
}

/// What was waited for has not come; the action goes on.
fn not_yet(action: &Action, what: &str, wait: &Wait) -> ApiError {
    let (kind, id) = (action.kind, action.id);
    let sentence = if wait.at_most == Span::default() {
        format!("{kind} has not {what} yet, and wait_timeout is 0s; it goes on as action {id}")
    } else {
        format!("{kind} has not {what} within {}; it goes on as action {id}", wait.at_most)
    };
    ApiError::timed_out(sentence).about(id.to_string())
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
            SubmitError::NoNamespace(_) => Self::not_found(sentence).word(NO_NAMESPACE),
            SubmitError::TooLarge(_) => Self::invalid(sentence).word("TooLarge"),
            SubmitError::Missing(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::action::ActionKind;
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
    fn a_namespace_that_is_not_there_is_not_found() {
        let error = ApiError::from(SubmitError::NoNamespace("there is no namespace 'x'".to_owned()));
        assert_eq!((error.status.as_u16(), error.word.as_str()), (404, "NoNamespace"));
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

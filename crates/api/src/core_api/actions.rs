//! The gRPC service of actions.

use muster_core::action::{Action as Row, Milestone};
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_proto::v1alpha2::action_service_server::ActionService;
use muster_proto::v1alpha2::{
    Action, CancelActionRequest, GetActionRequest, ListActionsRequest, ListActionsResponse,
    SignalActionRequest,
};
use muster_proto::wkt;
use muster_service::lists::{ActionQuery, Authorized, PageRequest};
use muster_service::{ActionNames, Caller, MilestoneWait, SignalKind};
use tonic::{Request, Response, async_trait};

use super::clusters::ACTION_SORTS;
use super::find::{optional, optional_id, optional_variant, variant};
use super::mutate::{self, with_action};
use super::pages::{self, page_request};
use super::{CoreApi, GrpcResult, access, convert};
use crate::error::ApiError;

impl CoreApi {
    pub(super) async fn page_of_actions(
        &self,
        query: &Authorized<ActionQuery>,
        page: PageRequest<'_>,
    ) -> Result<ListActionsResponse, ApiError> {
        let page = self.service.list_page(query, page).await?;
        Ok(ListActionsResponse {
            actions: self.shown_actions(page.items).await?,
            next_page_token: page.next_token,
            total_size: pages::total(page.total),
        })
    }

    /// Converts actions, with one query for the names of their clusters and nodes.
    async fn shown_actions(&self, actions: Vec<Row>) -> Result<Vec<Action>, ApiError> {
        let ids: Vec<ActionId> = actions.iter().map(|action| action.id).collect();
        let mut names = self.service.action_names(&ids).await?;
        let shown = |action: Row| {
            let ActionNames { target, cluster } = names.remove(&action.id).unwrap_or_default();
            Action { target_name: target, cluster_name: cluster, ..convert::action(action) }
        };
        Ok(actions.into_iter().map(shown).collect())
    }

    /// Converts an action like `shown_actions`.
    async fn shown_action(&self, action: Row) -> Result<Action, ApiError> {
        Ok(self.shown_actions(vec![action]).await?.pop().unwrap_or_default())
    }

    /// Cancels, suspends or resumes an action, and waits for its end if `wait` is given.
    async fn signal(
        &self,
        action: &Row,
        kind: SignalKind,
        wait: Option<MilestoneWait>,
        caller: &Caller,
    ) -> Result<Row, ApiError> {
        let signalled = self.service.signal(action, kind, Some(caller)).await?;
        match wait {
            Some(wait) => Ok(self.service.wait_for_end(signalled, wait.at_most).await?),
            None => Ok(signalled),
        }
    }
}

/// Reads the wait after a signal. Only a cancellation ends the action, so only a cancellation can be waited for.
fn wait_of(
    kind: SignalKind,
    wait_for: &str,
    wait_timeout: Option<wkt::Duration>,
) -> Result<Option<MilestoneWait>, ApiError> {
    let wait = mutate::wait(wait_for, wait_timeout)?;
    if wait_for.is_empty() || wait.milestone == Milestone::Accepted {
        return Ok(None);
    }
    if kind != SignalKind::Cancel {
        return Err(ApiError::invalid(format!(
            "wait_for is '{wait_for}': must be 'accepted' for a signal that does not end the action"
        )));
    }
    Ok(Some(wait))
}

fn signal(given: &str) -> Result<SignalKind, ApiError> {
    match given.to_ascii_lowercase().as_str() {
        "cancel" => Ok(SignalKind::Cancel),
        "suspend" => Ok(SignalKind::Suspend),
        "resume" => Ok(SignalKind::Resume),
        _ => Err(ApiError::invalid(format!("signal is '{given}': must be cancel, suspend or resume"))),
    }
}

#[async_trait]
impl ActionService for CoreApi {
    async fn get_action(&self, request: Request<GetActionRequest>) -> GrpcResult<Action> {
        let access = access(&request)?;
        let action = self.find_action(&access, &request.into_inner().id).await?;
        Ok(Response::new(self.shown_action(action).await?))
    }

    async fn list_actions(&self, request: Request<ListActionsRequest>) -> GrpcResult<ListActionsResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let statuses = request.state.iter().map(|given| variant("state", given));
        let query = ActionQuery {
            namespace: optional(&request.namespace),
            user: optional(&request.user),
            with_total: request.with_total,
            cluster: optional_id::<ClusterId>("cluster_id", &request.cluster_id)?,
            node: optional_id::<NodeId>("target", &request.target)?,
            parent: optional_id::<ActionId>("parent", &request.parent)?,
            kinds: optional_variant("action", &request.action)?.into_iter().collect(),
            statuses: statuses.collect::<Result<_, _>>()?,
            sort: pages::parse_sort(&request.sort_by, ACTION_SORTS)?,
            ..ActionQuery::default()
        };
        Ok(Response::new(self.page_of_actions(&access.visible(query), page_request!(request)).await?))
    }

    async fn cancel_action(&self, request: Request<CancelActionRequest>) -> GrpcResult<Action> {
        let access = access(&request)?;
        let (metadata, _, request) = request.into_parts();
        let wait = wait_of(SignalKind::Cancel, &request.wait_for, request.wait_timeout)?;
        let asked = mutate::canonical!(request);
        let caller = mutate::caller(&access, &metadata, &request.request_id, "CancelAction", &asked)?;
        let action = self.find_action(&access, &request.id).await?;
        let action = self.signal(&action, SignalKind::Cancel, wait, &caller).await?;
        with_action(self.shown_action(action.clone()).await?, &action)
    }

    async fn signal_action(&self, request: Request<SignalActionRequest>) -> GrpcResult<Action> {
        let access = access(&request)?;
        let (metadata, _, request) = request.into_parts();
        let kind = signal(&request.signal)?;
        let wait = wait_of(kind, &request.wait_for, request.wait_timeout)?;
        let asked = mutate::canonical!(request);
        let caller = mutate::caller(&access, &metadata, &request.request_id, "SignalAction", &asked)?;
        let action = self.find_action(&access, &request.id).await?;
        let action = self.signal(&action, kind, wait, &caller).await?;
        with_action(self.shown_action(action.clone()).await?, &action)
    }
}

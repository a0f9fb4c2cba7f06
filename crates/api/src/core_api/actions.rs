//! The service of actions.

use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_proto::v1alpha2::action_service_server::ActionService;
use muster_proto::v1alpha2::{
    Action, CancelActionRequest, GetActionRequest, ListActionsRequest, ListActionsResponse,
    SignalActionRequest,
};
use muster_store::commands::SignalKind;
use muster_store::reads::ActionQuery;
use tonic::{Request, Response, Status, async_trait};

use super::clusters::ACTION_SORTS;
use super::find::optional_id;
use super::mutate::{Wait, with_action};
use super::{CoreApi, convert, pages, principal};
use crate::access::Verb;
use crate::error::ApiError;

type Answer<T> = Result<Response<T>, Status>;

impl CoreApi {
    pub(super) async fn page_of_actions(
        &self,
        query: ActionQuery,
        page_size: i32,
        page_token: &str,
    ) -> Result<ListActionsResponse, ApiError> {
        let paging = self.paging(page_size, page_token, format!("{query:?}"));
        let query = ActionQuery { after: paging.after()?, limit: paging.limit()?, ..query };
        let page = self.engine.store().actions(&query).await?;
        Ok(ListActionsResponse {
            actions: page.items.into_iter().map(convert::action).collect(),
            next_page_token: paging.next(page.next),
            total_size: pages::total(page.total),
        })
    }
}

fn signal(word: &str) -> Result<SignalKind, ApiError> {
    match word.to_ascii_lowercase().as_str() {
        "cancel" => Ok(SignalKind::Cancel),
        "suspend" => Ok(SignalKind::Suspend),
        "resume" => Ok(SignalKind::Resume),
        _ => Err(ApiError::invalid(format!(
            "'{word}' is no signal: one of cancel, suspend, resume is expected"
        ))),
    }
}

#[async_trait]
impl ActionService for CoreApi {
    async fn get_action(&self, request: Request<GetActionRequest>) -> Answer<Action> {
        let principal = principal(&request)?;
        let action = self.find_action(&principal, Verb::See, &request.into_inner().id).await?;
        let edges = self.engine.store().dependencies(action.id).await.map_err(ApiError::from)?;
        let words = |ids: Vec<ActionId>| ids.iter().map(ToString::to_string).collect();
        let (depends_on, depended_by) = (words(edges.0), words(edges.1));
        Ok(Response::new(Action { depends_on, depended_by, ..convert::action(action) }))
    }

    async fn list_actions(&self, request: Request<ListActionsRequest>) -> Answer<ListActionsResponse> {
        let principal = principal(&request)?;
        let request = request.into_inner();
        // By default a namespace is its project's, so the one filter serves for both.
        let namespace = Some(request.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let project = if principal.is_admin() { namespace } else { Some(principal.project.clone()) };
        let kind = Some(&request.action).filter(|word| !word.is_empty());
        let statuses = request.state.iter().map(|word| word.parse().map_err(ApiError::from));
        let query = ActionQuery {
            project,
            user: Some(request.user.clone()).filter(|user| !user.is_empty()),
            with_total: request.with_total,
            cluster: optional_id::<ClusterId>(&request.cluster_id)?,
            node: optional_id::<NodeId>(&request.target)?,
            parent: optional_id::<ActionId>(&request.parent)?,
            kinds: kind.map(|word| word.parse().map_err(ApiError::from)).transpose()?.into_iter().collect(),
            statuses: statuses.collect::<Result<_, _>>()?,
            sort: pages::parse_sort(&request.sort_by, ACTION_SORTS)?,
            ..ActionQuery::default()
        };
        let answer = self.page_of_actions(query, request.page_size, &request.page_token).await?;
        Ok(Response::new(answer))
    }

    async fn cancel_action(&self, request: Request<CancelActionRequest>) -> Answer<Action> {
        let principal = principal(&request)?;
        let request = request.into_inner();
        let action = self.find_action(&principal, Verb::Change, &request.id).await?;
        let wait =
            (!request.wait_for.is_empty()).then(|| Wait::parse(&request.wait_for, request.wait_timeout));
        let action = self.signal(&action, SignalKind::Cancel, wait.transpose()?).await?;
        with_action(convert::action(action.clone()), &action)
    }

    async fn signal_action(&self, request: Request<SignalActionRequest>) -> Answer<Action> {
        let principal = principal(&request)?;
        let request = request.into_inner();
        let kind = signal(&request.signal)?;
        let action = self.find_action(&principal, Verb::Change, &request.id).await?;
        let wait =
            (!request.wait_for.is_empty()).then(|| Wait::parse(&request.wait_for, request.wait_timeout));
        let action = self.signal(&action, kind, wait.transpose()?).await?;
        with_action(convert::action(action.clone()), &action)
    }
}

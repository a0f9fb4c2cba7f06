//! The service of clusters: extract, authorize, call, convert.

use futures::stream::{BoxStream, StreamExt as _};
use muster_core::action::Action;
use muster_core::change::Change;
use muster_core::cluster::Cluster as Row;
use muster_proto::v1alpha2::cluster_service_server::ClusterService;
use muster_proto::v1alpha2::{
    Cluster, CreateClusterRequest, DeleteClusterRequest, GetClusterRequest, GetEnvironmentRequest,
    GetEnvironmentResponse, GetLogsRequest, ListActionsResponse, ListAllClustersRequest,
    ListAllClustersResponse, ListClusterActionsRequest, ListClustersRequest, ListClustersResponse,
    ListEventsRequest, ListEventsResponse, ListNodesRequest, ListNodesResponse, LogChunk, RestartHeadRequest,
    ScaleClusterRequest, UpdateClusterRequest, WatchClustersRequest, WatchClustersResponse,
};
use muster_proto::wkt::Empty;
use muster_service::{Mutation, Recipe};
use muster_store::Direction;
use muster_store::reads::{
    ActionQuery, ActionSort, ClusterQuery, EventQuery, EventSort, NodeQuery, NodeSort,
};
use tonic::{Request, Response, Status, async_trait};

use super::find::{named, optional, optional_id, optional_word, word};
use super::mutate::{mutation, with_action};
use super::pages::{self, ClusterFilters, Paging};
use super::{CoreApi, access, convert, create, page_scope, update};
use crate::access::Access;
use crate::error::ApiError;

type Answer<T> = Result<Response<T>, Status>;

impl CoreApi {
    async fn list(
        &self,
        access: &Access,
        filters: &ClusterFilters<'_>,
        namespace: Option<String>,
        (page_size, page_token): (i32, &str),
        with_total: bool,
    ) -> Result<(Vec<Cluster>, String, Option<i32>), ApiError> {
        let query = pages::cluster_query(access, filters)?;
        let query = ClusterQuery { namespace, with_total, ..query };
        let scope = page_scope::clusters(&query, filters.sort_by);
        let paging = self.paging(page_size, page_token, scope).await?;
        let query = ClusterQuery { after: paging.after()?, limit: paging.limit()?, ..query };
        let page = self.service.store().clusters(&query).await?;
        let clusters = page.items.into_iter().map(convert::cluster).collect();
        Ok((clusters, paging.next(page.next), pages::total(page.total)))
    }

    pub(super) async fn paging<'r>(
        &'r self,
        page_size: i32,
        page_token: &'r str,
        scope: String,
    ) -> Result<Paging<'r>, ApiError> {
        let (signer, retention) = (self.signer().await?, self.service.retention());
        Ok(Paging { page_size, page_token, scope, now: self.service.now(), retention, signer })
    }
}

/// Events that are shown within a cluster.
const SHOWN_EVENTS: u32 = 10;

/// The filters of a list request, whatever its type.
macro_rules! filters {
    ($request:expr) => {
        ClusterFilters {
            state: &$request.state,
            framework: &$request.framework,
            user: &$request.user,
            label: &$request.label,
            name_prefix: &$request.name_prefix,
            deleted: &$request.deleted,
            sort_by: &$request.sort_by,
        }
    };
}

#[async_trait]
impl ClusterService for CoreApi {
    async fn create_cluster(&self, request: Request<CreateClusterRequest>) -> Answer<Cluster> {
        let (request, mutation) = mutation!(request, "CreateCluster");
        let Mutation { access, caller, .. } = &mutation;
        let create = Box::pin(async {
            let mut given = request.cluster.unwrap_or_default();
            self.resolve_shapes(&mut given)?;
            let namespace = create::namespace(&request.namespace, &given.namespace)?;
            self.service.authorize_namespace(access, &namespace)?;
            let create::New { cluster, profile } = self.new_cluster(access.principal(), namespace, given)?;
            Ok(self.service.create_cluster(caller, cluster, Recipe::New(profile), true).await?)
        });
        changed(self.service.mutate(&mutation, create).await)
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> Answer<Cluster> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let latest = EventQuery {
            cluster: Some(cluster.id),
            sort: vec![(EventSort::At, Direction::Descending)],
            limit: Some(SHOWN_EVENTS),
            ..EventQuery::default()
        };
        let events = self.service.store().events(&latest).await.map_err(ApiError::from)?.items;
        let events = events.into_iter().map(convert::cluster_event).collect();
        Ok(Response::new(Cluster { events, ..convert::cluster(cluster) }))
    }

    async fn list_cluster(&self, request: Request<ListClustersRequest>) -> Answer<ListClustersResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = Some(create::namespace(&request.namespace, "")?);
        let page = (request.page_size, request.page_token.as_str());
        let (clusters, next_page_token, total_size) =
            self.list(&access, &filters!(request), namespace, page, request.with_total).await?;
        Ok(Response::new(ListClustersResponse { clusters, next_page_token, total_size }))
    }

    async fn list_all_clusters(
        &self,
        request: Request<ListAllClustersRequest>,
    ) -> Answer<ListAllClustersResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let page = (request.page_size, request.page_token.as_str());
        let (clusters, next_page_token, total_size) =
            self.list(&access, &filters!(request), None, page, request.with_total).await?;
        Ok(Response::new(ListAllClustersResponse { clusters, next_page_token, total_size }))
    }

    async fn delete_cluster(&self, request: Request<DeleteClusterRequest>) -> Answer<Empty> {
        let (request, mutation) = mutation!(request, "DeleteCluster");
        let Mutation { access, caller, .. } = &mutation;
        let delete = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            Ok(self.service.delete_cluster(caller, &cluster, request.force).await?)
        });
        let deleted: Result<_, ApiError> = self.service.mutate(&mutation, delete).await;
        with_action(Empty {}, &deleted?.1)
    }

    async fn update_cluster(&self, request: Request<UpdateClusterRequest>) -> Answer<Cluster> {
        let (request, mutation) = mutation!(request, "UpdateCluster");
        let Mutation { access, caller, .. } = &mutation;
        let update = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            let mut given = request.cluster.unwrap_or_default();
            self.resolve_shapes(&mut given)?;
            let mask = request.update_mask.unwrap_or_default();
            let profile = self.service.store().profile(cluster.profile_id).await.map_err(ApiError::from)?;
            let properties = profile.map(|profile| profile.properties).unwrap_or_default();
            let max_nodes = self.service.max_nodes();
            let update = update::update(&cluster, &properties, &given, &mask, max_nodes)?;
            if update::changes_recipe(&cluster, &update) {
                self.service.check_local_code(&caller.principal, &cluster.instance)?;
            }
            let change = Change::UpdateCluster(Box::new(update));
            Ok(self.service.change_cluster(caller, &cluster, change).await?)
        });
        changed(self.service.mutate(&mutation, update).await)
    }

    async fn scale_cluster(&self, request: Request<ScaleClusterRequest>) -> Answer<Cluster> {
        let (request, mutation) = mutation!(request, "ScaleCluster");
        let Mutation { access, caller, .. } = &mutation;
        let scale = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            let max_nodes = self.service.max_nodes();
            let scale = update::scale(&cluster, &request.group_name, request.replicas, max_nodes)?;
            Ok(self.service.change_cluster(caller, &cluster, Change::Resize(scale)).await?)
        });
        changed(self.service.mutate(&mutation, scale).await)
    }

    async fn restart_head(&self, request: Request<RestartHeadRequest>) -> Answer<Cluster> {
        let (request, mutation) = mutation!(request, "RestartHead");
        let Mutation { access, caller, .. } = &mutation;
        let restart = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            Ok(self.service.restart_head(caller, &cluster).await?)
        });
        changed(self.service.mutate(&mutation, restart).await)
    }

    async fn list_nodes(&self, request: Request<ListNodesRequest>) -> Answer<ListNodesResponse> {
        const SORTS: &[(&str, NodeSort)] = &[
            ("index", NodeSort::Index),
            ("name", NodeSort::Name),
            ("state", NodeSort::Status),
            ("created_at", NodeSort::InitAt),
        ];
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let statuses = request.state.iter().map(|given| word("state", given));
        let query = NodeQuery {
            cluster: Some(cluster.id),
            group: optional(&request.group_name),
            role: optional_word("role", &request.role)?,
            with_total: request.with_total,
            statuses: statuses.collect::<Result<_, _>>()?,
            sort: pages::parse_sort(&request.sort_by, SORTS)?,
            ..NodeQuery::default()
        };
        let scope = page_scope::nodes(&query, &request.sort_by);
        let paging = self.paging(request.page_size, &request.page_token, scope).await?;
        let query = NodeQuery { after: paging.after()?, limit: paging.limit()?, ..query };
        let page = self.service.store().nodes(&query).await.map_err(ApiError::from)?;
        Ok(Response::new(ListNodesResponse {
            nodes: page.items.into_iter().map(convert::node).collect(),
            next_page_token: paging.next(page.next),
            total_size: pages::total(page.total),
        }))
    }

    async fn list_events(&self, request: Request<ListEventsRequest>) -> Answer<ListEventsResponse> {
        const SORTS: &[(&str, EventSort)] =
            &[("at", EventSort::At), ("level", EventSort::Level), ("reason", EventSort::Reason)];
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find_past(&access, &named!(request)).await?;
        let query = EventQuery {
            cluster: Some(cluster.id),
            action: optional_id("action_id", &request.action_id)?,
            with_total: request.with_total,
            levels: optional_word("level", &request.level)?.into_iter().collect(),
            sort: pages::parse_sort(&request.sort_by, SORTS)?,
            ..EventQuery::default()
        };
        let scope = page_scope::events(&query, &request.sort_by);
        let paging = self.paging(request.page_size, &request.page_token, scope).await?;
        let query = EventQuery { after: paging.after()?, limit: paging.limit()?, ..query };
        let page = self.service.store().events(&query).await.map_err(ApiError::from)?;
        Ok(Response::new(ListEventsResponse {
            events: page.items.into_iter().map(convert::event).collect(),
            next_page_token: paging.next(page.next),
            total_size: pages::total(page.total),
        }))
    }

    async fn list_actions(&self, request: Request<ListClusterActionsRequest>) -> Answer<ListActionsResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find_past(&access, &named!(request)).await?;
        let statuses = request.state.iter().map(|given| word("state", given));
        let query = ActionQuery {
            cluster: Some(cluster.id),
            with_total: request.with_total,
            kinds: optional_word("action", &request.action)?.into_iter().collect(),
            statuses: statuses.collect::<Result<_, _>>()?,
            sort: pages::parse_sort(&request.sort_by, ACTION_SORTS)?,
            ..ActionQuery::default()
        };
        let answer =
            self.page_of_actions(query, &request.sort_by, request.page_size, &request.page_token).await?;
        Ok(Response::new(answer))
    }

    type GetLogsStream = BoxStream<'static, Result<LogChunk, Status>>;

    async fn get_logs(&self, request: Request<GetLogsRequest>) -> Answer<Self::GetLogsStream> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        Ok(Response::new(self.log_chunks(&cluster, &request).await?))
    }

    async fn get_environment(
        &self,
        request: Request<GetEnvironmentRequest>,
    ) -> Answer<GetEnvironmentResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let variables = self.service.environment(&cluster).await.map_err(ApiError::from)?;
        Ok(Response::new(GetEnvironmentResponse { variables }))
    }

    type WatchClustersStream = BoxStream<'static, Result<WatchClustersResponse, Status>>;

    async fn watch_clusters(
        &self,
        request: Request<WatchClustersRequest>,
    ) -> Answer<Self::WatchClustersStream> {
        let access = access(&request)?;
        let stream = self.watch(&access, &request.into_inner()).await?;
        Ok(Response::new(stream.boxed()))
    }
}

/// The answer to a mutation: the cluster as it is now, and the action.
fn changed(changed: Result<(Row, Action), ApiError>) -> Answer<Cluster> {
    let (cluster, action) = changed?;
    with_action(convert::cluster(cluster), &action)
}

pub(super) const ACTION_SORTS: &[(&str, ActionSort)] = &[
    ("created_at", ActionSort::CreatedAt),
    ("name", ActionSort::Kind),
    ("action", ActionSort::Kind),
    ("status", ActionSort::Status),
];

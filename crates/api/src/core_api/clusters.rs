//! The gRPC service of clusters: extracts the request, calls the service layer, and converts the result.

use futures::stream::BoxStream;
use muster_core::action::Action;
use muster_core::change::Change;
use muster_core::cluster::Cluster as Row;
use muster_core::ephemeral::DriverEnd;
use muster_proto::v1alpha2::cluster_service_server::ClusterService;
use muster_proto::v1alpha2::{
    Cluster, CreateClusterRequest, DeleteClusterRequest, GetClusterRequest, GetEnvironmentRequest,
    GetEnvironmentResponse, GetLogsRequest, ListActionsResponse, ListAllClustersRequest,
    ListAllClustersResponse, ListClusterActionsRequest, ListClustersRequest, ListClustersResponse,
    ListEventsRequest, ListEventsResponse, ListNodesRequest, ListNodesResponse, LogChunk, RestartHeadRequest,
    ScaleClusterRequest, UpdateClusterRequest, UpdatePreview, WatchClustersRequest, WatchClustersResponse,
};
use muster_proto::wkt::Empty;
use muster_service::lists::{
    ActionQuery, ActionSort, Authorized, ClusterQuery, Direction, EventQuery, EventSort, NodeQuery, NodeSort,
    PageRequest,
};
use muster_service::{Mutation, Recipe};
use tonic::{Request, Response, Status, async_trait};

use super::external::{shown_cluster, shown_clusters};
use super::find::{named, optional, optional_id, optional_variant, variant};
use super::mutate::{mutation, with_action};
use super::pages::{self, ClusterFilters, page_request};
use super::profiles::ProfileNames;
use super::{CoreApi, GrpcResult, access, convert, create, machines, update};
use crate::access::Access;
use crate::error::ApiError;

impl CoreApi {
    /// Builds the complete cluster of a create request, without storing it. Returns it with the name of its app, and
    /// with true if the cluster is ephemeral.
    async fn requested(
        &self,
        access: &Access,
        request: CreateClusterRequest,
    ) -> Result<(create::New, String, bool), ApiError> {
        let mut given = request.cluster.unwrap_or_default();
        let namespace = create::namespace(&request.namespace, &given.namespace)?;
        self.service.authorize_namespace(access, &namespace)?;
        let names = self.resolve_profile(access, &namespace, &mut given).await?;
        self.configure(&namespace, &request.stored_config, request.config, &mut given).await?;
        let (app, ephemeral) = (given.app.clone(), given.ephemeral);
        Ok((self.resolved_cluster(access, namespace, given, names).await?, app, ephemeral))
    }

    /// Builds a new cluster with the shapes, machines and templates that the request names, without storing it.
    pub(super) async fn resolved_cluster(
        &self,
        access: &Access,
        namespace: String,
        mut given: Cluster,
        names: ProfileNames,
    ) -> Result<create::New, ApiError> {
        if names == ProfileNames::Given {
            self.resolve_properties(&namespace, &mut given).await?;
        }
        self.resolve_shapes(&namespace, &mut given).await?;
        machines::check_provider(&given, &given.provider)?;
        self.resolve_machines(&namespace, &mut given)?;
        self.resolve_templates(&namespace, &mut given).await?;
        self.new_cluster(access.principal(), namespace, given)
    }

    async fn page_of_clusters(
        &self,
        query: &Authorized<ClusterQuery>,
        page: PageRequest<'_>,
    ) -> Result<(Vec<Cluster>, String, Option<i32>), ApiError> {
        let page = self.service.list_page(query, page).await?;
        let unobserved = self.service.unobserved();
        let rows = page.items.into_iter().map(|cluster| unobserved.explain(cluster)).collect();
        let clusters = shown_clusters(&self.service, rows).await?;
        Ok((clusters, page.next_token, pages::total(page.total)))
    }

    /// Converts the result of a mutation: the present cluster as the message, and the action in the metadata.
    async fn changed(&self, changed: Result<(Row, Action), ApiError>) -> GrpcResult<Cluster> {
        let (cluster, action) = changed?;
        let shown = shown_cluster(&self.service, cluster).await.map_err(ApiError::from)?;
        with_action(shown, &action)
    }
}

/// The number of latest events that a cluster is shown with.
const SHOWN_EVENTS: u32 = 10;

/// Collects the filters of a list request, whatever its message type.
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
    async fn create_cluster(&self, request: Request<CreateClusterRequest>) -> GrpcResult<Cluster> {
        let (request, mutation) = mutation!(request, "CreateCluster");
        let Mutation { access, caller, .. } = &mutation;
        if request.validate_only {
            let (create::New { cluster, profile }, _, _) = Box::pin(self.requested(access, request)).await?;
            let valid = Box::pin(self.service.validate_cluster(caller, cluster, Recipe::New(profile)));
            return Ok(Response::new(convert::cluster(valid.await.map_err(ApiError::from)?)));
        }
        let create = Box::pin(async {
            let across_rollouts = request.across_rollouts;
            let (new, app, ephemeral) = self.requested(access, request).await?;
            let create::New { cluster, profile } = new;
            let app =
                self.service.app_of_new_cluster(access, &cluster, &app, ephemeral, across_rollouts).await?;
            let recipe = Recipe::New(profile);
            Ok(match app {
                Some(app) => {
                    self.service.create_cluster_for_app(caller, cluster, recipe, &app, ephemeral).await?
                }
                None => self.service.create_cluster(caller, cluster, recipe, true).await?,
            })
        });
        self.changed(self.service.mutate(&mutation, create).await).await
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> GrpcResult<Cluster> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let latest = EventQuery {
            sort: vec![(EventSort::At, Direction::Descending)],
            limit: Some(SHOWN_EVENTS),
            ..EventQuery::default()
        };
        let latest = Authorized::of_cluster(&cluster, latest);
        let events = self.service.list(&latest).await.map_err(ApiError::from)?;
        let events = events.into_iter().map(convert::cluster_event).collect();
        let cluster = self.service.unobserved().explain(cluster);
        let shown = shown_cluster(&self.service, cluster).await.map_err(ApiError::from)?;
        Ok(Response::new(Cluster { events, ..shown }))
    }

    async fn list_cluster(&self, request: Request<ListClustersRequest>) -> GrpcResult<ListClustersResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = Some(create::namespace(&request.namespace, "")?);
        let with_total = request.with_total;
        let query = ClusterQuery { namespace, with_total, ..pages::cluster_query(&filters!(request))? };
        let (clusters, next_page_token, total_size) =
            self.page_of_clusters(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListClustersResponse { clusters, next_page_token, total_size }))
    }

    async fn list_all_clusters(
        &self,
        request: Request<ListAllClustersRequest>,
    ) -> GrpcResult<ListAllClustersResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let with_total = request.with_total;
        let query = ClusterQuery { with_total, ..pages::cluster_query(&filters!(request))? };
        let (clusters, next_page_token, total_size) =
            self.page_of_clusters(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListAllClustersResponse { clusters, next_page_token, total_size }))
    }

    async fn delete_cluster(&self, request: Request<DeleteClusterRequest>) -> GrpcResult<Empty> {
        let (request, mutation) = mutation!(request, "DeleteCluster");
        let Mutation { access, caller, .. } = &mutation;
        let delete = Box::pin(async {
            let end = driver_end(&request)?;
            let cluster = self.find(access, &named!(request)).await?;
            Ok(match end {
                Some(end) => self.service.delete_cluster_for_app(caller, &cluster, &request.app, end).await?,
                None => self.service.delete_cluster(caller, &cluster, request.force).await?,
            })
        });
        let deleted: Result<_, ApiError> = self.service.mutate(&mutation, delete).await;
        with_action(Empty {}, &deleted?.1)
    }

    async fn update_cluster(&self, request: Request<UpdateClusterRequest>) -> GrpcResult<Cluster> {
        let (request, mutation) = mutation!(request, "UpdateCluster");
        let Mutation { access, caller, .. } = &mutation;
        let update = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            let mut given = request.cluster.unwrap_or_default();
            self.resolve_shapes(&cluster.namespace, &mut given).await?;
            let restart = update::restart(&request.restart)?;
            let present = self.service.after_waiting(&cluster).await?;
            let mask = request.update_mask.unwrap_or_default();
            let mask = self.resolve_images_of_update(access, &present, &mut given, mask).await?;
            let update = update::update(&present, &given, &mask, restart, self.service.max_nodes())?;
            let change = Change::UpdateCluster(Box::new(update));
            Ok(self.service.change_cluster(caller, &cluster, change).await?)
        });
        self.changed(self.service.mutate(&mutation, update).await).await
    }

    async fn preview_update(&self, request: Request<UpdateClusterRequest>) -> GrpcResult<UpdatePreview> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let mut given = request.cluster.unwrap_or_default();
        self.resolve_shapes(&cluster.namespace, &mut given).await?;
        let restart = update::restart(&request.restart)?;
        let present = self.service.after_waiting(&cluster).await.map_err(ApiError::from)?;
        let mask = request.update_mask.unwrap_or_default();
        let mask = self.resolve_images_of_update(&access, &present, &mut given, mask).await?;
        let update = update::update(&present, &given, &mask, restart, self.service.max_nodes())?;
        let preview = self.service.preview_update(&present, update).await.map_err(ApiError::from)?;
        Ok(Response::new(UpdatePreview {
            replaced_nodes: preview.replaced,
            replaces_head: preview.replaces_head,
            outdated_nodes: preview.outdated,
        }))
    }

    async fn scale_cluster(&self, request: Request<ScaleClusterRequest>) -> GrpcResult<Cluster> {
        let (request, mutation) = mutation!(request, "ScaleCluster");
        let Mutation { access, caller, .. } = &mutation;
        let scale = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            let max_nodes = self.service.max_nodes();
            let present = self.service.after_waiting(&cluster).await?;
            let scale = update::scale(&present, &request.group_name, request.replicas, max_nodes)?;
            Ok(self.service.change_cluster(caller, &cluster, Change::Resize(scale)).await?)
        });
        self.changed(self.service.mutate(&mutation, scale).await).await
    }

    async fn restart_head(&self, request: Request<RestartHeadRequest>) -> GrpcResult<Cluster> {
        let (request, mutation) = mutation!(request, "RestartHead");
        let Mutation { access, caller, .. } = &mutation;
        let restart = Box::pin(async {
            let cluster = self.find(access, &named!(request)).await?;
            Ok(self.service.restart_head(caller, &cluster).await?)
        });
        self.changed(self.service.mutate(&mutation, restart).await).await
    }

    async fn list_nodes(&self, request: Request<ListNodesRequest>) -> GrpcResult<ListNodesResponse> {
        const SORTS: &[(&str, NodeSort)] = &[
            ("index", NodeSort::Index),
            ("name", NodeSort::Name),
            ("state", NodeSort::Status),
            ("created_at", NodeSort::InitAt),
        ];
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let statuses = request.state.iter().map(|given| variant("state", given));
        let query = NodeQuery {
            group: optional(&request.group_name),
            role: optional_variant("role", &request.role)?,
            with_total: request.with_total,
            statuses: statuses.collect::<Result<_, _>>()?,
            sort: pages::parse_sort(&request.sort_by, SORTS)?,
            ..NodeQuery::default()
        };
        let query = Authorized::of_cluster(&cluster, query);
        let page = self.service.list_page(&query, page_request!(request)).await.map_err(ApiError::from)?;
        Ok(Response::new(ListNodesResponse {
            nodes: page.items.into_iter().map(convert::node).collect(),
            next_page_token: page.next_token,
            total_size: pages::total(page.total),
        }))
    }

    async fn list_events(&self, request: Request<ListEventsRequest>) -> GrpcResult<ListEventsResponse> {
        const SORTS: &[(&str, EventSort)] =
            &[("at", EventSort::At), ("level", EventSort::Level), ("reason", EventSort::Reason)];
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find_past(&access, &named!(request)).await?;
        let query = EventQuery {
            action: optional_id("action_id", &request.action_id)?,
            with_total: request.with_total,
            levels: optional_variant("level", &request.level)?.into_iter().collect(),
            sort: pages::parse_sort(&request.sort_by, SORTS)?,
            ..EventQuery::default()
        };
        let query = Authorized::of_cluster(&cluster, query);
        let page = self.service.list_page(&query, page_request!(request)).await.map_err(ApiError::from)?;
        Ok(Response::new(ListEventsResponse {
            events: page.items.into_iter().map(convert::event).collect(),
            next_page_token: page.next_token,
            total_size: pages::total(page.total),
        }))
    }

    async fn list_actions(
        &self,
        request: Request<ListClusterActionsRequest>,
    ) -> GrpcResult<ListActionsResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find_past(&access, &named!(request)).await?;
        let statuses = request.state.iter().map(|given| variant("state", given));
        let query = ActionQuery {
            with_total: request.with_total,
            kinds: optional_variant("action", &request.action)?.into_iter().collect(),
            statuses: statuses.collect::<Result<_, _>>()?,
            sort: pages::parse_sort(&request.sort_by, ACTION_SORTS)?,
            ..ActionQuery::default()
        };
        let query = Authorized::of_cluster(&cluster, query);
        Ok(Response::new(self.page_of_actions(&query, page_request!(request)).await?))
    }

    type GetLogsStream = BoxStream<'static, Result<LogChunk, Status>>;

    async fn get_logs(&self, request: Request<GetLogsRequest>) -> GrpcResult<Self::GetLogsStream> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find_past(&access, &named!(request)).await?;
        let open = self.streams.open(access.principal())?;
        Ok(Response::new(open.count(self.log_chunks(&cluster, &request).await?)))
    }

    async fn get_environment(
        &self,
        request: Request<GetEnvironmentRequest>,
    ) -> GrpcResult<GetEnvironmentResponse> {
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
    ) -> GrpcResult<Self::WatchClustersStream> {
        let access = access(&request)?;
        let open = self.streams.open(access.principal())?;
        let stream = self.watch(&access, &request.into_inner()).await?;
        Ok(Response::new(open.count(stream)))
    }
}

/// Reads how the driver ended, if the cluster is deleted because its driver has ended.
fn driver_end(request: &DeleteClusterRequest) -> Result<Option<DriverEnd>, ApiError> {
    if request.app.is_empty() != request.app_status.is_empty() {
        return Err(ApiError::invalid("Both --app and --app-status must be set").code("AppIncomplete"));
    }
    if request.app.is_empty() {
        return match request.exit_code {
            Some(_) => Err(ApiError::invalid(
                "exit_code is given without app and app_status: give both, or leave it out",
            )),
            None => Ok(None),
        };
    }
    if request.force {
        return Err(ApiError::invalid("force is given with app: leave one of them out"));
    }
    let status = request.app_status.parse().map_err(|_| {
        ApiError::invalid("INVALID app-status value, only completed|terminated allowed")
            .code("InvalidAppStatus")
    })?;
    Ok(Some(DriverEnd { status, exit_code: request.exit_code }))
}

pub(super) const ACTION_SORTS: &[(&str, ActionSort)] = &[
    ("created_at", ActionSort::CreatedAt),
    ("name", ActionSort::Kind),
    ("action", ActionSort::Kind),
    ("status", ActionSort::Status),
];

//! Services whose responses repeat the request.

use futures::stream::{self, BoxStream, StreamExt as _};
use muster_api::ApiError;
use muster_api::error::ACTION_HEADER;
use muster_core::principal::Principal;
use muster_proto::v1alpha2::action_service_server::ActionService;
use muster_proto::v1alpha2::admin_service_server::AdminService;
use muster_proto::v1alpha2::cluster_service_server::ClusterService;
use muster_proto::v1alpha2::framework_service_server::FrameworkService;
use muster_proto::v1alpha2::*;
use muster_proto::wkt::Empty;
use tonic::{Request, Response, Status, async_trait};

type GrpcResult<T> = Result<Response<T>, Status>;

pub(crate) struct Fake;

/// Returns the caller. A panic here fails the test, since the connection ends.
fn caller<T>(request: &Request<T>) -> Principal {
    request.extensions().get::<Principal>().cloned().expect("the layer authenticates the caller")
}

fn named(name: String, namespace: String) -> Cluster {
    Cluster { name, namespace, ..Cluster::default() }
}

fn with_action<T>(message: T) -> Response<T> {
    let mut response = Response::new(message);
    response.metadata_mut().insert(ACTION_HEADER, "action-1".parse().unwrap());
    response
}

fn found(name: &str) -> Result<(), ApiError> {
    match name {
        "nothing" => Err(ApiError::not_found("cluster nothing is not there").code("ClusterNotFound")),
        "old" => Err(ApiError::expired("the page token is older than 30 days")),
        "slow" => Err(ApiError::timed_out("it was not reached in 30s").about("action-2")),
        _ => Ok(()),
    }
}

#[async_trait]
impl ClusterService for Fake {
    async fn create_cluster(&self, request: Request<CreateClusterRequest>) -> GrpcResult<Cluster> {
        let owner = caller(&request).as_owner();
        let key = request.metadata().get("idempotency-key").and_then(|value| value.to_str().ok());
        let key = key.unwrap_or_default().to_owned();
        let CreateClusterRequest { cluster, namespace, request_id, .. } = request.into_inner();
        let cluster = cluster.ok_or_else(|| ApiError::invalid("a cluster is needed"))?;
        if cluster.name == "taken" {
            return Err(ApiError::exists("the name taken is taken").code("ClusterNameTaken").into());
        }
        let owner = Some(Owner { scheme: owner.scheme, id: owner.id, name: owner.name });
        Ok(with_action(Cluster { namespace, owner, status_reason: format!("{key}{request_id}"), ..cluster }))
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> GrpcResult<Cluster> {
        let GetClusterRequest { name, namespace, id, .. } = request.into_inner();
        found(&name)?;
        Ok(Response::new(Cluster { id, ..named(name, namespace) }))
    }

    async fn list_cluster(&self, request: Request<ListClustersRequest>) -> GrpcResult<ListClustersResponse> {
        let ListClustersRequest { namespace, label, page_size, with_total, .. } = request.into_inner();
        let clusters = label.into_iter().map(|label| named(label, namespace.clone())).collect();
        let total_size = with_total.then_some(page_size);
        Ok(Response::new(ListClustersResponse { clusters, total_size, ..ListClustersResponse::default() }))
    }

    async fn list_all_clusters(
        &self,
        _: Request<ListAllClustersRequest>,
    ) -> GrpcResult<ListAllClustersResponse> {
        Ok(Response::new(ListAllClustersResponse::default()))
    }

    async fn delete_cluster(&self, request: Request<DeleteClusterRequest>) -> GrpcResult<Empty> {
        found(&request.into_inner().name)?;
        Ok(with_action(Empty {}))
    }

    async fn update_cluster(&self, request: Request<UpdateClusterRequest>) -> GrpcResult<Cluster> {
        let UpdateClusterRequest { cluster, namespace, name, update_mask, .. } = request.into_inner();
        let status_reason = update_mask.unwrap_or_default().paths.join(" ");
        Ok(with_action(Cluster { status_reason, namespace, name, ..cluster.unwrap_or_default() }))
    }

    async fn preview_update(&self, _: Request<UpdateClusterRequest>) -> GrpcResult<UpdatePreview> {
        Ok(Response::new(UpdatePreview::default()))
    }

    async fn scale_cluster(&self, request: Request<ScaleClusterRequest>) -> GrpcResult<Cluster> {
        let ScaleClusterRequest { name, namespace, replicas, .. } = request.into_inner();
        let desired_workers = replicas.ok_or_else(|| ApiError::invalid("replicas is needed"))?;
        Ok(with_action(Cluster { desired_workers, ..named(name, namespace) }))
    }

    async fn restart_head(&self, request: Request<RestartHeadRequest>) -> GrpcResult<Cluster> {
        let RestartHeadRequest { name, namespace, .. } = request.into_inner();
        Ok(with_action(named(name, namespace)))
    }

    async fn list_nodes(&self, _: Request<ListNodesRequest>) -> GrpcResult<ListNodesResponse> {
        Ok(Response::new(ListNodesResponse::default()))
    }

    async fn list_events(&self, _: Request<ListEventsRequest>) -> GrpcResult<ListEventsResponse> {
        Ok(Response::new(ListEventsResponse::default()))
    }

    async fn list_actions(&self, _: Request<ListClusterActionsRequest>) -> GrpcResult<ListActionsResponse> {
        Ok(Response::new(ListActionsResponse::default()))
    }

    type GetLogsStream = BoxStream<'static, Result<LogChunk, Status>>;

    async fn get_logs(&self, request: Request<GetLogsRequest>) -> GrpcResult<Self::GetLogsStream> {
        let GetLogsRequest { node, follow, tail, .. } = request.into_inner();
        let text = format!("follow {follow} tail {tail:?}");
        Ok(Response::new(stream::iter([Ok(LogChunk { node, text, ..LogChunk::default() })]).boxed()))
    }

    async fn get_environment(&self, _: Request<GetEnvironmentRequest>) -> GrpcResult<GetEnvironmentResponse> {
        Ok(Response::new(GetEnvironmentResponse::default()))
    }

    type WatchClustersStream = BoxStream<'static, Result<WatchClustersResponse, Status>>;

    async fn watch_clusters(
        &self,
        request: Request<WatchClustersRequest>,
    ) -> GrpcResult<Self::WatchClustersStream> {
        let WatchClustersRequest { namespace, name_prefix, .. } = request.into_inner();
        found(&name_prefix)?;
        let change = |kind: &str| {
            let cluster = Some(named("c".to_owned(), namespace.clone()));
            Ok(WatchClustersResponse { r#type: kind.to_owned(), cluster, ..WatchClustersResponse::default() })
        };
        let end = Err(ApiError::unavailable("the database is gone").into());
        Ok(Response::new(stream::iter([change("ADDED"), change("DELETED"), end]).boxed()))
    }
}

#[async_trait]
impl ActionService for Fake {
    async fn get_action(&self, request: Request<GetActionRequest>) -> GrpcResult<Action> {
        Ok(Response::new(Action { id: request.into_inner().id, ..Action::default() }))
    }

    async fn list_actions(&self, _: Request<ListActionsRequest>) -> GrpcResult<ListActionsResponse> {
        Ok(Response::new(ListActionsResponse::default()))
    }

    async fn cancel_action(&self, request: Request<CancelActionRequest>) -> GrpcResult<Action> {
        Ok(with_action(Action { id: request.into_inner().id, ..Action::default() }))
    }

    async fn signal_action(&self, request: Request<SignalActionRequest>) -> GrpcResult<Action> {
        Ok(with_action(Action { id: request.into_inner().id, ..Action::default() }))
    }
}

#[async_trait]
impl FrameworkService for Fake {
    async fn list_frameworks(&self, _: Request<ListFrameworksRequest>) -> GrpcResult<ListFrameworksResponse> {
        Ok(Response::new(ListFrameworksResponse::default()))
    }

    type InstallFrameworkStream = BoxStream<'static, Result<InstallFrameworkResponse, Status>>;

    async fn install_framework(
        &self,
        request: Request<InstallFrameworkRequest>,
    ) -> GrpcResult<Self::InstallFrameworkStream> {
        let name = request.into_inner().name;
        let doing = InstallFrameworkResponse {
            progress: format!("installing {name}"),
            ..InstallFrameworkResponse::default()
        };
        let framework = Some(Framework { name, usable: true, ..Framework::default() });
        let done = InstallFrameworkResponse { framework, ..InstallFrameworkResponse::default() };
        Ok(Response::new(stream::iter([Ok(doing), Ok(done)]).boxed()))
    }

    type UpgradeFrameworkStream = BoxStream<'static, Result<InstallFrameworkResponse, Status>>;

    async fn upgrade_framework(
        &self,
        _: Request<UpgradeFrameworkRequest>,
    ) -> GrpcResult<Self::UpgradeFrameworkStream> {
        Ok(Response::new(stream::iter([Ok(InstallFrameworkResponse::default())]).boxed()))
    }

    async fn remove_framework(&self, _: Request<RemoveFrameworkRequest>) -> GrpcResult<Empty> {
        Ok(Response::new(Empty {}))
    }
}

#[async_trait]
impl AdminService for Fake {
    async fn info(&self, _: Request<InfoRequest>) -> GrpcResult<InfoResponse> {
        Ok(Response::new(InfoResponse::default()))
    }

    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> GrpcResult<WhoAmIResponse> {
        let Principal { scheme, id, name, project, roles } = caller(&request);
        let roles = roles.iter().map(ToString::to_string).collect();
        Ok(Response::new(WhoAmIResponse { scheme, id, name, project, roles, namespace: String::new() }))
    }

    async fn list_shapes(&self, _: Request<ListShapesRequest>) -> GrpcResult<ListShapesResponse> {
        Ok(Response::new(ListShapesResponse::default()))
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> GrpcResult<Empty> {
        Ok(Response::new(Empty {}))
    }
}

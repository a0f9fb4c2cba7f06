//! The gRPC service of the server itself.

use muster_proto::v1alpha2::admin_service_server::AdminService;
use muster_proto::v1alpha2::{
    InfoRequest, InfoResponse, ListShapesRequest, ListShapesResponse, ShutdownRequest, WhoAmIRequest,
    WhoAmIResponse,
};
use muster_proto::wkt::{Empty, Timestamp};
use tonic::{Request, Response, async_trait};

use super::{CoreApi, GrpcResult, access, shapes};

#[async_trait]
impl AdminService for CoreApi {
    async fn info(&self, request: Request<InfoRequest>) -> GrpcResult<InfoResponse> {
        access(&request)?;
        let database = self.service.database();
        Ok(Response::new(InfoResponse {
            version: self.info.version.clone(),
            server_id: self.info.server_id.clone(),
            started_at: Some(Timestamp::from_micros(self.info.started_at.micros())),
            dev: self.info.dev,
            database: database.kind.to_owned(),
            schema_version: i32::try_from(database.schema_version).unwrap_or(i32::MAX),
            instances: self.service.instances().iter().map(ToString::to_string).collect(),
            auth_schemes: self.info.auth_schemes.clone(),
        }))
    }

    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> GrpcResult<WhoAmIResponse> {
        let principal = access(&request)?.principal().clone();
        Ok(Response::new(WhoAmIResponse {
            roles: principal.roles.iter().map(|role| role.as_str().to_owned()).collect(),
            namespace: self.service.namespace_of(&principal.project).unwrap_or_default().to_owned(),
            scheme: principal.scheme,
            id: principal.id,
            name: principal.name,
            project: principal.project,
        }))
    }

    async fn list_shapes(&self, request: Request<ListShapesRequest>) -> GrpcResult<ListShapesResponse> {
        access(&request)?;
        let shapes = self.service.shapes().iter().map(shapes::named).collect();
        Ok(Response::new(ListShapesResponse { shapes, machines: self.machines() }))
    }

    async fn shutdown(&self, request: Request<ShutdownRequest>) -> GrpcResult<Empty> {
        // The authorization middleware lets only admins call this method.
        tracing::info!(by = %access(&request)?.principal().name, "asked to stop");
        self.shutdown.cancel();
        Ok(Response::new(Empty {}))
    }
}

//! The core API: clusters, their actions, and the server itself, over gRPC and REST.

mod actions;
mod admin;
mod apps;
mod clusters;
mod compute_templates;
mod config;
mod convert;
mod create;
mod external;
mod find;
mod frameworks;
mod image_templates;
mod jobs;
mod limits;
mod logs;
mod machines;
mod mutate;
mod pages;
mod pods;
mod profiles;
mod recipe;
mod shapes;
mod sizes;
mod update;
mod usage;
mod v1;
mod watch;

use std::sync::Arc;

use muster_core::time::Timestamp;
use muster_proto::rest::{self, Endpoint};
use muster_proto::v1::cluster_service_server::ClusterServiceServer as V1ClusterServiceServer;
use muster_proto::v1::compute_template_service_server::ComputeTemplateServiceServer as V1ComputeTemplateServiceServer;
use muster_proto::v1alpha2::action_service_server::ActionServiceServer;
use muster_proto::v1alpha2::admin_service_server::AdminServiceServer;
use muster_proto::v1alpha2::app_service_server::AppServiceServer;
use muster_proto::v1alpha2::cluster_service_server::ClusterServiceServer;
use muster_proto::v1alpha2::compute_template_service_server::ComputeTemplateServiceServer;
use muster_proto::v1alpha2::framework_service_server::FrameworkServiceServer;
use muster_proto::v1alpha2::image_template_service_server::ImageTemplateServiceServer;
use muster_proto::v1alpha2::job_service_server::JobServiceServer;
use muster_proto::v1alpha2::machine_service_server::MachineServiceServer;
use muster_proto::v1alpha2::usage_service_server::UsageServiceServer;
use muster_service::Service;
use muster_service::ports::frameworks::Frameworks;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::access::Access;
use crate::error::ApiError;
use crate::streams::StreamLimit;

/// The answer of a method.
type GrpcResult<T> = Result<Response<T>, Status>;

/// Facts about the server that it reports to clients.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The version and commit of the server.
    pub version: String,
    /// The id of the server, which changes at every start.
    pub server_id: String,
    /// The time when the server started.
    pub started_at: Timestamp,
    /// True if the server runs with `--dev`.
    pub dev: bool,
    /// The authentication schemes.
    pub auth_schemes: Vec<String>,
}

/// The core API over the service layer. Handles are cheap to clone.
#[derive(Clone)]
pub struct CoreApi {
    service: Service,
    info: Arc<ServerInfo>,
    shutdown: CancellationToken,
    /// The frameworks that local processes can run; none on a server without local processes.
    frameworks: Option<Arc<dyn Frameworks>>,
    streams: StreamLimit,
}

impl CoreApi {
    /// Creates the API over the service layer; `shutdown` is cancelled when an admin stops the server.
    pub fn new(service: Service, info: ServerInfo, shutdown: CancellationToken) -> Self {
        Self { service, info: Arc::new(info), shutdown, frameworks: None, streams: StreamLimit::default() }
    }

    /// Adds the frameworks that local processes can run.
    #[must_use]
    pub fn with_frameworks(self, frameworks: Arc<dyn Frameworks>) -> Self {
        Self { frameworks: Some(frameworks), ..self }
    }

    /// Ends requests that wait for a milestone, and watches. The actions continue.
    pub fn close(&self) {
        self.service.close();
    }

    /// Returns the gRPC services.
    pub fn grpc(&self) -> tonic::service::Routes {
        tonic::service::Routes::new(ClusterServiceServer::new(self.clone()))
            .add_service(ActionServiceServer::new(self.clone()))
            .add_service(AppServiceServer::new(self.clone()))
            .add_service(ComputeTemplateServiceServer::new(self.clone()))
            .add_service(FrameworkServiceServer::new(self.clone()))
            .add_service(ImageTemplateServiceServer::new(self.clone()))
            .add_service(JobServiceServer::new(self.clone()))
            .add_service(MachineServiceServer::new(self.clone()))
            .add_service(UsageServiceServer::new(self.clone()))
            .add_service(V1ClusterServiceServer::new(self.clone()))
            .add_service(V1ComputeTemplateServiceServer::new(self.clone()))
            .add_service(AdminServiceServer::new(self.clone()))
    }

    /// Returns the REST endpoints.
    pub fn rest(&self) -> Vec<Endpoint> {
        let service = Arc::new(self.clone());
        let mut endpoints = rest::v1alpha2::cluster_service(&service);
        endpoints.extend(rest::v1alpha2::action_service(&service));
        endpoints.extend(rest::v1alpha2::app_service(&service));
        endpoints.extend(rest::v1alpha2::compute_template_service(&service));
        endpoints.extend(rest::v1alpha2::framework_service(&service));
        endpoints.extend(rest::v1alpha2::image_template_service(&service));
        endpoints.extend(rest::v1alpha2::job_service(&service));
        endpoints.extend(rest::v1alpha2::machine_service(&service));
        endpoints.extend(rest::v1alpha2::usage_service(&service));
        endpoints.extend(rest::v1alpha2::admin_service(&service));
        endpoints.extend(rest::v1::cluster_service(&service));
        endpoints.extend(rest::v1::compute_template_service(&service));
        endpoints
    }
}

/// Returns the access of the caller, which the authorization middleware has inserted into the request.
fn access<T>(request: &Request<T>) -> Result<Access, Status> {
    let access = request.extensions().get::<Access>().cloned();
    access.ok_or_else(|| ApiError::unauthenticated("this request has no credentials").into())
}

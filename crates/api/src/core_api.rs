//! The core API: clusters, their actions, and the server itself, over gRPC and REST.

mod actions;
mod admin;
mod clusters;
mod convert;
mod create;
mod find;
mod frameworks;
mod inquire;
mod limits;
mod mutate;
mod pages;
mod pods;
mod recipe;
mod shapes;
mod update;
mod watch;

use std::sync::Arc;

use muster_core::shape::NamedShape;
use muster_core::time::Timestamp;
use muster_proto::rest::Endpoint;
use muster_proto::v1alpha2::action_service_server::ActionServiceServer;
use muster_proto::v1alpha2::admin_service_server::AdminServiceServer;
use muster_proto::v1alpha2::cluster_service_server::ClusterServiceServer;
use muster_proto::v1alpha2::framework_service_server::FrameworkServiceServer;
use muster_service::ports::frameworks::Frameworks;
use muster_service::{Service, Settings};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use crate::access::Access;
use crate::auth::LOCAL_SCHEME;
use crate::error::ApiError;

/// What the server says of itself.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// Its version and commit.
    pub version: String,
    /// Its id, new with every start.
    pub server_id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// Whether it is loosened for development.
    pub dev: bool,
    /// The schemes that vouch for callers.
    pub auth_schemes: Vec<String>,
}

impl ServerInfo {
    /// What the use cases need to know of it.
    pub fn settings(&self) -> Settings {
        let own_user_only = self.auth_schemes.iter().all(|scheme| scheme == LOCAL_SCHEME);
        Settings { dev: self.dev, own_user_only }
    }
}

/// The core API over the use cases. Handles are cheap to clone.
#[derive(Clone)]
pub struct CoreApi {
    service: Service,
    info: Arc<ServerInfo>,
    shutdown: CancellationToken,
    /// What local processes can run; nothing where there are none.
    frameworks: Option<Arc<dyn Frameworks>>,
    /// What nodes can be given by name.
    shapes: Arc<[NamedShape]>,
}

impl CoreApi {
    /// The API over the use cases; `shutdown` is cancelled when an admin asks the server to stop.
    pub fn new(service: Service, info: ServerInfo, shutdown: CancellationToken) -> Self {
        Self { service, info: Arc::new(info), shutdown, frameworks: None, shapes: Arc::default() }
    }

    /// The same, with the frameworks that local processes can run.
    #[must_use]
    pub fn with_frameworks(self, frameworks: Arc<dyn Frameworks>) -> Self {
        Self { frameworks: Some(frameworks), ..self }
    }

    /// The same, with shapes that nodes can be given by name.
    #[must_use]
    pub fn with_shapes(self, shapes: Vec<NamedShape>) -> Self {
        Self { shapes: shapes.into(), ..self }
    }

    /// Ends what waits: requests for their milestones, and watches. The actions that they wait for go on.
    pub fn close(&self) {
        self.service.close();
    }

    /// The services for gRPC.
    pub fn grpc(&self) -> tonic::service::Routes {
        tonic::service::Routes::new(ClusterServiceServer::new(self.clone()))
            .add_service(ActionServiceServer::new(self.clone()))
            .add_service(FrameworkServiceServer::new(self.clone()))
            .add_service(AdminServiceServer::new(self.clone()))
    }

    /// The services for REST.
    pub fn rest(&self) -> Vec<Endpoint> {
        let service = Arc::new(self.clone());
        let mut endpoints = muster_proto::rest::cluster_service(&service);
        endpoints.extend(muster_proto::rest::action_service(&service));
        endpoints.extend(muster_proto::rest::framework_service(&service));
        endpoints.extend(muster_proto::rest::admin_service(&service));
        endpoints
    }
}

/// Who is calling, and what the method needs; the doors have said so.
fn access<T>(request: &Request<T>) -> Result<Access, Status> {
    let access = request.extensions().get::<Access>().cloned();
    access.ok_or_else(|| ApiError::unauthenticated("nobody vouches for this request").into())
}

//! `grpc.health.v1` and reflection, as gRPC tools expect them.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_proto::descriptor::{FILE_DESCRIPTOR_SET, POOL};
use muster_service::Service;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::probes::PATIENCE;

/// The service name that stands for the whole server.
const WHOLE_SERVER: &str = "";

/// How often the status is evaluated for a client that watches it.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Adds health and both versions of reflection: older clients use v1alpha.
pub(crate) fn add_to(routes: Routes, service: Service) -> Routes {
    let mut routes = routes.add_service(HealthServer::new(Readiness::new(service)));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (reflection().build_v1(), reflection().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes = routes.add_service(v1).add_service(v1alpha),
        // The descriptors are built with this crate. Without reflection only tools would miss something.
        (Err(error), _) | (_, Err(error)) => tracing::error!(%error, "no reflection"),
    }
    routes
}

/// Every service is served for as long as the server is ready, as `/readyz` says.
#[derive(Clone)]
struct Readiness {
    service: Service,
    names: HashSet<String>,
}

impl Readiness {
    fn new(service: Service) -> Self {
        let served = POOL.services().map(|service| service.full_name().to_owned());
        Self { service, names: served.chain([WHOLE_SERVER.to_owned()]).collect() }
    }

    async fn status(&self) -> ServingStatus {
        match self.service.readiness(PATIENCE).await {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
        }
    }
}

#[tonic::async_trait]
impl Health for Readiness {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = request.into_inner().service;
        if !self.names.contains(&name) {
            return Err(Status::not_found(format!("there is no service '{name}'")));
        }
        Ok(Response::new(response(self.status().await)))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !self.names.contains(&request.into_inner().service) {
            // A service that is not there yet may come later: the protocol asks for an answer and an open stream.
            let unknown = Ok(response(ServingStatus::ServiceUnknown));
            return Ok(Response::new(stream::iter([unknown]).chain(stream::pending()).boxed()));
        }
        let changes = stream::unfold((self.clone(), None), |(health, last)| async move {
            let mut status = health.status().await;
            while last == Some(status) {
                tokio::time::sleep(WATCH_PERIOD).await;
                status = health.status().await;
            }
            Some((Ok(response(status)), (health, Some(status))))
        });
        Ok(Response::new(changes.boxed()))
    }
}

const fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

//! The gRPC services for health (`grpc.health.v1`) and reflection.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_proto::descriptor::{FILE_DESCRIPTOR_SET, POOL};
use tokio::sync::Semaphore;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::error::ApiError;
use crate::readiness::Readiness;

/// The service name that stands for the whole server.
const WHOLE_SERVER: &str = "";

/// The most open watches. They need no authentication, and each occupies memory until its client closes it.
const MOST_WATCHES: usize = 1_000;

/// Adds health and both versions of reflection, since older clients use v1alpha.
pub(crate) fn add_to(routes: Routes, readiness: Readiness) -> Routes {
    let mut routes = routes.add_service(HealthServer::new(HealthService::new(readiness)));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (reflection().build_v1(), reflection().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes = routes.add_service(v1).add_service(v1alpha),
        // The descriptors are built with this crate, so this does not fail. The server works without reflection.
        (Err(error), _) | (_, Err(error)) => tracing::error!(%error, "no reflection"),
    }
    routes
}

/// Reports every service as serving while the server is ready, like `/readyz`.
struct HealthService {
    readiness: Readiness,
    names: HashSet<String>,
    /// One permit for each watch that may still be opened.
    watches: Arc<Semaphore>,
}

impl HealthService {
    fn new(readiness: Readiness) -> Self {
        let served = POOL.services().map(|service| service.full_name().to_owned());
        let names = served.chain([WHOLE_SERVER.to_owned()]).collect();
        Self { readiness, names, watches: Arc::new(Semaphore::new(MOST_WATCHES)) }
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = request.into_inner().service;
        if !self.names.contains(&name) {
            return Err(Status::not_found(format!("service '{name}' not found")));
        }
        Ok(Response::new(response(serving(self.readiness.observe().await.is_ok()))))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let permit = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            let message = format!(
                "{MOST_WATCHES} watches of health are open, which is the limit: use Check, or try again later"
            );
            ApiError::too_many(message).code("TooManyStreams")
        })?;
        let statuses = if self.names.contains(&request.into_inner().service) {
            self.statuses()
        } else {
            // The protocol requires a response and an open stream, since an unknown service may be added later.
            stream::iter([ServingStatus::ServiceUnknown]).chain(stream::pending()).boxed()
        };
        Ok(Response::new(
            statuses
                .map(move |status| {
                    let _counts = &permit;
                    Ok(response(status))
                })
                .boxed(),
        ))
    }
}

impl HealthService {
    /// Returns the present status, and then its changes.
    fn statuses(&self) -> BoxStream<'static, ServingStatus> {
        let changes = (self.readiness.watch(), None);
        stream::unfold(changes, |(mut readiness, last)| async move {
            let is_news = |now: &Option<bool>| now.is_some() && *now != last;
            let is_ready = readiness.wait_for(is_news).await.ok()?.unwrap_or_default();
            Some((serving(is_ready), (readiness, Some(is_ready))))
        })
        .boxed()
    }
}

const fn serving(is_ready: bool) -> ServingStatus {
    if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing }
}

const fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    #[tokio::test(start_paused = true)]
    async fn watches_of_health_are_refused_beyond_a_limit_and_closed_ones_make_room() {
        let health = HealthService::new(Readiness::simulated());
        let mut open = Vec::new();
        for place in 0..MOST_WATCHES {
            let name = if place % 2 == 0 { WHOLE_SERVER } else { "unknown" };
            open.push(health.watch(watch(name)).await.expect("a watch").into_inner());
        }
        let refused = health.watch(watch(WHOLE_SERVER)).await.map(drop).expect_err("one too many");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("use Check"), "{refused}");
        open.pop();
        let mut watch = health.watch(watch(WHOLE_SERVER)).await.expect("a watch").into_inner();
        assert_eq!(watch.next().await.expect("a status").unwrap(), response(ServingStatus::Serving));
    }
}

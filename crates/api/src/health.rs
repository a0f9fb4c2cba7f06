//! `grpc.health.v1` and reflection, as gRPC tools expect them.

use muster_proto::descriptor::{FILE_DESCRIPTOR_SET, POOL};
use tonic::service::Routes;

/// The service name that stands for the whole server.
const WHOLE_SERVER: &str = "";

/// Adds health and both versions of reflection: older clients use v1alpha.
pub(crate) async fn add_to(routes: Routes) -> Routes {
    let (reporter, health) = tonic_health::server::health_reporter();
    // A service is healthy for as long as it is served.
    let services = POOL.services().map(|service| service.full_name().to_owned());
    for service in services.chain([WHOLE_SERVER.to_owned()]) {
        reporter.set_service_status(service, tonic_health::ServingStatus::Serving).await;
    }
    let mut routes = routes.add_service(health);
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

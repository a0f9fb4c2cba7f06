//! `grpc.health.v1` and reflection, as gRPC tools expect them.

use muster_proto::descriptor::{FILE_DESCRIPTOR_SET, POOL};
use tonic::service::Routes;

/// The name by which a client asks for the server as a whole.
const WHOLE_SERVER: &str = "";

/// Adds health and both versions of reflection: older clients ask for the second.
pub(crate) async fn add_to(routes: Routes) -> Routes {
    let (reporter, health) = tonic_health::server::health_reporter();
    // Our services are healthy while they are served at all.
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
        // The descriptors are built with this crate; tools would miss reflection, clients nothing.
        (Err(error), _) | (_, Err(error)) => tracing::error!(%error, "no reflection"),
    }
    routes
}

//! `grpc.health.v1` and reflection, as gRPC tools expect them.

use muster_proto::FILE_DESCRIPTOR_SET;
use tonic::service::Routes;

/// The package whose services are healthy while they are served at all.
const SERVICES: &[&str] = &[
    "",
    "muster.v1alpha2.ClusterService",
    "muster.v1alpha2.ActionService",
    "muster.v1alpha2.FrameworkService",
    "muster.v1alpha2.AdminService",
];

/// Adds health and both versions of reflection: older clients ask for the second.
pub(crate) async fn add_to(routes: Routes) -> Routes {
    let (reporter, health) = tonic_health::server::health_reporter();
    for service in SERVICES {
        reporter.set_service_status(*service, tonic_health::ServingStatus::Serving).await;
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

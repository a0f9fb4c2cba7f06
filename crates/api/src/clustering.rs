//! The clustering API: clusters, nodes, profiles, policies, actions, events and receivers, for existing clients of the
//! OpenStack clustering service (Senlin).

mod actions;
mod adoption;
mod attributes;
mod call;
mod cluster_actions;
mod clusters;
mod events;
mod field_reader;
mod find;
mod membership;
mod node_changes;
mod nodes;
mod operations;
mod policies;
mod policy_types;
mod profile_types;
mod profiles;
mod query;
mod receivers;
mod reply;
mod routes;
mod senlin_error;
mod service;
mod show;
mod sizes;
mod triggers;
mod version;
mod versions;

use axum::extract::Request;
use http::HeaderName;
use muster_service::Service;

use self::senlin_error::SenlinError;
use crate::access_log::RequestIdAlias;
use crate::auth::Authenticators;
use crate::error::ErrorRenderer;
use crate::serve::PublicRoute;

pub(crate) use call::base;
pub use routes::CASES;

/// The path of the API.
pub(crate) const ROOT: &str = "/clustering";

/// The path of its resources.
pub(crate) const V1: &str = "/clustering/v1";

/// The clustering API over the use cases. Handles are cheap to clone.
#[derive(Clone)]
pub struct Clustering {
    service: Service,
    /// The schemes that know the creators of receivers.
    authenticators: Authenticators,
    /// Whether clients connect with TLS.
    tls: bool,
}

impl Clustering {
    /// The API over the use cases.
    pub const fn new(service: Service, authenticators: Authenticators, tls: bool) -> Self {
        Self { service, authenticators, tls }
    }
}

/// Whether a path belongs to this API.
fn owns_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The header of the request id that clients of OpenStack services read.
const OPENSTACK_REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Marks requests of this API with its error renderer, with whether the route is public, and with the header in which
/// clients of OpenStack services look for the request id.
pub(crate) fn mark(request: &mut Request) {
    let path = request.uri().path();
    if !owns_path(path) {
        return;
    }
    if routes::is_public(path) {
        request.extensions_mut().insert(PublicRoute);
    }
    let extensions = request.extensions_mut();
    extensions.insert(ErrorRenderer(|error| SenlinError::from(error).response()));
    extensions.insert(RequestIdAlias { header: OPENSTACK_REQUEST_ID, prefix: "req-" });
}

//! The clustering API: clusters, nodes, profiles, policies, actions, events and receivers, compatible with existing
//! clients of the OpenStack clustering service (Senlin).

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
use crate::access_log::{LoggedPath, RequestIdAlias};
use crate::auth::Authenticators;
use crate::error::ErrorRenderer;
use crate::serve::PublicRoute;

pub(crate) use call::base;
pub use routes::CASES;

/// The path of the API.
pub(crate) const ROOT: &str = "/clustering";

/// The path of the resources of the API.
pub(crate) const V1: &str = "/clustering/v1";

/// The state of the clustering API. Handles are cheap to clone.
#[derive(Clone)]
pub struct Clustering {
    service: Service,
    /// The schemes that authenticated the creators of receivers.
    authenticators: Authenticators,
    /// True if clients connect with TLS.
    tls: bool,
}

impl Clustering {
    /// Creates the API. `tls` is true if clients connect with TLS.
    pub const fn new(service: Service, authenticators: Authenticators, tls: bool) -> Self {
        Self { service, authenticators, tls }
    }
}

/// Returns true if a path belongs to this API.
fn owns_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the path of a webhook without its id: the id is a secret, since anyone who knows it can trigger the webhook.
fn path_without_webhook_id(path: &str) -> Option<String> {
    const WEBHOOKS: &str = "/v1/webhooks/";
    let rest = path.strip_prefix(ROOT)?.strip_prefix(WEBHOOKS)?;
    let after = rest.split_once('/').map_or("", |(_, after)| after);
    Some(format!("{ROOT}{WEBHOOKS}…/{after}"))
}

/// The header of the request id that clients of OpenStack services read.
const OPENSTACK_REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Marks requests of this API with its error renderer, with [`PublicRoute`] if the route is public, and with the header
/// in which clients of OpenStack services look for the request id.
pub(crate) fn mark(request: &mut Request) {
    let path = request.uri().path();
    if !owns_path(path) {
        return;
    }
    let (is_public, without_secrets) = (routes::is_public(path), path_without_webhook_id(path));
    let extensions = request.extensions_mut();
    if is_public {
        extensions.insert(PublicRoute);
    }
    if let Some(path) = without_secrets {
        extensions.insert(LoggedPath(path));
    }
    extensions.insert(ErrorRenderer(|error| SenlinError::from(error).response()));
    extensions.insert(RequestIdAlias { header: OPENSTACK_REQUEST_ID, prefix: "req-" });
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/clustering/v1/clusters", None)]
    #[case("/clustering/v1/webhooks/0190f3a2/trigger", Some("/clustering/v1/webhooks/…/trigger"))]
    #[case("/clustering/v1/webhooks/0190f3a2", Some("/clustering/v1/webhooks/…/"))]
    fn the_id_of_a_webhook_is_not_logged(#[case] path: &str, #[case] logged: Option<&str>) {
        assert_eq!(path_without_webhook_id(path).as_deref(), logged);
    }
}

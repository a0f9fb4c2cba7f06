//! The clustering API: clusters, nodes, profiles, policies, actions, events and receivers, as existing clients of the
//! OpenStack clustering service speak.

mod actions;
mod adoption;
mod attributes;
mod call;
mod cluster_actions;
mod clusters;
mod events;
mod fault;
mod find;
mod form;
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
mod service;
mod show;
mod sizes;
mod version;
mod versions;

use muster_service::Service;

use crate::error::ApiError;

pub(crate) use call::base;
pub use routes::CASES;
pub(crate) use routes::is_open;

/// Where the door is.
pub(crate) const ROOT: &str = "/clustering";

/// Where its resources are.
pub(crate) const V1: &str = "/clustering/v1";

/// The clustering API over the use cases. Handles are cheap to clone.
#[derive(Clone)]
pub struct Clustering {
    service: Service,
    /// Whether clients come by TLS.
    tls: bool,
}

impl Clustering {
    /// The API over the use cases.
    pub const fn new(service: Service, tls: bool) -> Self {
        Self { service, tls }
    }
}

/// Whether a path is this door's.
pub(crate) fn is_here(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A refusal of another part of the server, in the form of this door.
pub(crate) fn refuse(error: ApiError) -> axum::response::Response {
    fault::Fault::from(error).response()
}

//! Requests: the caller, the change, and why it may be refused.

use muster_core::action::OnConflict;
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::{AppId, NodeId};
use muster_core::job::Job;
use muster_core::node::Node;
use muster_core::principal::{Door, Principal};
use muster_core::profile::Profile;
use muster_core::time::TimeSpan;
use muster_store::StoreError;
use muster_store::commands::RequestKey;

use crate::ports::provider::ProviderError;

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The authenticated principal.
    pub principal: Principal,
    /// The API that the request came through.
    pub door: Door,
    /// The caller's reason; may be empty.
    pub reason: String,
    /// The request id with a digest of the request, if the caller gave one.
    pub request: Option<(String, String)>,
}

impl Caller {
    pub(crate) fn request_key(&self) -> Option<RequestKey> {
        let (request_id, digest) = self.request.clone()?;
        let principal = format!("{}/{}", self.principal.scheme, self.principal.id);
        Some(RequestKey { principal, request_id, digest })
    }
}

/// A request to change a cluster, or one of its members.
#[derive(Debug, Clone)]
pub struct ChangeRequest {
    /// The change.
    pub change: Change,
    /// The cluster, as it was read.
    pub cluster: Cluster,
    /// The member that is changed, if it is only one.
    pub node: Option<NodeId>,
    /// What happens if another action holds the cluster.
    pub on_conflict: OnConflict,
    /// How long the action may take; none is the cluster's timeout.
    pub timeout: Option<TimeSpan>,
}

/// A request to change a node, in a cluster or not.
#[derive(Debug, Clone)]
pub struct NodeChangeRequest {
    /// The change.
    pub change: Change,
    /// The node, as it was read.
    pub node: Node,
    /// What happens if another action holds the node.
    pub on_conflict: OnConflict,
    /// How long the action may take; none is its cluster's timeout, or an hour.
    pub timeout: Option<TimeSpan>,
}

/// What a new cluster is created for, which is stored together with it.
#[derive(Debug, Clone)]
pub enum NewClusterUser {
    /// Anything.
    None,
    /// An app that has a row.
    App(AppId),
    /// A job, with whose end it is deleted.
    Job(Box<Job>),
}

/// The profile of a new cluster.
#[derive(Debug, Clone)]
pub enum Recipe {
    /// A profile of its own, stored together with the cluster.
    New(Profile),
    /// A profile that is stored already.
    Kept(Profile),
}

impl Recipe {
    pub(crate) const fn profile(&self) -> &Profile {
        match self {
            Self::New(profile) | Self::Kept(profile) => profile,
        }
    }

    pub(crate) fn into_new(self) -> Option<Profile> {
        match self {
            Self::New(profile) => Some(profile),
            Self::Kept(_) => None,
        }
    }
}

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The store refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No provider of this server serves the instance.
    #[error("no provider serves '{0}' here: start one, or choose another")]
    NoProvider(String),
    /// The provider does not know the type.
    #[error("provider '{provider}' makes no nodes of type {kind}: choose another profile or provider")]
    UnknownType {
        /// The provider.
        provider: String,
        /// The type.
        kind: String,
    },
    /// The provider cannot do this with that type.
    #[error("{0}")]
    NotSupported(String),
    /// A value is not possible.
    #[error("{0}")]
    Invalid(String),
    /// The caller may not run code as the server's user.
    #[error(
        "local processes run as the server's own user: only admins may make them here; ask one, or use another provider"
    )]
    LocalCode,
    /// No machine there could hold a node of it.
    #[error("{0}")]
    TooLarge(String),
    /// The namespace does not exist.
    #[error("{0}")]
    NoNamespace(String),
    /// Something that it needs does not exist.
    #[error(transparent)]
    Missing(ProviderError),
    /// An app cannot be observed, so that nothing is decided.
    #[error("{0}")]
    AppUnknown(String),
}

//! Requests for changes: the caller, the change, and the errors of refused requests.

use muster_core::action::OnConflict;
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::{AppId, NodeId};
use muster_core::job::Job;
use muster_core::node::Node;
use muster_core::principal::{Door, Principal};
use muster_core::profile::{Profile, ProfileType};
use muster_core::profile_types::{self, TypeInfo};
use muster_core::time::TimeSpan;
use muster_store::StoreError;
use muster_store::commands::RequestKey;

use crate::ports::provider::{Provider, ProviderError};

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
    /// Returns the key under which the database remembers the request.
    pub fn request_key(&self) -> Option<RequestKey> {
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
    /// The member that is changed, if the change is about a single one.
    pub node: Option<NodeId>,
    /// The conflict rule if another action holds the cluster.
    pub on_conflict: OnConflict,
    /// The timeout of the action; none is the cluster's timeout.
    pub timeout: Option<TimeSpan>,
}

/// A request to change a node, in a cluster or not.
#[derive(Debug, Clone)]
pub struct NodeChangeRequest {
    /// The change.
    pub change: Change,
    /// The node, as it was read.
    pub node: Node,
    /// The conflict rule if another action holds the node.
    pub on_conflict: OnConflict,
    /// The timeout of the action; none is the timeout of the node's cluster, or an hour for a node without one.
    pub timeout: Option<TimeSpan>,
}

/// The app or job that a new cluster is created for, which is stored in the same commit.
#[derive(Debug, Clone)]
pub enum NewClusterUser {
    /// Neither an app nor a job.
    None,
    /// An app that has a row.
    App(AppId),
    /// A job, at whose end the cluster is deleted.
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

/// The error of a request that was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The store refused the request, or is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No provider of this server serves the instance.
    #[error("this server does not serve '{0}': choose another provider, or use the server that serves it")]
    NoProvider(String),
    /// The provider does not know the type.
    #[error(
        "provider '{provider}' does not support type {kind}: use another provider, or one of {supported}"
    )]
    UnknownType {
        /// The provider.
        provider: String,
        /// The type.
        kind: String,
        /// The types that the provider supports, separated by commas.
        supported: String,
    },
    /// The provider does not support this for the profile type.
    #[error("{0}")]
    NotSupported(String),
    /// A value is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The caller may not run code as the server's user.
    #[error(
        "local processes run as the server's own user: only admins may create them; ask an admin, or use another \
         provider"
    )]
    LocalCode,
    /// The machine of the instance is too small for a node of the cluster.
    #[error("{0}")]
    TooLarge(String),
    /// The namespace does not exist.
    #[error("{0}")]
    NoNamespace(String),
    /// A requirement does not exist, such as a framework or an operator.
    #[error(transparent)]
    Missing(ProviderError),
    /// An app cannot be observed, so that nothing is decided.
    #[error("{0}")]
    AppUnknown(String),
}

impl SubmitError {
    /// The error of a type that a provider does not support, with the types that it supports.
    pub(crate) fn unknown_type(provider: &dyn Provider, kind: &ProfileType) -> Self {
        let is_supported = |info: &&TypeInfo| {
            provider.capabilities(&ProfileType::new(info.name, info.version), None).is_some()
        };
        let supported: Vec<String> =
            profile_types::TYPES.iter().filter(is_supported).map(ToString::to_string).collect();
        Self::UnknownType {
            provider: provider.instance().provider().to_owned(),
            kind: kind.to_string(),
            supported: supported.join(", "),
        }
    }
}

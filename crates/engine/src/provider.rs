//! The port to where nodes really run.
//!
//! Every verb is idempotent and takes the fence of the action behind it: whoever was told a higher one refuses it.
//! A call may be dropped before it ends, because its action is cancelled, suspended, timed out or another engine's:
//! what it has begun is taken up by the next call of the verb, or removed by a deletion.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::node::{Node, NodeRole, Seen};
use muster_core::profile::{Profile, ProfileType};

/// What a call is about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The cluster as it should be.
    pub cluster: &'a Cluster,
    /// The recipe of its nodes.
    pub profile: &'a Profile,
    /// The fence of the action behind the call.
    pub fence: Fence,
}

/// Who starts and stops single nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// Muster does.
    Individual,
    /// An operator does; Muster says how many.
    Delegated,
}

/// What a provider can do with clusters of a profile type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub struct Capabilities {
    /// Who starts and stops single nodes.
    pub membership: Membership,
    /// There is a head beside the workers.
    pub head: bool,
    /// Workers find a new head by themselves.
    pub workers_outlive_head: bool,
    /// There may be several worker groups.
    pub several_groups: bool,
    /// Nodes may be in no cluster, may join one and leave it.
    pub orphans: bool,
    /// Which workers go can be chosen.
    pub choose_victims: bool,
    /// Nodes can be changed without being made anew.
    pub update_in_place: bool,
    /// Lost nodes are brought back without a policy that says so.
    pub heals_by_default: bool,
    /// Nodes that others made can become ours.
    pub adopt: bool,
}

/// Why a provider did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// Whether the same call may work in a moment.
    pub transient: bool,
    /// In a word that stays the same, such as `PortInUse`.
    pub reason: String,
    /// In a sentence, with the value, the limit, the last words of a log.
    pub message: String,
}

impl ProviderError {
    /// It will not work, however often it is tried.
    pub fn permanent(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: false, reason: reason.to_owned(), message: message.into() }
    }

    /// It may work in a moment.
    pub fn transient(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: true, reason: reason.to_owned(), message: message.into() }
    }
}

/// What became of one node of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResult {
    /// The node.
    pub node: NodeId,
    /// Its physical id once it works, or nothing once it is gone.
    pub result: Result<Option<String>, ProviderError>,
}

/// What was seen of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Nodes that have rows.
    pub nodes: HashMap<NodeId, Seen>,
    /// Members that an operator made; they get rows when they are first seen.
    pub members: Vec<SeenMember>,
    /// What to connect to, by purpose.
    pub endpoints: BTreeMap<String, String>,
}

impl Observed {
    /// What is known of a node; nothing said is unknown.
    pub fn of(&self, id: NodeId) -> Seen {
        self.nodes.get(&id).cloned().unwrap_or_else(|| Seen::Unknown { reason: "not observed".to_owned() })
    }
}

/// A member that an operator made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    /// What it is recognised by: a pod's name or UID.
    pub identity: String,
    /// What people call it.
    pub name: String,
    /// What it is to its cluster.
    pub role: NodeRole,
    /// The group it is in.
    pub group: Option<String>,
    /// How it is.
    pub seen: Seen,
}

/// Something in the world changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Of this cluster.
    Cluster(ClusterId),
    /// Anything may have: look at all.
    Everything,
}

/// Where nodes really run.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Which one it is.
    fn instance(&self) -> &InstanceId;

    /// What it can do with a profile type; nothing if it does not know the type.
    fn capabilities(&self, kind: &ProfileType) -> Option<Capabilities>;

    /// Checks a recipe before anything is stored; the sentence says what is wrong.
    fn check_profile(&self, profile: &Profile) -> Result<(), String>;

    /// Makes what the cluster needs beside its nodes.
    async fn create(&self, call: Call<'_>) -> Result<(), ProviderError>;

    /// Removes what is left of the cluster, nodes included.
    async fn delete(&self, call: Call<'_>) -> Result<(), ProviderError>;

    /// Delegated: says how many workers a group has, and which go first.
    async fn set_workers(
        &self,
        call: Call<'_>,
        group: &str,
        count: u32,
        victims: &[Node],
    ) -> Result<(), ProviderError>;

    /// Delegated: says between which bounds others may move a group.
    async fn set_bounds(
        &self,
        call: Call<'_>,
        group: &str,
        min: u32,
        max: Option<u32>,
    ) -> Result<(), ProviderError>;

    /// Individual: starts nodes, or waits for those that are starting already. A result a node, as they come.
    fn start_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Individual: stops nodes. A result a node, as they come; one that is not there is stopped.
    fn stop_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Writes a changed shape, image or environment of the head or a group.
    async fn update(&self, call: Call<'_>) -> Result<(), ProviderError>;

    /// Delegated: replaces the head.
    async fn restart_head(&self, call: Call<'_>) -> Result<(), ProviderError>;

    /// Looks at a cluster. It changes nothing, so its fence means nothing. An error is *unknown*, never *gone*.
    async fn observe(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError>;

    /// Tells of changes in the world, for as long as it is polled. One that cannot know what happened before begins
    /// with [`Change::Everything`].
    fn changes(&self) -> BoxStream<'static, Change>;
}

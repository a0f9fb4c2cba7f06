//! The port to where nodes really run: a common part that reads, and two traits that write.
//!
//! [`NodeProvider`] starts and stops single nodes; [`OperatorProvider`] writes the object that an operator acts on.
//! Reads take a [`ClusterTarget`]; every write is idempotent and takes a [`FencedCall`], and is refused where a higher
//! fence was seen. A call may be dropped before it ends, because its action is cancelled, suspended, timed out or taken
//! over: what it has begun is taken up by the next call of the same verb, or removed by a deletion.

mod call;
pub(crate) mod changes;
pub(crate) mod discovered;
pub(crate) mod external_event;
mod nodes;
pub(crate) mod operation;
pub(crate) mod operator;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::{Node, Seen};
use muster_core::profile::{Profile, ProfileType};
use serde_json::{Map, Value};

pub use crate::ports::provider::call::{ClusterTarget, FencedCall};
pub use crate::ports::provider::discovered::DiscoveredCluster;
pub use crate::ports::provider::external_event::ExternalEvent;
pub use crate::ports::provider::nodes::{NodeProvider, NodeResult};
pub use crate::ports::provider::operation::{Operation, Updated};
pub use crate::ports::provider::operator::{
    Bounds, MemberId, Object, Operator, OperatorProvider, SeenGroup, SeenMember, Spec,
};

/// Bringing a node back by making it anew, which all types can.
pub const RECREATE: &str = "RECREATE";

/// Who starts and stops single nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// Muster does.
    Individual,
    /// An operator does; Muster says how many.
    Delegated(Operator),
}

/// What a provider can do with clusters of a profile type and flavor.
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
    /// The shape, image or environment of what is there can be changed.
    pub update_in_place: bool,
    /// Lost nodes are brought back without a policy that says so; never where an operator does that.
    pub heals_by_default: bool,
    /// Nodes that others made can become ours.
    pub adopt: bool,
    /// It can be told whether a cluster is used.
    pub tells_activity: bool,
    /// Nodes can be told in which zone and region, and beside whom, they run: by the [`Place`] in their data.
    ///
    /// [`Place`]: muster_core::placement::Place
    pub places: bool,
    /// It is known how the machines below nodes are.
    pub tells_machines: bool,
}

/// The reason of nodes that end while they start.
const NODE_EXITED: &str = "NodeExited";

/// The reason of a value that is not possible.
pub const INVALID: &str = "Invalid";

/// The reason of what would have to stand in a namespace that is not there.
pub const NO_NAMESPACE: &str = "NoNamespace";

const NOT_YET: &str = "NotYet";

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

    /// Nobody could tell yet, because it has just begun to be looked at: nothing is wrong.
    pub fn not_yet(message: impl Into<String>) -> Self {
        Self::transient(NOT_YET, message)
    }

    /// Whether it is only that it has just begun to be looked at.
    pub(crate) fn is_not_yet(&self) -> bool {
        self.reason == NOT_YET
    }

    /// The node ended while it started. It may work the next time: as often as nodes are started at all.
    pub fn died(message: impl Into<String>) -> Self {
        Self::transient(NODE_EXITED, message)
    }

    /// Whether it is worth an event, though it is tried again.
    pub(crate) fn is_death(&self) -> bool {
        self.reason == NODE_EXITED
    }

    /// It may work in a moment.
    pub fn transient(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: true, reason: reason.to_owned(), message: message.into() }
    }
}

/// What was seen of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Individual: nodes that have rows.
    pub nodes: HashMap<NodeId, Seen>,
    /// Individual: nodes whose machine is certainly not well, and why; told by a check only.
    pub machines: HashMap<NodeId, String>,
    /// Delegated: every member there is. One that is not in this list is gone; whoever has no complete list says that
    /// it cannot tell.
    pub members: Vec<SeenMember>,
    /// Delegated: the spec of record.
    pub object: Object,
    /// Delegated: what else is still there of an object that is gone, and what it waits for, in words.
    pub left: Vec<String>,
    /// What to connect to, by purpose.
    pub endpoints: BTreeMap<String, String>,
    /// Delegated: recent events that others wrote about its objects, the oldest first.
    pub external_events: Vec<ExternalEvent>,
}

impl Observed {
    /// What is known of a node; nothing said is unknown.
    pub fn of(&self, id: NodeId) -> Seen {
        self.nodes.get(&id).cloned().unwrap_or_else(|| Seen::Unknown { reason: "not observed".to_owned() })
    }
}

/// How much of a node's log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// So many of the last lines; all that are kept if nothing is said.
    pub tail: Option<usize>,
    /// Whether to go on with what is added.
    pub follow: bool,
}

/// Something in the world changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Of this cluster.
    Cluster(ClusterId),
    /// Of this node, wherever it is a member.
    Node(NodeId),
    /// Anything may have: look at all.
    Everything,
}

/// One place where nodes really run: what it is and can do, and how things are there. Nothing here changes anything.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The instance that it serves.
    fn instance(&self) -> &InstanceId;

    /// What it can do with a profile type, in a flavor or in its default one; none if it does not know them.
    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities>;

    /// How single nodes are started and stopped here: there where [`Capabilities::membership`] is
    /// [`Membership::Individual`] for some type.
    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        None
    }

    /// How objects of operators are written here: there where [`Capabilities::membership`] is
    /// [`Membership::Delegated`] for some type.
    fn operator_provider(self: Arc<Self>) -> Option<Arc<dyn OperatorProvider>> {
        None
    }

    /// Checks a recipe before anything is stored; the error says what is wrong.
    fn check_profile(&self, profile: &Profile) -> Result<(), String>;

    /// Whether it knows by now what there is to work with; the error says why not.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// The flavor of a new cluster of a type where the request names none.
    fn default_flavor(&self, _: &ProfileType) -> Option<String> {
        None
    }

    /// Checks that what a recipe needs in a flavor is there, such as a framework or an operator, before anything is
    /// stored. What is missing for the moment only is no reason to refuse.
    async fn admit(&self, _: &Profile, _flavor: Option<&str>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Checks a cluster's own properties, such as its labels, before they are stored; the error says what is wrong.
    fn check_cluster(&self, _: &Cluster) -> Result<(), String> {
        Ok(())
    }

    /// Checks that a new cluster can be made as requested, by its name, its groups, its namespace, before anything is
    /// stored. What is unknown for the moment is no reason to refuse.
    async fn admit_cluster(&self, _: &Cluster, _: &Profile) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Checks that nodes can be made from what an update changes, from `before` to the cluster as it should be, before
    /// anything is stored. What is unknown for the moment is no reason to refuse.
    async fn admit_update(&self, _: ClusterTarget<'_>, _before: &Cluster) -> Result<(), ProviderError> {
        Ok(())
    }

    /// The operations that nodes of a type support, beside those that all nodes do.
    fn operations(&self, _: &ProfileType) -> Vec<Operation> {
        Vec::new()
    }

    /// The ways to recover nodes of a type, in the words of requests.
    fn recoveries(&self, _: &ProfileType) -> &'static [&'static str] {
        &[RECREATE]
    }

    /// Observes a cluster. An error means *unknown*, never *gone*. After a write was acknowledged, what is observed is at
    /// least as new as that write.
    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError>;

    /// Observes whether nodes are healthy: what is there and does not do its work is not.
    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.observe(target, nodes).await
    }

    /// What a node is there, for people to read.
    async fn details(&self, _: ClusterTarget<'_>, _node: &Node) -> Result<Map<String, Value>, ProviderError> {
        Ok(Map::new())
    }

    /// What a node wrote, in whole lines.
    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        _node: &Node,
        _query: LogQuery,
    ) -> Result<BoxStream<'static, Result<String, ProviderError>>, ProviderError> {
        Err(ProviderError::permanent("NoLogs", format!("nodes of type {} keep no logs", target.profile.kind)))
    }

    /// What programs that use the cluster need in their environment, secrets too.
    async fn environment(&self, _: ClusterTarget<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        Ok(BTreeMap::new())
    }

    /// What the machine has that all its nodes share; none if nodes are placed on several.
    fn capacity(&self) -> Option<Capacity> {
        None
    }

    /// Whether a cluster is used, as it reports itself. Called only where [`Capabilities::tells_activity`] is set.
    async fn activity(&self, _: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        Ok(Activity::Unknown)
    }

    /// Publishes changes in the world, for as long as it is polled. One that cannot know what happened before begins
    /// with [`Change::Everything`].
    fn changes(&self) -> BoxStream<'static, Change>;
}

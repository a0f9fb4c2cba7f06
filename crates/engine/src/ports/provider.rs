//! The port to where nodes really run.
//!
//! Every verb is idempotent and takes the fence of the action behind it: whoever was told a higher one refuses it.
//! A call may be dropped before it ends, because its action is cancelled, suspended, timed out or another engine's:
//! what it has begun is taken up by the next call of the verb, or removed by a deletion.

pub(crate) mod changes;
pub(crate) mod discovered;
pub(crate) mod external_event;
pub(crate) mod operation;
pub(crate) mod operator;

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::{Node, Seen};
use muster_core::profile::{Profile, ProfileType};
use serde_json::{Map, Value};

pub use crate::ports::provider::discovered::Found;
pub use crate::ports::provider::external_event::Heard;
pub use crate::ports::provider::operation::{Operation, Updated};
pub use crate::ports::provider::operator::{Bounds, MemberId, Object, Operator, SeenGroup, SeenMember, Spec};

/// Bringing a node back by making it anew, which all types can.
pub const RECREATE: &str = "RECREATE";

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
    /// Delegated: what others told of its objects lately, the oldest first.
    pub heard: Vec<Heard>,
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

/// Where nodes really run.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Which one it is.
    fn instance(&self) -> &InstanceId;

    /// What it can do with a profile type, in a flavor or in its default one; nothing if it does not know them.
    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities>;

    /// Checks a recipe before anything is stored; the sentence says what is wrong.
    fn check_profile(&self, profile: &Profile) -> Result<(), String>;

    /// Whether it knows by now what there is to work with; the sentence says why not.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// The flavor that a new cluster of a type has if nobody names one.
    fn default_flavor(&self, _: &ProfileType) -> Option<String> {
        None
    }

    /// Looks whether what a recipe needs in a flavor is there, such as a framework or an operator, before anything is
    /// stored. What is missing for the moment only is no reason to refuse.
    async fn admit(&self, _: &Profile, _flavor: Option<&str>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Checks what a cluster says of itself, such as its labels, before it is stored so; the sentence says what is wrong.
    fn check_cluster(&self, _: &Cluster) -> Result<(), String> {
        Ok(())
    }

    /// Looks whether a new cluster can be made as it is asked for, by its name, its groups, its namespace, before
    /// anything is stored. What cannot be told for the moment is no reason to refuse.
    async fn admit_cluster(&self, _: &Cluster, _: &Profile) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Individual: makes what the cluster needs beside its nodes. Delegated: makes the object, once; one of that name
    /// that is not this cluster's is an error for good.
    async fn create(&self, call: Call<'_>) -> Result<(), ProviderError>;

    /// Removes what is left of the cluster, nodes included. Delegated: says so; it is gone when that is seen.
    async fn delete(&self, call: Call<'_>) -> Result<(), ProviderError>;

    /// Individual: starts nodes, or waits for those that are starting already. A result a node, as they come.
    fn start_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Individual: why nodes that are being started do not work yet, of those where that is known without a look.
    fn obstacles(&self, _: &ProfileType, _starting: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        HashMap::new()
    }

    /// Individual: stops nodes. A result a node, as they come; one that is not there is stopped.
    fn stop_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult>;

    /// Writes what differs between `before` and the cluster as it should be, and nothing else. Individual: the shape,
    /// image or environment of the head or a group. Delegated: sizes and bounds too, all in one write where the object
    /// is one, with the fence even if nothing differs; `victims` go first where a group shrinks. An object that holds
    /// something else than `before` in what would be written is a failure for the moment: it is looked at again.
    async fn update(&self, call: Call<'_>, before: &Cluster, victims: &[Node]) -> Result<(), ProviderError>;

    /// Delegated: what was written only until the goal is seen is taken away again, such as names of victims.
    async fn settle(&self, _: Call<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Delegated: replaces just these makings of members, the head among them if it is there. One that is not there
    /// any more is replaced already. Where the head is missing, its operator is told to make it.
    async fn restart_head(&self, call: Call<'_>, _old: &[MemberId]) -> Result<(), ProviderError> {
        let message = format!("nodes of '{}' are started and stopped one by one", call.cluster.name);
        Err(ProviderError::permanent("NotDelegated", message))
    }

    /// Individual: changes a node that runs to what its new recipe, in the call, says; or says that it has to be made
    /// anew for that.
    async fn update_node(
        &self,
        _: Call<'_>,
        _node: &Node,
        _before: &Profile,
    ) -> Result<Updated, ProviderError> {
        Ok(Updated::MakeAnew)
    }

    /// Looks at something that others made, and says from which properties a node like it is made. Asked only where
    /// [`Capabilities::adopt`] is set.
    async fn adopt(&self, kind: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        let message = format!("'{identity}' cannot become a node of type {kind}");
        Err(ProviderError::permanent("NotSupported", message))
    }

    /// Takes what others made in: from here on it is followed. Asked after [`Provider::adopt`], where that was meant.
    async fn take_in(&self, _: &ProfileType, _identity: &str) -> Result<(), ProviderError> {
        Ok(())
    }

    /// What can be done to nodes of a type, beside what can be done to all.
    fn operations(&self, _: &ProfileType) -> Vec<Operation> {
        Vec::new()
    }

    /// How nodes of a type can be brought back, in the words of requests.
    fn recoveries(&self, _: &ProfileType) -> &'static [&'static str] {
        &[RECREATE]
    }

    /// Does an operation to a node. It may be done twice, if nobody heard how it went the first time.
    async fn operate(
        &self,
        call: Call<'_>,
        _node: &Node,
        operation: &str,
        _parameters: &Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let message = format!(
            "The requested operation '{operation}' is not supported by the profile type '{}'.",
            call.profile.kind
        );
        Err(ProviderError::permanent("NotSupported", message))
    }

    /// What a node is there, for people to look at.
    async fn details(&self, _: Call<'_>, _node: &Node) -> Result<Map<String, Value>, ProviderError> {
        Ok(Map::new())
    }

    /// Looks at a cluster. It changes nothing, so its fence means nothing. An error is *unknown*, never *gone*. After a
    /// write was acknowledged, what is seen is at least as new as that write.
    async fn observe(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError>;

    /// The same for whoever asks whether nodes are well: what is there and does not do its work is not.
    async fn check(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.observe(call, nodes).await
    }

    /// What a node wrote, in whole lines.
    async fn logs(
        &self,
        call: Call<'_>,
        _node: &Node,
        _query: LogQuery,
    ) -> Result<BoxStream<'static, Result<String, ProviderError>>, ProviderError> {
        Err(ProviderError::permanent("NoLogs", format!("nodes of type {} keep no logs", call.profile.kind)))
    }

    /// What programs that use the cluster need in their environment, secrets too.
    async fn environment(&self, _: Call<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        Ok(BTreeMap::new())
    }

    /// What the machine has that all its nodes share; nothing if nodes are placed on several.
    fn capacity(&self) -> Option<Capacity> {
        None
    }

    /// Whether anybody uses a cluster, as it says itself. Like a look it changes nothing. Asked only where
    /// [`Capabilities::tells_activity`] is set.
    async fn activity(&self, _: Call<'_>) -> Result<Activity, ProviderError> {
        Ok(Activity::Unknown)
    }

    /// Delegated: clusters that are there, whoever made them, as far as that is known now.
    fn found(&self) -> Vec<ClusterId> {
        Vec::new()
    }

    /// Delegated: what is there under this id is not the cluster that had it. From here on it is found under an id of
    /// its own.
    fn disown(&self, _: ClusterId) {}

    /// Delegated: what a cluster is that is there; nothing if it is not.
    async fn describe(&self, _: ClusterId) -> Result<Option<Found>, ProviderError> {
        Ok(None)
    }

    /// Tells of changes in the world, for as long as it is polled. One that cannot know what happened before begins
    /// with [`Change::Everything`].
    fn changes(&self) -> BoxStream<'static, Change>;
}

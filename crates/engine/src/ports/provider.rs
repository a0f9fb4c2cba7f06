//! The port to where nodes really run: a common part that reads, and two traits that write.
//!
//! [`NodeProvider`] starts and stops single nodes; [`OperatorProvider`] writes the object that an operator acts on.
//! Reads take a [`ClusterTarget`]; every write is idempotent and takes a [`FencedCall`], and is refused where a higher
//! fence was seen. A call may be dropped before it ends, because its action is cancelled, suspended, timed out or taken
//! over: what it has begun is taken up by the next call of the same verb, or removed by a deletion.

mod apps;
mod call;
pub(crate) mod changes;
mod config_sets;
pub(crate) mod discovered;
pub(crate) mod environment;
pub(crate) mod external_event;
mod nodes;
pub(crate) mod operation;
pub(crate) mod operator;
mod templates;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::{Node, Observation};
use muster_core::profile::{Profile, ProfileType};
use muster_core::software::SoftwareVersions;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::ports::images::ImageBuilder;
use crate::ports::jobs::JobRunner;
use crate::ports::node_meter::NodeMeter;
pub use crate::ports::provider::apps::{
    AppChange, AppMarks, AppObservation, AppProvider, ProcessProvider, ProcessState, ResolvedApp,
};
pub use crate::ports::provider::call::{ClusterTarget, FencedCall};
pub use crate::ports::provider::config_sets::ConfigSetProvider;
pub use crate::ports::provider::discovered::DiscoveredCluster;
pub use crate::ports::provider::external_event::ExternalEvent;
pub use crate::ports::provider::nodes::{NodeProvider, NodeResult, ProviderResource};
pub use crate::ports::provider::operation::{Operation, UpdateOutcome};
pub use crate::ports::provider::operator::{
    Bounds, MemberId, ObjectContent, ObjectSpec, ObjectState, ObservedGroup, ObservedMember,
    OperatorCapabilities, OperatorProvider,
};
pub use crate::ports::provider::templates::{NAME_TAKEN, TemplateProvider};

/// The recovery operation that recreates a node; all types support it.
pub const RECREATE: &str = "RECREATE";

/// Who starts and stops single nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// Muster does.
    Individual,
    /// An operator does; Muster sets the sizes.
    Delegated(OperatorCapabilities),
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
    /// Victims can be chosen when a group shrinks.
    pub choose_victims: bool,
    /// The shape, image or environment of existing clusters can be changed.
    pub update_in_place: bool,
    /// Lost nodes are recovered without a policy; never where an operator does that.
    pub heals_by_default: bool,
    /// External nodes can be adopted.
    pub adopt: bool,
    /// The provider knows whether a cluster is used.
    pub reports_activity: bool,
    /// Nodes can be placed in zones, regions and server groups, by the [`Placement`] in their data.
    ///
    /// [`Placement`]: muster_core::placement::Placement
    pub supports_placement: bool,
    /// The provider knows the health of the machines below nodes.
    pub reports_machines: bool,
}

/// The reason of nodes that exit while they start.
const NODE_EXITED: &str = "NodeExited";

/// The reason of an invalid value.
pub const INVALID: &str = "Invalid";

/// The reason of an object whose namespace does not exist.
pub const NO_NAMESPACE: &str = "NoNamespace";

const NOT_YET: &str = "NotYet";

const OVERTAKEN: &str = "Overtaken";

/// Why a provider call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// Whether a retry may succeed.
    pub transient: bool,
    /// A stable reason, such as `PortInUse`.
    pub reason: String,
    /// A message with details, such as the value, the limit, the last lines of a log.
    pub message: String,
    /// The higher fence that is there already, if that is why.
    pub overtaken_by: Option<Fence>,
}

impl ProviderError {
    /// An error that no retry can solve.
    pub fn permanent(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: false, reason: reason.to_owned(), message: message.into(), overtaken_by: None }
    }

    /// A request with a higher fence came before: another engine has the action by now, or the database was restored
    /// from an older copy.
    pub fn overtaken(given: Fence, by: Fence) -> Self {
        let message = format!("fence {} is older than {}, which was there before", given.0, by.0);
        Self { overtaken_by: Some(by), ..Self::transient(OVERTAKEN, message) }
    }

    /// The state is not known yet, because observing has only just begun: nothing is wrong.
    pub fn not_yet(message: impl Into<String>) -> Self {
        Self::transient(NOT_YET, message)
    }

    /// Whether observing has only just begun.
    pub(crate) fn is_not_yet(&self) -> bool {
        self.reason == NOT_YET
    }

    /// The node exited while it started. It is retried within the budget of starts.
    pub fn node_exited(message: impl Into<String>) -> Self {
        Self::transient(NODE_EXITED, message)
    }

    /// Whether a node exited while it started: that becomes an event, though it is retried.
    pub(crate) fn is_node_exit(&self) -> bool {
        self.reason == NODE_EXITED
    }

    /// An error that a retry may solve.
    pub fn transient(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: true, ..Self::permanent(reason, message) }
    }
}

/// The observed state of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Individual: nodes that have rows.
    pub nodes: HashMap<NodeId, Observation>,
    /// Individual: nodes whose machine is certainly unhealthy, and why; only a check reports this.
    pub machines: HashMap<NodeId, String>,
    /// Delegated: all members. A member that is not in this list is gone; a provider without a complete list returns an
    /// error.
    pub members: Vec<ObservedMember>,
    /// Delegated: the spec of record.
    pub object: ObjectState,
    /// Delegated: other leftovers of a deleted object, and what they wait for.
    pub remaining: Vec<String>,
    /// Addresses to connect to, by purpose.
    pub endpoints: BTreeMap<String, String>,
    /// Individual: the versions of what the head runs, while it runs.
    pub versions: Option<Box<SoftwareVersions>>,
    /// Delegated: recent external events about its objects, the oldest first.
    pub external_events: Vec<ExternalEvent>,
}

impl Observed {
    /// Copies what clients see of a cluster beside its nodes. Versions stay while its head does not run.
    pub(crate) fn write_contact_to(&self, cluster: &mut Cluster) {
        cluster.observed.endpoints.clone_from(&self.endpoints);
        if self.versions.is_some() {
            cluster.observed.versions.clone_from(&self.versions);
        }
    }

    /// The observation of a node; unknown if there is none.
    pub fn of(&self, id: NodeId) -> Observation {
        self.nodes
            .get(&id)
            .cloned()
            .unwrap_or_else(|| Observation::Unknown { reason: "not observed".to_owned() })
    }
}

/// How much of a node's log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// The number of last lines of each source; none is all that are stored.
    pub tail: Option<usize>,
    /// Whether to continue with new lines.
    pub follow: bool,
    /// Only what was written since then.
    pub since: Option<Timestamp>,
    /// Whether to add the files that tasks and executors of the framework write.
    pub task_output: bool,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogText {
    /// The file of a task or executor; empty for the log of the node itself.
    pub source: String,
    /// Whole lines.
    pub text: String,
}

impl LogText {
    /// Lines of the log of a node itself.
    pub const fn of_node(text: String) -> Self {
        Self { source: String::new(), text }
    }
}

/// What a log has, as it is read.
pub type LogLines = BoxStream<'static, Result<LogText, ProviderError>>;

/// The log of a node of a deleted cluster.
pub struct StoredLog {
    /// The node.
    pub node: NodeId,
    /// Its name, or its id where the name was not stored.
    pub name: String,
    /// Its log.
    pub lines: LogLines,
}

/// A change in the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorldChange {
    /// This cluster changed.
    Cluster(ClusterId),
    /// This node changed, wherever it is a member.
    Node(NodeId),
    /// Anything may have changed: observe everything.
    Everything,
}

/// Clusters that a provider cannot observe at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unobserved {
    /// The namespace that they are in; none is every namespace.
    pub namespace: Option<String>,
    /// The flavor that they have; none is every flavor.
    pub flavor: Option<&'static str>,
    /// Why.
    pub reason: String,
}

impl Unobserved {
    /// Whether a cluster is one of them.
    pub fn concerns(&self, cluster: &Cluster) -> bool {
        let is_equal = |own: Option<&str>, of_cluster: &str| own.is_none_or(|own| own == of_cluster);
        is_equal(self.namespace.as_deref(), &cluster.namespace)
            && is_equal(self.flavor, cluster.flavor.as_deref().unwrap_or_default())
    }
}

/// A place where nodes run: its capabilities and reads. Nothing here writes.
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

    /// The compute templates that are kept here, where there can be any.
    fn template_provider(self: Arc<Self>) -> Option<Arc<dyn TemplateProvider>> {
        None
    }

    /// The apps that are objects here, where there are any.
    fn app_provider(self: Arc<Self>) -> Option<Arc<dyn AppProvider>> {
        None
    }

    /// The processes of this host, where commands run beside the server.
    fn process_provider(self: Arc<Self>) -> Option<Arc<dyn ProcessProvider>> {
        None
    }

    /// How images are built here, where that is possible.
    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        None
    }

    /// How commands of jobs are run here, where that is possible.
    fn job_runner(self: Arc<Self>) -> Option<Arc<dyn JobRunner>> {
        None
    }

    /// What measures nodes here, where that is possible.
    fn node_meter(self: Arc<Self>) -> Option<Arc<dyn NodeMeter>> {
        None
    }

    /// The configuration sets that are kept here, where there can be any.
    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        None
    }

    /// Checks a recipe before anything is stored; the error says what is wrong.
    fn check_profile(&self, profile: &Profile) -> Result<(), String>;

    /// Whether it has discovered its environment; the error says why not.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// The clusters that it cannot observe at present, and why.
    fn unobserved(&self) -> Vec<Unobserved> {
        Vec::new()
    }

    /// The type of the nodes here that may be in no cluster; none if there are no such nodes.
    fn orphan_type(&self) -> Option<ProfileType> {
        None
    }

    /// The flavor of a new cluster of a type where the request names none.
    fn default_flavor(&self, _: &ProfileType) -> Option<String> {
        None
    }

    /// Checks that the requirements of a profile in a flavor are met, such as a framework or an operator, before
    /// anything is stored. What is missing only temporarily is no reason to refuse.
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

    /// The recovery operations of a type, as requests name them.
    fn recoveries(&self, _: &ProfileType) -> &'static [&'static str] {
        &[RECREATE]
    }

    /// Observes a cluster. An error means *unknown*, never *gone*. After a write was acknowledged, what is observed is at
    /// least as new as that write.
    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError>;

    /// Observes whether nodes are healthy: a node that exists and does not work is not.
    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.observe(target, nodes).await
    }

    /// Details of a node, for people to read.
    async fn details(&self, _: ClusterTarget<'_>, _node: &Node) -> Result<Map<String, Value>, ProviderError> {
        Ok(Map::new())
    }

    /// The logs that are stored of the nodes of a deleted cluster; none if they were removed with it.
    async fn stored_logs(&self, _: &Cluster, _: LogQuery) -> Result<Vec<StoredLog>, ProviderError> {
        Ok(Vec::new())
    }

    /// A node's log, in whole lines.
    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        _node: &Node,
        _query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        Err(ProviderError::permanent("NoLogs", format!("nodes of type {} keep no logs", target.profile.kind)))
    }

    /// The environment variables of programs that use the cluster, secrets too.
    async fn environment(&self, _: ClusterTarget<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        Ok(BTreeMap::new())
    }

    /// The capacity of the machine that all nodes share; none if nodes are placed on several.
    fn capacity(&self) -> Option<Capacity> {
        None
    }

    /// Whether a cluster is used, as it reports itself. Called only where [`Capabilities::reports_activity`] is set.
    async fn activity(&self, _: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        Ok(Activity::Unknown)
    }

    /// How much workers have to do, as their head reports it, in any unit that grows with it; one that is not named is
    /// idle. When a group shrinks, those with the least to do go first.
    async fn load(
        &self,
        _: ClusterTarget<'_>,
        _nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        Ok(HashMap::new())
    }

    /// Publishes changes in the world, for as long as it is polled. One that cannot know what happened before begins
    /// with [`WorldChange::Everything`].
    fn changes(&self) -> BoxStream<'static, WorldChange>;
}

//! The port to the providers on which nodes run: a common trait that reads, and two traits that write.
//!
//! [`NodeProvider`] starts and stops single nodes; [`OperatorProvider`] writes the object that an operator acts on.
//! Reads take a [`ClusterTarget`]; every write is idempotent and takes a [`FencedCall`], and is refused where a higher
//! fence was seen. A call may be dropped before it ends, because its action is cancelled, suspended, timed out or taken
//! over: the next call of the same verb continues what the dropped call began, or a deletion removes it.

pub(crate) mod activity;
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
    Bounds, MemberId, ObjectChange, ObjectContent, ObjectSpec, ObjectState, ObservedGroup, ObservedMember,
    OperatorCapabilities, OperatorProvider,
};
pub use crate::ports::provider::templates::{NAME_TAKEN, TemplateProvider};

/// The recovery operation that recreates a node; all types support it.
pub const RECREATE: &str = "RECREATE";

/// The party that starts and stops single nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// Muster starts and stops each node.
    Individual,
    /// An operator starts and stops the nodes; Muster sets the sizes.
    Delegated(OperatorCapabilities),
}

/// The capabilities of a provider for clusters of a profile type and flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub struct Capabilities {
    /// The party that starts and stops single nodes.
    pub membership: Membership,
    /// There is a head besides the workers.
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

/// The error reason of nodes that exit while they start.
const NODE_EXITED: &str = "NodeExited";

/// The error reason of an invalid value.
pub const INVALID: &str = "Invalid";

/// The error reason of an object whose name another object has.
pub const ALREADY_EXISTS: &str = "AlreadyExists";

/// The error reason of a write that was refused because another program had changed the object.
pub const CHANGED_MEANWHILE: &str = "ChangedMeanwhile";

/// The error reason of an object whose namespace does not exist.
pub const NO_NAMESPACE: &str = "NoNamespace";

const NOT_YET: &str = "NotYet";

const OVERTAKEN: &str = "Overtaken";

/// The error of a provider call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// True if a retry may succeed.
    pub transient: bool,
    /// A stable reason, such as `PortInUse`.
    pub reason: String,
    /// A message with details, such as the value, the limit, the last lines of a log.
    pub message: String,
    /// The higher fence that the target has seen, if that is why the call failed.
    pub overtaken_by: Option<Fence>,
}

impl ProviderError {
    /// Creates an error that no retry can solve.
    pub fn permanent(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: false, reason: reason.to_owned(), message: message.into(), overtaken_by: None }
    }

    /// Creates the error of a target that has seen a higher fence: another engine owns the action by now, or the
    /// database was restored from an older copy.
    pub fn overtaken(given: Fence, by: Fence) -> Self {
        let message = format!("fence {} is older than {}, which was used before", given.0, by.0);
        Self { overtaken_by: Some(by), ..Self::transient(OVERTAKEN, message) }
    }

    /// Creates the error of a state that is not known yet because the observation has only just begun: nothing is
    /// wrong.
    pub fn not_yet(message: impl Into<String>) -> Self {
        Self::transient(NOT_YET, message)
    }

    /// Returns true if the state is not known because the observation has only just begun.
    pub(crate) fn is_not_yet(&self) -> bool {
        self.reason == NOT_YET
    }

    /// Creates the error of a node that exited while it started. The start is retried within the budget of starts.
    pub fn node_exited(message: impl Into<String>) -> Self {
        Self::transient(NODE_EXITED, message)
    }

    /// Returns true if a node exited while it started: that becomes an event, although the start is retried.
    pub(crate) fn is_node_exit(&self) -> bool {
        self.reason == NODE_EXITED
    }

    /// Creates an error that a retry may solve.
    pub fn transient(reason: &str, message: impl Into<String>) -> Self {
        Self { transient: true, ..Self::permanent(reason, message) }
    }
}

/// The observed state of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Individual: the observations of nodes that have rows.
    pub nodes: HashMap<NodeId, Observation>,
    /// Individual: nodes whose machine is certainly unhealthy, and why; only a check reports this.
    pub machines: HashMap<NodeId, String>,
    /// Delegated: all members. A member that is not in this list is gone; a provider without a complete list returns an
    /// error.
    pub members: Vec<ObservedMember>,
    /// Delegated: the spec of record.
    pub object: ObjectState,
    /// Delegated: other remaining parts of a deleted object, and what they wait for.
    pub remaining: Vec<String>,
    /// Addresses to connect to, by purpose.
    pub endpoints: BTreeMap<String, String>,
    /// Individual: the versions of what the head runs, while it runs.
    pub versions: Option<Box<SoftwareVersions>>,
    /// Delegated: recent external events about its objects, the oldest first.
    pub external_events: Vec<ExternalEvent>,
}

impl Observed {
    /// Adds the observation of other nodes of the same cluster, which have another profile.
    pub(crate) fn merge(&mut self, other: Self) {
        // Without `..`: a forgotten field must not compile.
        let Self { nodes, machines, members, object, remaining, endpoints, versions, external_events } =
            other;
        self.nodes.extend(nodes);
        self.machines.extend(machines);
        self.members.extend(members);
        if object != ObjectState::Unknown {
            self.object = object;
        }
        self.remaining.extend(remaining);
        self.endpoints.extend(endpoints);
        self.versions = versions.or(self.versions.take());
        self.external_events.extend(external_events);
    }

    /// Copies the endpoints and versions that clients see to a cluster. Versions stay while the head does not run.
    pub(crate) fn write_contact_to(&self, cluster: &mut Cluster) {
        cluster.observed.endpoints.clone_from(&self.endpoints);
        if self.versions.is_some() {
            cluster.observed.versions.clone_from(&self.versions);
        }
    }

    /// Returns the observation of a node; unknown if there is none.
    pub fn of(&self, id: NodeId) -> Observation {
        self.nodes
            .get(&id)
            .cloned()
            .unwrap_or_else(|| Observation::Unknown { reason: "not observed".to_owned() })
    }
}

/// The part of a node's log that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// The number of last lines of each source; none is all that are stored.
    pub tail: Option<usize>,
    /// True to continue with new lines.
    pub follow: bool,
    /// The time since which lines were written; none is all that are stored.
    pub since: Option<Timestamp>,
    /// True to add the files that tasks and executors of the framework write.
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
    /// Wraps lines of the log of a node itself.
    pub const fn of_node(text: String) -> Self {
        Self { source: String::new(), text }
    }
}

/// The parts of a log, as they are read.
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

/// A change that a provider reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorldChange {
    /// This cluster changed.
    Cluster(ClusterId),
    /// This node changed, whichever cluster it is a member of.
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
    /// The reason.
    pub reason: String,
}

impl Unobserved {
    /// Returns true if a cluster is one of them.
    pub fn concerns(&self, cluster: &Cluster) -> bool {
        let is_equal = |own: Option<&str>, of_cluster: &str| own.is_none_or(|own| own == of_cluster);
        is_equal(self.namespace.as_deref(), &cluster.namespace)
            && is_equal(self.flavor, cluster.flavor.as_deref().unwrap_or_default())
    }
}

/// An instance on which nodes run: its capabilities and reads. No method writes.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the instance that the provider serves.
    fn instance(&self) -> &InstanceId;

    /// Returns the capabilities for a profile type, in a flavor or in the default one; none if the provider does not
    /// know them.
    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities>;

    /// Returns the port that starts and stops single nodes. It exists where [`Capabilities::membership`] is
    /// [`Membership::Individual`] for some type.
    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        None
    }

    /// Returns the port that writes objects of operators. It exists where [`Capabilities::membership`] is
    /// [`Membership::Delegated`] for some type.
    fn operator_provider(self: Arc<Self>) -> Option<Arc<dyn OperatorProvider>> {
        None
    }

    /// Returns the port to compute templates, if the provider stores any.
    fn template_provider(self: Arc<Self>) -> Option<Arc<dyn TemplateProvider>> {
        None
    }

    /// Returns the port to apps that are objects of the provider, if it has any.
    fn app_provider(self: Arc<Self>) -> Option<Arc<dyn AppProvider>> {
        None
    }

    /// Returns the port to processes of this host, if commands run on the server's host.
    fn process_provider(self: Arc<Self>) -> Option<Arc<dyn ProcessProvider>> {
        None
    }

    /// Returns the port that builds images, if the provider can.
    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        None
    }

    /// Returns the port that runs commands of jobs, if the provider can.
    fn job_runner(self: Arc<Self>) -> Option<Arc<dyn JobRunner>> {
        None
    }

    /// Returns the port that measures nodes, if the provider can.
    fn node_meter(self: Arc<Self>) -> Option<Arc<dyn NodeMeter>> {
        None
    }

    /// Returns the port to configuration sets, if the provider stores any.
    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        None
    }

    /// Checks a recipe before anything is stored; the error says what is wrong.
    fn check_profile(&self, profile: &Profile) -> Result<(), String>;

    /// Returns an error with the reason if the provider has not discovered its environment.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the clusters that the provider cannot observe at present, and why.
    fn unobserved(&self) -> Vec<Unobserved> {
        Vec::new()
    }

    /// Returns the type of nodes that may be in no cluster; none if there are no such nodes.
    fn orphan_type(&self) -> Option<ProfileType> {
        None
    }

    /// Returns the flavor of a new cluster of a type if the request names none.
    fn default_flavor(&self, _: &ProfileType) -> Option<String> {
        None
    }

    /// Checks that the requirements of a profile in a flavor are met, such as a framework or an operator, before
    /// anything is stored. A requirement that is missing only temporarily is no reason to refuse.
    async fn admit(&self, _: &Profile, _flavor: Option<&str>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Checks a cluster's own properties, such as its labels, before they are stored; the error says what is wrong.
    fn check_cluster(&self, _: &Cluster) -> Result<(), String> {
        Ok(())
    }

    /// Checks that a new cluster can be created with its name, its groups and its namespace, before anything is stored.
    /// An unknown state is no reason to refuse.
    async fn admit_cluster(&self, _: &Cluster, _: &Profile) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Checks that nodes can be created after an update, from `before` to the cluster as it should be, before anything
    /// is stored. An unknown state is no reason to refuse.
    async fn admit_update(&self, _: ClusterTarget<'_>, _before: &Cluster) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Returns the operations that nodes of a type support, besides those that all nodes do.
    fn operations(&self, _: &ProfileType) -> Vec<Operation> {
        Vec::new()
    }

    /// Returns the recovery operations of a type, as requests name them.
    fn recoveries(&self, _: &ProfileType) -> &'static [&'static str] {
        &[RECREATE]
    }

    /// Observes a cluster. An error means *unknown*, never *gone*. After a write was acknowledged, the observation is
    /// at least as new as that write.
    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError>;

    /// Observes the health of nodes: a node that exists and does not work is unhealthy.
    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.observe(target, nodes).await
    }

    /// Returns details of a node, for users to read.
    async fn details(&self, _: ClusterTarget<'_>, _node: &Node) -> Result<Map<String, Value>, ProviderError> {
        Ok(Map::new())
    }

    /// Returns the stored logs of the nodes of a deleted cluster; none if they were removed with the cluster.
    async fn stored_logs(&self, _: &Cluster, _: LogQuery) -> Result<Vec<StoredLog>, ProviderError> {
        Ok(Vec::new())
    }

    /// Returns a node's log, in whole lines.
    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        _node: &Node,
        _query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        Err(ProviderError::permanent("NoLogs", format!("nodes of type {} have no logs", target.profile.kind)))
    }

    /// Returns the environment variables of programs that use the cluster, including secrets.
    async fn environment(&self, _: ClusterTarget<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        Ok(BTreeMap::new())
    }

    /// Returns the capacity of the machine that all nodes share; none if nodes are placed on several machines.
    fn capacity(&self) -> Option<Capacity> {
        None
    }

    /// Queries a cluster for its activity.
    async fn activity(&self, _: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        Ok(Activity::Unknown)
    }

    /// Returns the load of workers as their head reports it, in any unit that grows with the load; a worker that is not
    /// named is idle. When a group shrinks, the workers with the least load are removed first.
    async fn load(
        &self,
        _: ClusterTarget<'_>,
        _nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        Ok(HashMap::new())
    }

    /// Returns a stream of changes. A stream whose provider cannot know what happened before begins with
    /// [`WorldChange::Everything`].
    fn changes(&self) -> BoxStream<'static, WorldChange>;
}

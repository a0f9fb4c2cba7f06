//! Delegated membership: an operator creates the members of a cluster from the object that Muster writes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use muster_core::action::Fence;
use muster_core::app::EphemeralMark;
use muster_core::change::ClusterUpdate;
use muster_core::cluster::{Cluster, WorkerTemplate};
use muster_core::ids::ClusterId;
use muster_core::node::{MEMBER, Node, NodeRole, Observation};
use muster_core::principal::Owner;
use muster_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ports::provider::{ClusterTarget, DiscoveredCluster, FencedCall, ProviderError};

/// Writes the objects that operators act on, and knows the clusters that exist.
#[async_trait]
pub trait OperatorProvider: Send + Sync {
    /// Creates the object unless it exists; another cluster's object of that name is a permanent error.
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError>;

    /// Requests the deletion of the object and its dependents, which are gone only when that is observed.
    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError>;

    /// Writes what differs between the cluster before the change and as it should be, and nothing else: sizes, bounds,
    /// shape, image and environment. It is one write if the object is a single one. The fence is written even if
    /// nothing differs.
    ///
    /// If the object no longer holds the cluster before the change in the fields to be written, the error is transient:
    /// the action observes the object again.
    async fn write(&self, call: FencedCall<'_>, change: ObjectChange<'_>) -> Result<(), ProviderError>;

    /// Returns true if an update changes the recipe of nodes in the object as it is now; others may have changed the
    /// object since it was observed. None if only the recipes of the cluster before and after the update show that.
    async fn differs(
        &self,
        _after: ClusterTarget<'_>,
        _before: &Cluster,
        _update: &ClusterUpdate,
    ) -> Result<Option<bool>, ProviderError> {
        Ok(None)
    }

    /// Removes temporary fields that were needed only until the goal was observed, such as names of victims.
    async fn settle(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Replaces exactly these incarnations of members; one that is gone counts as replaced. If the head is missing,
    /// causes its operator to recreate it.
    async fn replace_members(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError>;

    /// Returns the clusters that are known to exist, managed or external.
    fn discovered(&self) -> Vec<ClusterId> {
        Vec::new()
    }

    /// Separates the object under this id from the deleted cluster that had the id: from now on the object is
    /// discovered under an id of its own.
    fn disown(&self, _: ClusterId) {}

    /// Describes a discovered cluster; none if it does not exist.
    async fn describe(&self, _: ClusterId) -> Result<Option<DiscoveredCluster>, ProviderError> {
        Ok(None)
    }
}

/// The change of an object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectChange<'a> {
    /// The cluster before the change.
    pub before: &'a Cluster,
    /// The groups whose sizes are written even if they stay.
    pub resized: &'a [String],
    /// The update, if the change is one. The recipe that it names is written also where only the object differs.
    pub update: Option<&'a ClusterUpdate>,
    /// The workers that are removed first where a group shrinks.
    pub victims: &'a [Node],
}

/// The capabilities of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorCapabilities {
    /// The head can be replaced on request.
    pub replaces_head: bool,
    /// Running members are recreated when their recipe changes; otherwise only new ones have the new recipe.
    pub rolls: bool,
    /// A worker that is removed is recreated from the present recipe.
    pub replaces_workers: bool,
}

/// The state of the object that holds a cluster's intent: the spec of record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ObjectState {
    /// The state is unknown, which changes nothing. Also the value of types without such an object.
    #[default]
    Unknown,
    /// The object certainly does not exist: a delete event, or absence from a complete list. Another cluster's object
    /// of that name does not count.
    Absent,
    /// The object exists.
    Present(ObjectSpec),
}

/// The content of the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub struct ObjectSpec {
    /// The identity of the object: another one of the same name has another identity.
    pub identity: String,
    /// The fence of Muster's last write to it; zero if there was none.
    pub fence: Fence,
    /// Rises whenever anyone changes what the object specifies.
    pub generation: u64,
    /// Its groups of workers.
    pub groups: Vec<ObservedGroup>,
    /// True if the object was deleted and is not gone yet.
    pub leaving: bool,
    /// True if the cluster is suspended.
    pub suspended: bool,
    /// True if the creation was interrupted: some parts are missing, and another creation adds them.
    pub unfinished: bool,
    /// Parts that were deleted elsewhere and that no operator recreates; the next requested action recreates them.
    pub missing: Vec<String>,
    /// True if this object configures workers such that they rejoin the next head.
    pub workers_outlive_head: bool,
    /// The reasons why its operator refuses the object, which only another write resolves.
    pub refused: Vec<String>,
    /// The reasons why the cluster as a whole is pending, such as a quota or an operator that does not run.
    pub pending: Vec<String>,
    /// The state that its operator reports: empty before it has reported any. None if it does not report states.
    pub reported_state: Option<String>,
    /// The ports of its head by purpose, as its operator reports them.
    pub ports: BTreeMap<String, String>,
    /// Its content, if it differs from the content that the row of its cluster has stored.
    pub content: Option<Box<ObjectContent>>,
}

/// The content of an object that APIs show, and that the row of an external cluster follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectContent {
    /// Differs whenever the content does.
    pub digest: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The owner of its cluster, if known; empty otherwise.
    pub owner: Owner,
    /// The creator of its cluster, if known.
    pub user: String,
    /// The app that its cluster ends with, as the object says.
    pub ephemeral: Option<EphemeralMark>,
    /// The object as APIs show it; none if no API does.
    pub shown: Option<Value>,
}

/// One group of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedGroup {
    /// Its name.
    pub name: String,
    /// Its desired number of workers.
    pub desired: u32,
    /// Its bounds; none if the object has none, and the row keeps its own.
    pub bounds: Option<Bounds>,
    /// True if an autoscaler may choose a size below `desired` until a resize writes the size again.
    pub floor_differs: bool,
    /// True if an autoscaler decides the size between the bounds: Muster writes only the bounds.
    pub autoscaled: bool,
    /// The template of its workers, if known.
    pub template: Option<WorkerTemplate>,
}

/// The bounds of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The lower bound.
    pub min: u32,
    /// The upper bound, if there is one.
    pub max: Option<u32>,
}

/// A member that an operator created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMember {
    /// Its identity and incarnation.
    pub id: MemberId,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: NodeRole,
    /// The group it is in.
    pub group: Option<String>,
    /// Its observed state.
    pub observation: Observation,
    /// The reason why the member does not run yet, if known, such as an image that cannot be pulled.
    pub reason: String,
    /// True if the member is being removed.
    pub leaving: bool,
    /// True if the member was created from another template than the object holds now.
    pub outdated: bool,
    /// Its creation time, if known.
    pub created_at: Option<Timestamp>,
}

/// The identity of a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// Stable for as long as the member has its place: a pod's name in a stateful set, its UID elsewhere.
    pub identity: String,
    /// Changes whenever the member is recreated: the pod's UID.
    pub uid: String,
}

impl MemberId {
    /// Returns the member that a node represents; none while the node is a placeholder.
    pub fn of(node: &Node) -> Option<Self> {
        let member = node.data.get(MEMBER)?;
        let text = |key: &str| member.get(key)?.as_str().map(str::to_owned);
        Some(Self { identity: text("identity")?, uid: text("uid")? })
    }

    pub(crate) fn bind(self, node: &mut Node) {
        let member = serde_json::json!({"identity": self.identity, "uid": self.uid});
        node.data.insert(MEMBER.to_owned(), member);
        // A new pod was created from the present template of the object.
        node.set_outdated(false);
    }

    pub(crate) fn unbind(node: &mut Node) {
        node.data.remove(MEMBER);
    }
}

//! Delegated membership: an operator creates the members of a cluster from the object that Muster writes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use muster_core::action::Fence;
use muster_core::app::EphemeralMark;
use muster_core::cluster::{Cluster, WorkerTemplate};
use muster_core::ids::ClusterId;
use muster_core::node::{MEMBER, Node, NodeRole, Observation};
use muster_core::principal::Owner;
use muster_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ports::provider::{DiscoveredCluster, FencedCall, ProviderError};

/// Writes the objects that operators act on, and knows the clusters that exist.
#[async_trait]
pub trait OperatorProvider: Send + Sync {
    /// Creates the object, once; another cluster's object of that name is a permanent error.
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError>;

    /// Requests the deletion of the object and what belongs to it; it is gone once that is observed.
    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError>;

    /// Writes what differs between `before` and the cluster as it should be, and nothing else: sizes, bounds, shape,
    /// image, environment, all in one write where the object is one, with the fence even if nothing differs. The sizes of
    /// the `resized` groups are written also if they stay. `victims` are removed first where a group shrinks. An object that no longer holds `before` in what would be written is a
    /// transient error: it is observed again.
    async fn write(
        &self,
        call: FencedCall<'_>,
        before: &Cluster,
        resized: &[String],
        victims: &[Node],
    ) -> Result<(), ProviderError>;

    /// Removes what was written only until the goal is observed, such as names of victims.
    async fn settle(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Replaces just these incarnations of members. One that is gone is replaced already. If the head is missing, its
    /// operator is made to recreate it.
    async fn replace_members(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError>;

    /// Clusters that exist, managed or external, as far as they are known.
    fn discovered(&self) -> Vec<ClusterId> {
        Vec::new()
    }

    /// The object under this id is not the cluster that had it: from now on it is discovered under an id of its own.
    fn disown(&self, _: ClusterId) {}

    /// Describes a discovered cluster; none if it does not exist.
    async fn describe(&self, _: ClusterId) -> Result<Option<DiscoveredCluster>, ProviderError> {
        Ok(None)
    }
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
    /// Unknown now; changes nothing. Also the value of types without such an object.
    #[default]
    Unknown,
    /// It certainly does not exist: a delete event, or absence from a complete list. Another cluster's object of that
    /// name does not count.
    Absent,
    /// It exists.
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
    /// It was deleted and is not gone yet.
    pub leaving: bool,
    /// It is suspended.
    pub suspended: bool,
    /// Its creation was interrupted: some of its parts are missing, and creating it again adds them.
    pub unfinished: bool,
    /// Parts that were deleted elsewhere and that no operator recreates; the next requested action recreates them.
    pub missing: Vec<String>,
    /// Workers rejoin the next head, because this object configures them so.
    pub workers_outlive_head: bool,
    /// Why its operator refuses the object: only another write helps.
    pub refused: Vec<String>,
    /// What its operator waits for: a quota, the operator itself.
    pub pending: Vec<String>,
    /// The state that its operator reports: empty before it has reported any. None if it does not report states.
    pub reported_state: Option<String>,
    /// The ports of its head by purpose, as its operator reports them.
    pub ports: BTreeMap<String, String>,
    /// Its content, if that is other than the row of its cluster has stored.
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
    /// An autoscaler beside the object may choose a size below this one, which a resize prevents.
    pub floor_differs: bool,
    /// An autoscaler decides the size between the bounds: Muster writes only the bounds.
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
    /// Why it does not run yet, if known: unschedulable, an image that cannot be pulled.
    pub reason: String,
    /// It is being removed.
    pub leaving: bool,
    /// It was created from another template than the object holds now.
    pub outdated: bool,
    /// When it was created, if known.
    pub created_at: Option<Timestamp>,
}

/// The identity of a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// Stable for as long as it has its place: a pod's name in a stateful set, its UID elsewhere.
    pub identity: String,
    /// Changes whenever the member is recreated: the pod's UID.
    pub uid: String,
}

impl MemberId {
    /// The member that a node represents; none while it is a placeholder.
    pub fn of(node: &Node) -> Option<Self> {
        let member = node.data.get(MEMBER)?;
        let text = |key: &str| member.get(key)?.as_str().map(str::to_owned);
        Some(Self { identity: text("identity")?, uid: text("uid")? })
    }

    pub(crate) fn bind(self, node: &mut Node) {
        let member = serde_json::json!({"identity": self.identity, "uid": self.uid});
        node.data.insert(MEMBER.to_owned(), member);
        // Another pod was made from what the object says now.
        node.set_outdated(false);
    }

    pub(crate) fn unbind(node: &mut Node) {
        node.data.remove(MEMBER);
    }
}

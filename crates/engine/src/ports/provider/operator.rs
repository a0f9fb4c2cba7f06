//! Delegated membership: an operator makes the members of a cluster, from the object that Muster writes.

use async_trait::async_trait;
use muster_core::action::Fence;
use muster_core::cluster::{Cluster, Made};
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole, Seen};
use serde::{Deserialize, Serialize};

use crate::ports::provider::{DiscoveredCluster, FencedCall, ProviderError};

/// Writes the objects that operators act on, and knows the clusters that are there.
#[async_trait]
pub trait OperatorProvider: Send + Sync {
    /// Makes the object, once; another cluster's object of that name is a permanent error.
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError>;

    /// Requests the deletion of the object and what belongs to it; it is gone once that is observed.
    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError>;

    /// Writes what differs between `before` and the cluster as it should be, and nothing else: sizes, bounds, shape,
    /// image, environment, all in one write where the object is one, with the fence even if nothing differs. `victims`
    /// go first where a group shrinks. An object that no longer holds `before` in what would be written is a transient
    /// error: it is observed again.
    async fn write(
        &self,
        call: FencedCall<'_>,
        before: &Cluster,
        victims: &[Node],
    ) -> Result<(), ProviderError>;

    /// Removes what was written only until the goal is observed, such as names of victims.
    async fn settle(&self, _: FencedCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Replaces just these incarnations of members, the head among them if it is there. One that is gone is replaced
    /// already. Where the head is missing, its operator is made to recreate it.
    async fn restart_head(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError>;

    /// Clusters that are there, managed or external, as far as that is known now.
    fn discovered(&self) -> Vec<ClusterId> {
        Vec::new()
    }

    /// The object under this id is not the cluster that had it: from now on it is discovered under an id of its own.
    fn disown(&self, _: ClusterId) {}

    /// Reads what a discovered cluster is; none if it is not there.
    async fn describe(&self, _: ClusterId) -> Result<Option<DiscoveredCluster>, ProviderError> {
        Ok(None)
    }
}

/// What can be asked of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator {
    /// The head can be replaced on request.
    pub replaces_head: bool,
    /// Members that run are made anew when their recipe changes; otherwise only new ones have the new recipe.
    pub rolls: bool,
}

/// The object that says how a cluster should be: the spec of record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Object {
    /// Nobody can tell now; changes nothing. Also what types without such an object say.
    #[default]
    Unknown,
    /// It is certainly not there: a delete event, or absence from a complete list. An object of that name which is not
    /// this cluster's is not this object.
    Absent,
    /// It is there.
    Present(Spec),
}

/// What the object says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub struct Spec {
    /// Which object it is: another one of the same name has another identity.
    pub identity: String,
    /// The fence of Muster's last write to it; zero if there was none.
    pub fence: Fence,
    /// Its groups of workers.
    pub groups: Vec<SeenGroup>,
    /// Somebody deleted it, and it is not gone yet.
    pub leaving: bool,
    /// Nothing of it shall run for now.
    pub suspended: bool,
    /// Its creation was interrupted: not all that belongs to it is there, and creating it again makes the rest.
    pub unfinished: bool,
    /// What others took away of it and no operator makes again, in words: an action that somebody asks for does.
    pub missing: Vec<String>,
    /// Workers are known to the next head too, because of what this object says.
    pub workers_outlive_head: bool,
    /// Why its operator will not act on what it says now: only another write helps.
    pub refused: Vec<String>,
    /// What its operator waits for, in words: a quota, the operator itself.
    pub pending: Vec<String>,
}

/// What the object says of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenGroup {
    /// Its name.
    pub name: String,
    /// How many workers it shall have.
    pub desired: u32,
    /// Between which bounds; none if the object knows no bounds, and the row keeps its own.
    pub bounds: Option<Bounds>,
    /// Somebody's autoscaler decides how many, between the bounds: Muster writes only those.
    pub autoscaled: bool,
    /// What its workers are made from, if that can be told.
    pub made: Option<Made>,
}

/// The bounds of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// At least so many.
    pub min: u32,
    /// At most so many, if there is a bound.
    pub max: Option<u32>,
}

/// A member that an operator made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    /// What it is, and which making of that.
    pub id: MemberId,
    /// What people call it.
    pub name: String,
    /// What it is to its cluster.
    pub role: NodeRole,
    /// The group it is in.
    pub group: Option<String>,
    /// How it is.
    pub seen: Seen,
    /// Why it does not work yet, if somebody says so: unschedulable, an image that cannot be pulled.
    pub reason: String,
    /// It is on its way out.
    pub leaving: bool,
    /// It was made from another recipe than the object holds now.
    pub outdated: bool,
}

/// What a member is recognised by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// The same for as long as it has its place: a pod's name in a stateful set, its UID elsewhere.
    pub identity: String,
    /// Another one whenever it is made anew: the pod's UID.
    pub uid: String,
}

/// Where a node's row keeps what its member is recognised by.
const MEMBER: &str = "member";

impl MemberId {
    /// The member that a node stands for; none while it is a placeholder.
    pub fn of(node: &Node) -> Option<Self> {
        let member = node.data.get(MEMBER)?;
        let text = |key: &str| member.get(key)?.as_str().map(str::to_owned);
        Some(Self { identity: text("identity")?, uid: text("uid")? })
    }

    pub(crate) fn bind(self, node: &mut Node) {
        let member = serde_json::json!({"identity": self.identity, "uid": self.uid});
        node.data.insert(MEMBER.to_owned(), member);
    }

    pub(crate) fn unbind(node: &mut Node) {
        node.data.remove(MEMBER);
    }
}

//! Changes: one variant per kind of action, with its inputs.
//!
//! An action stores the kind and the inputs as JSON. [`Change::read`] is the only place that reads that form and
//! [`Change::inputs`] the only one that writes it, so a new kind does not compile until both know it.

mod cluster;
mod node;
mod update;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::action::ActionKind;
use crate::ids::NodeId;

pub use cluster::{AddNodes, Check, PolicyChange, RemoveNodes, ReplaceNodes, ResizeGroup, Scale};
pub use node::{NewMember, NodeUpdate, OperateNodes, Recovery};
pub use update::{ClusterUpdate, GroupChange, MapChange, NodeChange, RestartScope};

/// A change of a cluster or node.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Creates a cluster and its nodes.
    CreateCluster,
    /// Deletes a cluster and its nodes.
    DeleteCluster(Delete),
    /// Changes properties, sizes or the profile.
    UpdateCluster(Box<ClusterUpdate>),
    /// Adds orphans as members.
    AddNodes(AddNodes),
    /// Removes members: they become orphans or are deleted.
    RemoveNodes(RemoveNodes),
    /// Replaces members by orphans.
    ReplaceNodes(ReplaceNodes),
    /// Changes the size of a group, its bounds, or both.
    Resize(ResizeGroup),
    /// Grows by a count.
    ScaleOut(Scale),
    /// Shrinks by a count.
    ScaleIn(Scale),
    /// Checks every node.
    CheckCluster(Check),
    /// Recovers lost nodes.
    RecoverCluster(Recovery),
    /// Runs an operation of the profile type on nodes.
    OperateCluster(OperateNodes),
    /// Binds a policy.
    AttachPolicy(PolicyChange),
    /// Unbinds a policy.
    DetachPolicy(PolicyChange),
    /// Enables or disables a bound policy.
    UpdatePolicy(PolicyChange),
    /// Creates a node.
    CreateNode(NewMember),
    /// Deletes a node.
    DeleteNode(Delete),
    /// Changes a node.
    UpdateNode(NodeUpdate),
    /// Makes an orphan a member; exists only as a child of another action.
    JoinNode,
    /// Makes a member an orphan; exists only as a child of another action.
    LeaveNode,
    /// Checks a node.
    CheckNode(Check),
    /// Recovers a node; restarts it if it is a head.
    RecoverNode(Recovery),
    /// Runs an operation of the profile type on a node.
    OperateNode(OperateNodes),
}

/// A deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Delete {
    /// Delete also while another action runs, or if no engine serves the instance any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

impl Change {
    /// Reads a change from the kind and the stored inputs of an action; the error says what cannot be read. Unknown
    /// keys are ignored, because a newer version may have written them.
    pub fn read(kind: ActionKind, inputs: &Value) -> Result<Self, String> {
        Ok(match kind {
            ActionKind::ClusterCreate => Self::CreateCluster,
            ActionKind::ClusterDelete => Self::DeleteCluster(read(inputs)?),
            ActionKind::ClusterUpdate => Self::UpdateCluster(Box::new(ClusterUpdate::read(inputs)?)),
            ActionKind::ClusterAddNodes => Self::AddNodes(read(inputs)?),
            ActionKind::ClusterDelNodes => Self::RemoveNodes(read(inputs)?),
            ActionKind::ClusterReplaceNodes => Self::ReplaceNodes(read(inputs)?),
            ActionKind::ClusterResize => Self::Resize(read(inputs)?),
            ActionKind::ClusterScaleOut => Self::ScaleOut(Scale::read(inputs, "out")?),
            ActionKind::ClusterScaleIn => Self::ScaleIn(Scale::read(inputs, "in")?),
            ActionKind::ClusterCheck => Self::CheckCluster(read(inputs)?),
            ActionKind::ClusterRecover => Self::RecoverCluster(read(inputs)?),
            ActionKind::ClusterOperation => Self::OperateCluster(read(inputs)?),
            ActionKind::ClusterAttachPolicy => Self::AttachPolicy(read(inputs)?),
            ActionKind::ClusterDetachPolicy => Self::DetachPolicy(read(inputs)?),
            ActionKind::ClusterUpdatePolicy => Self::UpdatePolicy(read(inputs)?),
            ActionKind::NodeCreate => Self::CreateNode(read(inputs)?),
            ActionKind::NodeDelete => Self::DeleteNode(read(inputs)?),
            ActionKind::NodeUpdate => Self::UpdateNode(read(inputs)?),
            ActionKind::NodeJoin => Self::JoinNode,
            ActionKind::NodeLeave => Self::LeaveNode,
            ActionKind::NodeCheck => Self::CheckNode(read(inputs)?),
            ActionKind::NodeRecover => Self::RecoverNode(read(inputs)?),
            ActionKind::NodeOperation => Self::OperateNode(read(inputs)?),
            // Never claimed by this engine; only a newer version can run it.
            ActionKind::Unknown(_) => {
                return Err(format!("this version does not know actions of kind {kind}"));
            }
        })
    }

    /// The kind of its action.
    pub const fn kind(&self) -> ActionKind {
        match self {
            Self::CreateCluster => ActionKind::ClusterCreate,
            Self::DeleteCluster(_) => ActionKind::ClusterDelete,
            Self::UpdateCluster(_) => ActionKind::ClusterUpdate,
            Self::AddNodes(_) => ActionKind::ClusterAddNodes,
            Self::RemoveNodes(_) => ActionKind::ClusterDelNodes,
            Self::ReplaceNodes(_) => ActionKind::ClusterReplaceNodes,
            Self::Resize(_) => ActionKind::ClusterResize,
            Self::ScaleOut(_) => ActionKind::ClusterScaleOut,
            Self::ScaleIn(_) => ActionKind::ClusterScaleIn,
            Self::CheckCluster(_) => ActionKind::ClusterCheck,
            Self::RecoverCluster(_) => ActionKind::ClusterRecover,
            Self::OperateCluster(_) => ActionKind::ClusterOperation,
            Self::AttachPolicy(_) => ActionKind::ClusterAttachPolicy,
            Self::DetachPolicy(_) => ActionKind::ClusterDetachPolicy,
            Self::UpdatePolicy(_) => ActionKind::ClusterUpdatePolicy,
            Self::CreateNode(_) => ActionKind::NodeCreate,
            Self::DeleteNode(_) => ActionKind::NodeDelete,
            Self::UpdateNode(_) => ActionKind::NodeUpdate,
            Self::JoinNode => ActionKind::NodeJoin,
            Self::LeaveNode => ActionKind::NodeLeave,
            Self::CheckNode(_) => ActionKind::NodeCheck,
            Self::RecoverNode(_) => ActionKind::NodeRecover,
            Self::OperateNode(_) => ActionKind::NodeOperation,
        }
    }

    /// The version of the format of its inputs: engines claim only actions whose version they can read.
    pub fn version(&self) -> u32 {
        match self {
            Self::UpdateCluster(update) => update.version(),
            _ => 1,
        }
    }

    /// The inputs as an action stores them.
    pub fn inputs(&self) -> Value {
        match self {
            Self::CreateCluster | Self::JoinNode | Self::LeaveNode => Value::Object(Map::new()),
            Self::DeleteCluster(delete) | Self::DeleteNode(delete) => write(delete),
            Self::UpdateCluster(update) => write(update),
            Self::AddNodes(add) => write(add),
            Self::RemoveNodes(remove) => write(remove),
            Self::ReplaceNodes(replace) => write(replace),
            Self::Resize(resize) => write(resize),
            Self::ScaleOut(scale) | Self::ScaleIn(scale) => write(scale),
            Self::CheckCluster(check) | Self::CheckNode(check) => write(check),
            Self::RecoverCluster(recovery) | Self::RecoverNode(recovery) => write(recovery),
            Self::OperateCluster(operation) | Self::OperateNode(operation) => write(operation),
            Self::AttachPolicy(policy) | Self::DetachPolicy(policy) | Self::UpdatePolicy(policy) => {
                write(policy)
            }
            Self::CreateNode(new) => write(new),
            Self::UpdateNode(update) => write(update),
        }
    }

    /// The worker group that the change names; none stands for the first group.
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Resize(ResizeGroup { group, .. })
            | Self::ScaleOut(Scale { group, .. })
            | Self::ScaleIn(Scale { group, .. })
            | Self::AddNodes(AddNodes { group, .. })
            | Self::CreateNode(NewMember { group }) => group.as_deref(),
            _ => None,
        }
    }

    /// The members that the change names to be removed, in this order.
    pub fn named_victims(&self) -> Option<Vec<NodeId>> {
        let named = match self {
            Self::Resize(ResizeGroup { candidates, .. }) | Self::ScaleIn(Scale { candidates, .. }) => {
                candidates.clone()
            }
            Self::RemoveNodes(RemoveNodes { nodes, .. }) => Some(nodes.clone()),
            Self::ReplaceNodes(ReplaceNodes { nodes }) => Some(nodes.keys().copied().collect()),
            _ => None,
        };
        named.filter(|named| !named.is_empty())
    }

    /// Returns true if the change may change the sizes of groups.
    pub fn resizes(&self) -> bool {
        match self {
            Self::Resize(_) | Self::ScaleOut(_) | Self::ScaleIn(_) => true,
            Self::UpdateCluster(update) => update.resizes(),
            _ => false,
        }
    }
}

fn read<T: DeserializeOwned>(inputs: &Value) -> Result<T, String> {
    T::deserialize(inputs).map_err(|error| format!("the inputs cannot be read: {error}"))
}

/// Serializes inputs. This cannot fail, because inputs consist of texts, numbers and maps with text keys.
fn write(inputs: &impl Serialize) -> Value {
    serde_json::to_value(inputs).unwrap_or_default()
}

#[cfg(test)]
mod tests;

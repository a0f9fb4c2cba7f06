//! Changes of nodes, and of all nodes of a cluster.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{NodeId, ProfileId};

/// A new node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NewMember {
    /// The group that it joins, if it becomes a member; none is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Properties of a node that an update changes; what is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeUpdate {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A user-defined role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// User data by key; null removes a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// True if the node is removed before others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted: Option<bool>,
    /// The profile that the node shall follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<ProfileId>,
    /// The new profile, in a child action of a cluster's update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_profile_id: Option<ProfileId>,
}

impl NodeUpdate {
    /// Returns true if the update changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The recovery of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// The operation of the profile type that recovers the nodes; none recreates them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The parameters of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_params: Option<Map<String, Value>>,
    /// True if the nodes are checked before they are recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// True if the cluster is also scaled to its desired size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_capacity: Option<bool>,
    /// The longest time in seconds for the deletion of the old node; none stands for the timeout of the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_timeout: Option<u32>,
    /// True if a node is recreated although the old one could not be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_recreate: Option<bool>,
}

/// An operation of the profile type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperateNodes {
    /// The name of the operation.
    pub operation: String,
    /// The parameters of the operation.
    #[serde(default)]
    pub params: Option<Map<String, Value>>,
    /// The members that the operation runs on; none stands for all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeId>>,
}

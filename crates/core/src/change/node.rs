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
    /// Whether it is removed before others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted: Option<bool>,
    /// The profile that it shall follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<ProfileId>,
    /// The new profile, in a child action of a cluster's update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_profile_id: Option<ProfileId>,
}

impl NodeUpdate {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The recovery of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// By which operation of their type; none is by recreating them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_params: Option<Map<String, Value>>,
    /// Whether they are checked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// Whether a cluster is also brought to its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_capacity: Option<bool>,
    /// Seconds within which the old node has to be gone; none is the timeout of the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_timeout: Option<u32>,
    /// Whether a node that cannot be stopped is written off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_recreate: Option<bool>,
}

/// An operation of the profile type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperateNodes {
    /// Which one.
    pub operation: String,
    /// Its parameters.
    #[serde(default)]
    pub params: Option<Map<String, Value>>,
    /// On which members; none is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeId>>,
}

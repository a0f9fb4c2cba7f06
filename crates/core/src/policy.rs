//! Policies, and their bindings to clusters.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{BindingId, ClusterId, PolicyId};
use crate::time::Timestamp;

/// A rule that actions are checked against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Its id.
    pub id: PolicyId,
    /// What people call it.
    pub name: String,
    /// Its type and version, such as `senlin.policy.deletion-1.1`.
    pub kind: String,
    /// The tenant.
    pub project: String,
    /// The user that made it.
    pub user: String,
    /// As it was given.
    pub spec: Map<String, Value>,
    /// What its type keeps with it.
    pub data: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
}

/// A policy's attachment to a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Its id.
    pub id: BindingId,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The policy.
    pub policy: Policy,
    /// Whether it acts.
    pub enabled: bool,
    /// Lower ones are asked first.
    pub priority: i32,
    /// What its type keeps with it.
    pub data: Map<String, Value>,
    /// When it last acted.
    pub last_op: Option<Timestamp>,
}

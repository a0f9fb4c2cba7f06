//! Apps: workloads that use a cluster.

use serde::{Deserialize, Serialize};

use crate::ids::ClusterId;

/// A workload that uses a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// The cluster it uses.
    pub cluster_id: ClusterId,
    /// Whether the cluster goes when it goes.
    pub ephemeral: bool,
}

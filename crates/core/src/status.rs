//! Evaluates the status of a cluster from its nodes.

use crate::cluster::{Cluster, ClusterStatus};
use crate::node::{Node, NodeRole, NodeStatus};

/// The state of the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadState {
    /// The profile type has no head.
    None,
    /// The head works.
    Up,
    /// The head does not work, and is being recovered.
    Recovering,
    /// The head does not work, and is not recovered automatically.
    Lost,
}

/// The status of a cluster with its reason. `operation` is the operation or observation that the reason begins with.
pub fn evaluate(cluster: &Cluster, active: u32, head: HeadState, operation: &str) -> (ClusterStatus, String) {
    match head {
        HeadState::Lost => {
            return (ClusterStatus::Critical, format!("{operation}: the head is lost."));
        }
        HeadState::Recovering => {
            return (ClusterStatus::Recovering, format!("{operation}: the head is being recovered."));
        }
        HeadState::None | HeadState::Up => {}
    }
    let (desired, min) = (cluster.desired(), cluster.min_size());
    let says = |what: String| format!("{operation}: number of active nodes is {what}.");
    if active < min {
        return (ClusterStatus::Error, says(format!("below min_size ({min})")));
    }
    if active < desired {
        return (ClusterStatus::Warning, says(format!("below desired_capacity ({desired})")));
    }
    match cluster.max_size() {
        Some(max) if active > max => (ClusterStatus::Warning, says(format!("above max_size ({max})"))),
        _ => (ClusterStatus::Active, says(format!("equal or above desired_capacity ({desired})"))),
    }
}

/// The number of working workers of a cluster, and the state of its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkingCounts {
    /// The number of working workers.
    pub active: u32,
    /// The state of the head.
    pub head: HeadState,
}

impl WorkingCounts {
    /// Counts the nodes of a cluster.
    pub fn of<'n>(cluster: &Cluster, nodes: impl IntoIterator<Item = &'n Node>) -> Self {
        let (mut active, mut head) = (0_u32, None);
        for node in nodes {
            match node.role {
                NodeRole::Head => head = head.or(Some(node.status)),
                NodeRole::Worker if node.status == NodeStatus::Active => active = active.saturating_add(1),
                NodeRole::Worker | NodeRole::Unknown(_) => {}
            }
        }
        Self { active, head: head_by(cluster, head) }
    }

    /// The status of the cluster with its reason; see [`evaluate`].
    pub fn evaluate(self, cluster: &Cluster, operation: &str) -> (ClusterStatus, String) {
        evaluate(cluster, self.active, self.head, operation)
    }

    /// Writes the counts into the observed summary of the cluster.
    pub fn write_to(self, cluster: &mut Cluster) {
        cluster.observed.ready_workers = Some(self.active);
        cluster.observed.head_ready = cluster.has_head.then_some(self.head == HeadState::Up);
    }
}

/// The state of the head, derived from the status of its row; none if it has no row.
pub fn head_by(cluster: &Cluster, status: Option<NodeStatus>) -> HeadState {
    if !cluster.has_head {
        return HeadState::None;
    }
    match status {
        Some(NodeStatus::Active | NodeStatus::Warning | NodeStatus::Updating | NodeStatus::Operating) => {
            HeadState::Up
        }
        // A status of a newer version is unknown, and unknown never counts as lost.
        Some(NodeStatus::Unknown(_)) => HeadState::Up,
        Some(NodeStatus::Recovering) => HeadState::Recovering,
        _ => HeadState::Lost,
    }
}

#[cfg(test)]
mod tests;

//! Clean-up after an action that ended before its goal: running nodes are kept, starting ones are stopped.

use std::time::Duration;

use futures::StreamExt as _;
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::profile::Profile;

use crate::ports::provider::{Capabilities, FencedCall};
use crate::run::ActionRun;

/// Time limit for each of the two provider calls. What is not done in time is left to the next action.
const WITHIN: Duration = Duration::from_secs(20);

/// The status reason of a cluster whose creation did not succeed.
const LEFT_ALONE: &str = "Nothing is brought back unasked in a cluster whose creation did not succeed: \
                                     restart, scale or delete it.";

/// Whether lost nodes are not recovered until a user requests it. A cancelled creation must not be completed by
/// healing, and a creation that failed once rarely succeeds by retrying.
pub(crate) fn is_left_alone(cluster: &Cluster, capabilities: &Capabilities) -> bool {
    capabilities.heals_by_default && cluster.created_at.is_none()
}

/// The reason, with a note that healing is disabled.
pub(crate) fn left_alone(words: &str) -> String {
    let end = if words.ends_with('.') { "" } else { "." };
    format!("{words}{end} {LEFT_ALONE}")
}

/// Whether an action began to change a node and did not finish.
pub(crate) const fn is_unsettled(status: NodeStatus) -> bool {
    !matches!(status, NodeStatus::Active | NodeStatus::Warning | NodeStatus::Error)
}

impl ActionRun {
    /// Marks running nodes ACTIVE, whatever became of the action, and stops those that do not run yet.
    pub(crate) async fn let_go_of_unfinished(&mut self) {
        let unsettled: Vec<NodeId> =
            self.own_nodes().filter(|node| is_unsettled(node.status)).map(|node| node.id).collect();
        // Delegated members keep their observed status; their operator continues.
        if unsettled.is_empty() || self.subject.is_delegated() || self.has_expired() {
            return;
        }
        for (profile, nodes) in self.subject.by_profile(&unsettled) {
            self.let_go_of(&profile, nodes).await;
        }
    }

    async fn let_go_of(&mut self, profile: &Profile, unsettled: Vec<Node>) {
        let Ok(nodes) = self.node_provider() else { return };
        let (provider, cluster) = (std::sync::Arc::clone(&self.provider), self.subject.cluster.clone());
        let call = FencedCall { cluster: &cluster, profile, fence: self.action.fence };
        let seen = match tokio::time::timeout(WITHIN, provider.observe(call.target(), &unsettled)).await {
            Ok(Ok(seen)) => seen,
            Ok(Err(error)) => return tracing::warn!(%error, "cannot observe what the action leaves"),
            Err(_) => return tracing::warn!("no answer about what the action leaves"),
        };
        let (now, mut starting) = (self.now(), Vec::new());
        for node in unsettled {
            match seen.of(node.id) {
                Seen::Running { physical_id } => self.started(node.id, physical_id, now),
                // An absent node may still be starting.
                Seen::Starting { .. } | Seen::Absent => starting.push(node),
                Seen::Exited { .. } | Seen::HostRestarted | Seen::Unknown { .. } => {}
            }
        }
        let ended = nodes.stop_nodes(call, starting).for_each(|stopped| {
            if let Err(error) = stopped.result {
                tracing::warn!(node = %stopped.node, %error, "cannot be ended");
            }
            std::future::ready(())
        });
        if tokio::time::timeout(WITHIN, ended).await.is_err() {
            tracing::warn!("what does not run yet was not ended in time");
        }
    }
}

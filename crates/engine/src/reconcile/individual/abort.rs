//! Clean-up after an action that ended before its goal: running nodes are kept, starting ones are stopped.

use std::time::Duration;

use futures::StreamExt as _;
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::profile::Profile;

use crate::ports::provider::{Capabilities, FencedCall};
use crate::reconcile::individual::results::record_started;
use crate::run::ActionRun;

/// Time limit for each of the two provider calls. What is not done in time is left to the next action.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The status reason of a cluster whose creation did not succeed.
const HEALING_DISABLED: &str = "Creation did not succeed, so nodes are not restarted automatically: restart, \
                                scale or delete the cluster.";

/// Returns true if lost nodes are recovered only on a user's request. A cancelled creation must not be completed by
/// healing, and a creation that failed once rarely succeeds by retrying.
pub(crate) fn is_healing_disabled(cluster: &Cluster, capabilities: &Capabilities) -> bool {
    capabilities.heals_by_default && cluster.created_at.is_none()
}

/// Appends a note to a reason that healing is disabled.
pub(crate) fn with_healing_disabled(words: &str) -> String {
    let end = if words.ends_with('.') { "" } else { "." };
    format!("{words}{end} {HEALING_DISABLED}")
}

/// Returns true if an action began to change a node and did not finish.
pub(crate) const fn is_unfinished(status: NodeStatus) -> bool {
    !matches!(status, NodeStatus::Active | NodeStatus::Warning | NodeStatus::Error)
}

/// Marks unfinished nodes ACTIVE if they run, although the action did not succeed, and stops those that do not run yet.
pub(crate) async fn stop_unfinished(run: &mut ActionRun) {
    let own = run.subject.own_nodes(run.action.kind);
    let unfinished: Vec<NodeId> = own.filter(|node| is_unfinished(node.status)).map(|node| node.id).collect();
    // Delegated members keep their observed status; their operator continues.
    if unfinished.is_empty() || run.subject.is_delegated() || run.control.has_expired() {
        return;
    }
    for (profile, nodes) in run.subject.by_profile(&unfinished) {
        stop_unfinished_of(run, &profile, nodes).await;
    }
}

async fn stop_unfinished_of(run: &mut ActionRun, profile: &Profile, unfinished: Vec<Node>) {
    let Ok(nodes) = run.node_provider() else { return };
    let cluster = run.subject.cluster.clone();
    let call = FencedCall { cluster: &cluster, profile, fence: run.action.fence };
    let observing = tokio::time::timeout(TIME_LIMIT, run.provider.observe(call.target(), &unfinished));
    let observed = match run.control.yield_slot_while(observing).await {
        Ok(Ok(observed)) => observed,
        Ok(Err(error)) => return tracing::warn!(%error, "cannot observe what the action leaves"),
        Err(_) => return tracing::warn!("no answer about what the action leaves"),
    };
    let (now, mut starting) = (run.now(), Vec::new());
    for node in unfinished {
        match observed.of(node.id) {
            Observation::Running { physical_id } => {
                record_started(&mut run.subject.nodes, &mut run.children, node.id, physical_id, now);
            }
            // An absent node may still be starting.
            Observation::Starting { .. } | Observation::Absent => starting.push(node),
            Observation::Exited { .. } | Observation::HostRestarted | Observation::Unknown { .. } => {}
        }
    }
    let ended = nodes.stop_nodes(call, starting).for_each(|stopped| {
        if let Err(error) = stopped.result {
            tracing::warn!(node = %stopped.node, %error, "cannot be ended");
        }
        std::future::ready(())
    });
    if run.control.yield_slot_while(tokio::time::timeout(TIME_LIMIT, ended)).await.is_err() {
        tracing::warn!("what does not run yet was not ended in time");
    }
}

//! Reasons why nodes do not run yet, or are not stopped yet.

use std::collections::{HashMap, HashSet};

use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::time::Timestamp;

use crate::reconcile::reasons::distinct;
use crate::run::{ActionRun, Members, Stop, summarize};

/// Reported obstacles, with the status reason that each node had before.
#[derive(Default)]
pub(crate) struct Obstacles {
    reported: HashMap<NodeId, String>,
    /// The cluster's status reason before.
    cluster: Option<String>,
}

/// Flushes pending changes, with the reasons why these nodes are not started or stopped yet, as far as the provider
/// knows them.
pub(crate) async fn flush_with_obstacles(
    run: &mut ActionRun,
    changing: &HashSet<NodeId>,
    known: &mut Obstacles,
) -> Result<(), Stop> {
    let reasons = run.node_provider()?.obstacles(run.subject.as_target(), changing);
    if reasons.is_empty() && known.reported.is_empty() {
        return run.flush().await;
    }
    let now = run.now();
    known.record(&mut run.subject.nodes, changing, &reasons, now);
    let cluster = &mut run.subject.cluster;
    let before = known.cluster.get_or_insert_with(|| cluster.status_reason.clone()).clone();
    let new_reason = cluster_reason(run.subject.nodes.as_slice(), &reasons).unwrap_or(before);
    if new_reason == cluster.status_reason {
        return run.flush().await;
    }
    cluster.status_reason = new_reason;
    let mut record = run.pending();
    record.cluster = run.subject.row(&run.action);
    run.record(record).await
}

impl Obstacles {
    /// Records the reasons in the nodes, and restores those of nodes that have no obstacle any more.
    fn record(
        &mut self,
        nodes: &mut Members,
        changing: &HashSet<NodeId>,
        reasons: &HashMap<NodeId, String>,
        now: Timestamp,
    ) {
        let over: Vec<(NodeId, String)> =
            self.reported.extract_if(|id, _| !reasons.contains_key(id)).collect();
        for (id, reason) in reasons.iter().map(|(id, reason)| (*id, reason.clone())).chain(over) {
            let Some(node) = nodes.get(id).filter(|node| node.status_reason != reason) else { continue };
            if reasons.contains_key(&id) {
                self.reported.entry(id).or_insert_with(|| node.status_reason.clone());
            } else if !changing.contains(&id) {
                // The change of this node has ended meanwhile, and the status reason describes its result.
                continue;
            }
            if let Some(node) = nodes.get_mut(id) {
                node.status_reason = reason;
                node.updated_at = Some(now);
            }
        }
    }
}

/// Combines the reasons why the cluster waits, in the order of its nodes.
fn cluster_reason(nodes: &[Node], reasons: &HashMap<NodeId, String>) -> Option<String> {
    let named = |node: &'_ Node| Some((node.name.clone(), reasons.get(&node.id)?.clone()));
    let named: Vec<(String, String)> = nodes.iter().filter_map(named).collect();
    let distinct = distinct(named.iter().map(|(name, reason)| (name.as_str(), reason.as_str())));
    (!distinct.is_empty()).then(|| summarize(&distinct))
}

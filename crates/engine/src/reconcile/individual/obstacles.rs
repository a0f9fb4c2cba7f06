//! Reasons why starting nodes do not run yet.

use std::collections::{HashMap, HashSet};

use muster_core::ids::NodeId;
use muster_core::node::Node;

use crate::reconcile::reasons::distinct;
use crate::run::{ActionRun, Stop, summarize};

/// Reported obstacles, with the status reason that each node had before.
#[derive(Default)]
pub(crate) struct Obstacles {
    reported: HashMap<NodeId, String>,
    /// The cluster's status reason before.
    cluster: Option<String>,
}

impl ActionRun {
    /// Flushes the journal, with the reasons why these nodes do not run yet, as far as the provider knows them.
    pub(crate) async fn flush_with_obstacles(
        &mut self,
        starting: &HashSet<NodeId>,
        known: &mut Obstacles,
    ) -> Result<(), Stop> {
        let reasons = self.node_provider()?.obstacles(&self.subject.profile.kind, starting);
        if reasons.is_empty() && known.reported.is_empty() {
            return self.flush().await;
        }
        let now = self.now();
        let over: Vec<NodeId> =
            known.reported.keys().filter(|id| !reasons.contains_key(id)).copied().collect();
        let over: Vec<(NodeId, String)> =
            over.into_iter().filter_map(|id| Some((id, known.reported.remove(&id)?))).collect();
        for (id, reason) in reasons.iter().map(|(id, reason)| (*id, reason.clone())).chain(over) {
            let Some(node) = self.node(id).filter(|node| node.status_reason != reason) else { continue };
            if reasons.contains_key(&id) {
                known.reported.entry(id).or_insert_with(|| node.status_reason.clone());
            } else if !starting.contains(&id) {
                // Its start has ended meanwhile, and its status reason says how.
                continue;
            }
            if let Some(node) = self.node_mut(id) {
                node.status_reason = reason;
                node.updated_at = Some(now);
            }
        }
        let before = known.cluster.get_or_insert_with(|| self.subject.cluster.status_reason.clone()).clone();
        let new_reason = self.cluster_reason(&reasons).unwrap_or(before);
        if new_reason == self.subject.cluster.status_reason {
            return self.flush().await;
        }
        self.subject.cluster.status_reason = new_reason;
        let mut record = self.pending();
        record.cluster = self.row();
        self.record(record).await
    }

    /// The reasons why the cluster waits, in the order of its nodes.
    fn cluster_reason(&self, reasons: &HashMap<NodeId, String>) -> Option<String> {
        let named = |node: &'_ Node| Some((node.name.clone(), reasons.get(&node.id)?.clone()));
        let named: Vec<(String, String)> = self.subject.nodes.iter().filter_map(named).collect();
        let distinct = distinct(named.iter().map(|(name, reason)| (name.as_str(), reason.as_str())));
        (!distinct.is_empty()).then(|| summarize(&distinct))
    }
}

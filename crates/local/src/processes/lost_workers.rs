//! Detection of lost workers: their process runs, but the head gives them no work, because it lost or drained them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_engine::ports::provider::{ClusterTarget, WorldChange};
use muster_frameworks::{LiveWorker, LocalFramework};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use super::ProcessHost;
use super::head::HeadRecord;
use super::node_kind::NodeKind;
use super::node_record::NodeRecord;
use crate::shim::NodeProcessState;

/// Interval of requests to heads for their workers.
const PERIOD: Duration = Duration::from_secs(5);

/// Consecutive misses after which a worker counts as lost: after a lost connection, it may be about to reconnect.
const MISSES: u32 = 2;

/// The reason of a worker that is lost because its head no longer counts it.
pub(super) const NOT_COUNTED: &str = "its process is running, but its head no longer counts it as a worker";

/// The reason of a worker that is lost because it was drained, but not removed.
pub(super) const DRAINED: &str =
    "its head drained it and gives it no more work, but its removal was interrupted";

/// Tracks which running workers their heads count.
#[derive(Default)]
pub(super) struct LostWorkers {
    /// The observed clusters with their frameworks.
    clusters: Mutex<HashMap<ClusterId, &'static dyn LocalFramework>>,
    /// Consecutive misses of workers.
    missed: Mutex<HashMap<NodeId, u32>>,
}

impl LostWorkers {
    /// Starts to check a cluster.
    pub(super) fn track_cluster(&self, ClusterTarget { cluster, profile }: ClusterTarget<'_>) {
        if let Some(framework) = NodeKind::from_profile_type(&profile.kind).and_then(NodeKind::framework) {
            self.clusters.lock().insert(cluster.id, framework);
        }
    }

    pub(super) fn untrack_cluster(&self, cluster: ClusterId) {
        self.clusters.lock().remove(&cluster);
    }

    /// Resets the misses of a node that is stopped or restarted.
    pub(super) fn forget_worker(&self, node: NodeId) {
        self.missed.lock().remove(&node);
    }

    /// Returns the reason why a running worker is lost, if it is. A drained worker that an action is removing is not
    /// lost.
    pub(super) fn loss_reason(&self, node: &Node, record: &NodeRecord) -> Option<&'static str> {
        if record.draining && node.was_working() {
            return Some(DRAINED);
        }
        self.is_missing(node.id).then_some(NOT_COUNTED)
    }

    pub(super) fn is_missing(&self, node: NodeId) -> bool {
        self.missed.lock().get(&node).is_some_and(|missed| *missed >= MISSES)
    }

    /// Records which workers a head counts. Returns true if some are lost.
    fn record_count(&self, workers: &[(NodeId, String)], counted: &[LiveWorker]) -> bool {
        let counted: HashSet<&str> = counted.iter().map(|worker| worker.name.as_str()).collect();
        let mut missed = self.missed.lock();
        let mut lost = false;
        for (node, name) in workers {
            if counted.contains(name.as_str()) {
                missed.remove(node);
            } else {
                let times = missed.entry(*node).or_default();
                *times += 1;
                lost |= *times >= MISSES;
            }
        }
        lost
    }
}

impl ProcessHost {
    /// Publishes clusters that have lost workers, periodically until the workers are replaced or removed.
    pub(super) fn lost_worker_changes(self: Arc<Self>) -> BoxStream<'static, WorldChange> {
        let mut interval = tokio::time::interval(PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let rounds = futures::stream::unfold((self, interval), async |(inner, mut interval)| {
            interval.tick().await;
            let changes = inner.find_losses().await;
            Some((futures::stream::iter(changes), (inner, interval)))
        });
        rounds.flatten().boxed()
    }

    async fn find_losses(&self) -> Vec<WorldChange> {
        let clusters: Vec<_> =
            self.lost_workers.clusters.lock().iter().map(|(id, kind)| (*id, *kind)).collect();
        let rounds = clusters.into_iter().map(|(cluster, framework)| async move {
            self.has_lost_workers(cluster, framework).await.then_some(WorldChange::Cluster(cluster))
        });
        futures::future::join_all(rounds).await.into_iter().flatten().collect()
    }

    async fn has_lost_workers(&self, cluster: ClusterId, framework: &dyn LocalFramework) -> bool {
        let (Some(head), Some(access)) = (HeadRecord::read(&self.paths, cluster), self.running_head(cluster))
        else {
            return false;
        };
        let (mut workers, mut drained) = (Vec::new(), false);
        for folder in self.paths.nodes(cluster).unwrap_or_default() {
            let Some(record) = NodeRecord::read(&folder).filter(|record| record.was_ready) else { continue };
            if head.is_node(folder.node())
                || !matches!(self.shims.inspect(&folder), Ok(NodeProcessState::Running(_)))
            {
                continue;
            }
            drained |= record.draining;
            workers.push((folder.node(), record.name));
        }
        if workers.is_empty() {
            return false;
        }
        // A head that does not answer says nothing about its workers.
        let counted = self.framework_client.fetch_workers(framework, &access).await;
        let lost = counted.is_ok_and(|counted| self.lost_workers.record_count(&workers, &counted));
        lost || drained
    }
}

#[cfg(test)]
mod tests {
    use muster_core::node::NodeStatus;
    use muster_core::sample;
    use muster_core::time::Timestamp;

    use super::*;

    fn record(draining: bool) -> NodeRecord {
        NodeRecord {
            name: "w-1".to_owned(),
            cluster: String::new(),
            was_ready: true,
            draining,
            gpus: Vec::new(),
            prepared_at: Timestamp::default(),
        }
    }

    #[test]
    fn a_worker_is_lost_after_two_consecutive_misses() {
        let (lost_workers, node) =
            (LostWorkers::default(), Node { status: NodeStatus::Active, ..sample::node(1) });
        let workers = [(node.id, "w-1".to_owned())];
        let counted = [LiveWorker { name: "w-1".to_owned(), address: "tcp://127.0.0.1:1".to_owned() }];
        assert!(!lost_workers.record_count(&workers, &[]) && !lost_workers.record_count(&workers, &counted));
        assert!(
            !lost_workers.record_count(&workers, &[])
                && lost_workers.loss_reason(&node, &record(false)).is_none()
        );
        assert!(lost_workers.record_count(&workers, &[]));
        assert_eq!(lost_workers.loss_reason(&node, &record(false)), Some(NOT_COUNTED));
        lost_workers.forget_worker(node.id);
        assert_eq!(lost_workers.loss_reason(&node, &record(false)), None);
    }

    #[test]
    fn a_drained_worker_that_is_not_being_removed_is_lost() {
        let lost_workers = LostWorkers::default();
        let node = |status| Node { status, ..sample::node(1) };
        assert_eq!(lost_workers.loss_reason(&node(NodeStatus::Deleting), &record(true)), None);
        assert_eq!(lost_workers.loss_reason(&node(NodeStatus::Active), &record(true)), Some(DRAINED));
    }
}

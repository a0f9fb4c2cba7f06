//! Workers whose process runs and that their head gives no work: it has lost them, or was asked to drain them.

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

use super::Inner;
use super::head::Head;
use super::kind::Kind;
use super::seat::Seat;
use crate::shim::Found;

/// How often heads are asked which workers they count.
const PERIOD: Duration = Duration::from_secs(5);

/// How often in a row a worker has to be missing: one that has just lost its connection may be about to reconnect.
const MISSES: u32 = 2;

/// Why a worker that runs is lost.
pub(super) const NOT_COUNTED: &str = "it runs, and its head does not count it any more: the head has lost it";
pub(super) const DRAINED: &str =
    "its head was asked to drain it, and gives it no more work, though its removal was interrupted";

/// What heads say of workers that run.
#[derive(Default)]
pub(super) struct Census {
    /// Clusters that were observed, with their frameworks.
    clusters: Mutex<HashMap<ClusterId, &'static dyn LocalFramework>>,
    /// How often in a row workers were missing.
    missed: Mutex<HashMap<NodeId, u32>>,
}

impl Census {
    /// Includes a cluster from now on.
    pub(super) fn include(&self, ClusterTarget { cluster, profile }: ClusterTarget<'_>) {
        if let Some(framework) = Kind::of(&profile.kind).and_then(Kind::framework) {
            self.clusters.lock().insert(cluster.id, framework);
        }
    }

    pub(super) fn exclude(&self, cluster: ClusterId) {
        self.clusters.lock().remove(&cluster);
    }

    /// Forgets what was said of a node, which is started again.
    pub(super) fn forget(&self, node: NodeId) {
        self.missed.lock().remove(&node);
    }

    /// Why a worker that runs is of no use to its cluster, if so. One that an action is about to remove is drained
    /// rightly.
    pub(super) fn loss(&self, node: &Node, seat: &Seat) -> Option<&'static str> {
        if seat.draining && node.was_working() {
            return Some(DRAINED);
        }
        self.is_missing(node.id).then_some(NOT_COUNTED)
    }

    pub(super) fn is_missing(&self, node: NodeId) -> bool {
        self.missed.lock().get(&node).is_some_and(|missed| *missed >= MISSES)
    }

    /// Records which of these workers a head counts; whether some are lost.
    fn record(&self, workers: &[(NodeId, String)], counted: &[LiveWorker]) -> bool {
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

impl Inner {
    /// Publishes clusters that have workers without use, again and again until these are replaced or gone.
    pub(super) fn losses(self: Arc<Self>) -> BoxStream<'static, WorldChange> {
        let mut interval = tokio::time::interval(PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let rounds = futures::stream::unfold((self, interval), async |(inner, mut interval)| {
            interval.tick().await;
            let changes = inner.take_census().await;
            Some((futures::stream::iter(changes), (inner, interval)))
        });
        rounds.flatten().boxed()
    }

    async fn take_census(&self) -> Vec<WorldChange> {
        let clusters: Vec<_> = self.census.clusters.lock().iter().map(|(id, kind)| (*id, *kind)).collect();
        let rounds = clusters.into_iter().map(|(cluster, framework)| async move {
            self.has_lost_workers(cluster, framework).await.then_some(WorldChange::Cluster(cluster))
        });
        futures::future::join_all(rounds).await.into_iter().flatten().collect()
    }

    async fn has_lost_workers(&self, cluster: ClusterId, framework: &dyn LocalFramework) -> bool {
        let (Some(head), Some(contact)) = (Head::of(&self.places, cluster), self.living_head(cluster)) else {
            return false;
        };
        let (mut workers, mut drained) = (Vec::new(), false);
        for folder in self.places.nodes(cluster).unwrap_or_default() {
            let Some(seat) = Seat::of(&folder).filter(|seat| seat.works) else { continue };
            if head.is(folder.node()) || !matches!(self.shims.find(&folder), Ok(Found::Running(_))) {
                continue;
            }
            drained |= seat.draining;
            workers.push((folder.node(), seat.name));
        }
        if workers.is_empty() {
            return false;
        }
        // A head that does not answer says nothing of them.
        let counted = self.framework_client.fetch_workers(framework, &contact).await;
        let lost = counted.is_ok_and(|counted| self.census.record(&workers, &counted));
        lost || drained
    }
}

#[cfg(test)]
mod tests {
    use muster_core::node::NodeStatus;
    use muster_core::sample;

    use super::*;

    fn seat(draining: bool) -> Seat {
        Seat { name: "w-1".to_owned(), works: true, draining, gpus: Vec::new() }
    }

    #[test]
    fn a_worker_is_lost_once_its_head_has_not_counted_it_twice_in_a_row() {
        let (census, node) = (Census::default(), Node { status: NodeStatus::Active, ..sample::node(1) });
        let workers = [(node.id, "w-1".to_owned())];
        let counted = [LiveWorker { name: "w-1".to_owned(), address: "tcp://127.0.0.1:1".to_owned() }];
        assert!(!census.record(&workers, &[]) && !census.record(&workers, &counted));
        assert!(!census.record(&workers, &[]) && census.loss(&node, &seat(false)).is_none());
        assert!(census.record(&workers, &[]));
        assert_eq!(census.loss(&node, &seat(false)), Some(NOT_COUNTED));
        census.forget(node.id);
        assert_eq!(census.loss(&node, &seat(false)), None);
    }

    #[test]
    fn a_worker_that_drains_and_is_kept_is_lost() {
        let census = Census::default();
        let node = |status| Node { status, ..sample::node(1) };
        assert_eq!(census.loss(&node(NodeStatus::Deleting), &seat(true)), None);
        assert_eq!(census.loss(&node(NodeStatus::Active), &seat(true)), Some(DRAINED));
    }
}

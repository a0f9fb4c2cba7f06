//! Frameworks whose nodes have to be started one after the other.

use std::sync::Arc;
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_engine::ports::keyed_lock::KeyedLock;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// How long a turn lasts at most. A node that has not come to work by then has long taken what two of them must not take
/// at once, or never will; it may go on, but nobody waits for it.
const TURN: Duration = Duration::from_secs(20);

/// Whose turn it is to start.
pub(super) struct Turns {
    /// One node of a cluster at a time.
    clusters: KeyedLock<ClusterId>,
    /// As many of all clusters as the machine has cores: each keeps one busy, and gives up if it gets too little of it.
    machine: Arc<Semaphore>,
}

/// The turn of one node; over when it is dropped.
pub(super) struct Turn {
    _cluster: OwnedMutexGuard<()>,
    _machine: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(super) fn new(cores: usize) -> Self {
        // Two at least, so that one that hangs does not even hold up the others for its turn.
        Self { clusters: KeyedLock::default(), machine: Arc::new(Semaphore::new(cores.max(2))) }
    }

    /// Waits for the turn to start a node of a cluster.
    pub(super) async fn take(&self, cluster: ClusterId) -> Turn {
        let of_cluster = self.clusters.lock(cluster).await;
        // It is never closed; were it, nobody would have to wait.
        let of_machine = Arc::clone(&self.machine).acquire_owned().await.ok();
        Turn { _cluster: of_cluster, _machine: of_machine }
    }
}

impl Turn {
    /// The outcome of a start, which may take longer than its turn.
    pub(super) async fn lasts_for<T>(self, start: impl Future<Output = T>) -> T {
        let mut start = std::pin::pin!(start);
        if let Ok(outcome) = tokio::time::timeout(TURN, &mut start).await {
            return outcome;
        }
        drop(self);
        start.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    fn cluster(number: u128) -> ClusterId {
        ClusterId::from_uuid(Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_starts_one_node_at_a_time_and_others_do_not_wait_for_it() {
        let turns = Turns::new(2);
        let one = turns.take(cluster(1)).await;
        assert!(turns.take(cluster(1)).now_or_never().is_none(), "another of the same cluster");
        let other = turns.take(cluster(2)).now_or_never().expect("one of another cluster");
        assert!(turns.take(cluster(3)).now_or_never().is_none(), "more than the machine has cores");
        drop(other);
        assert!(turns.take(cluster(3)).now_or_never().is_some());
        drop(one);
        assert!(turns.take(cluster(1)).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_hangs_holds_up_others_for_its_turn_only() {
        let turns = Turns::new(1);
        let turn = turns.take(cluster(1)).await;
        let hangs = tokio::spawn(turn.lasts_for(pending::<()>()));
        let next = turns.take(cluster(1)).await;
        assert!(!hangs.is_finished(), "its own patience is another");
        assert_eq!(next.lasts_for(async { 7 }).await, 7);
        hangs.abort();
    }
}

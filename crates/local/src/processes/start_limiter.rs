//! Limits of concurrent starts, for frameworks whose nodes must be started one after the other.

use std::sync::Arc;
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_engine::ports::keyed_lock::KeyedLock;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Longest time that a start holds its permit. A node that is not ready by then either has passed the phase in which
/// concurrent starts would conflict, or hangs. Its start continues without the permit.
const MAX_HOLD: Duration = Duration::from_secs(20);

/// Grants permits to start nodes.
pub(super) struct StartLimiter {
    /// Allows one start at a time in each cluster.
    clusters: KeyedLock<ClusterId>,
    /// Allows as many starts as there are cores: a starting node keeps one core busy, and fails if it gets too little
    /// cpu time.
    machine: Arc<Semaphore>,
}

/// The permit to start one node.
pub(super) struct StartPermit {
    _cluster: OwnedMutexGuard<()>,
    _machine: Option<OwnedSemaphorePermit>,
}

impl StartLimiter {
    pub(super) fn new(cores: usize) -> Self {
        // There are at least two permits, so that one start that hangs does not delay other clusters.
        Self { clusters: KeyedLock::default(), machine: Arc::new(Semaphore::new(cores.max(2))) }
    }

    /// Waits for the permit to start a node of a cluster.
    pub(super) async fn acquire(&self, cluster: ClusterId) -> StartPermit {
        let of_cluster = self.clusters.lock(cluster).await;
        // The semaphore is never closed, so this does not fail.
        let of_machine = Arc::clone(&self.machine).acquire_owned().await.ok();
        StartPermit { _cluster: of_cluster, _machine: of_machine }
    }
}

impl StartPermit {
    /// Runs a start, and releases the permit after the start or a time limit, whichever is first.
    pub(super) async fn hold_for<T>(self, start: impl Future<Output = T>) -> T {
        let mut start = std::pin::pin!(start);
        if let Ok(outcome) = tokio::time::timeout(MAX_HOLD, &mut start).await {
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
    async fn a_cluster_starts_one_node_at_a_time_without_delaying_other_clusters() {
        let start_limiter = StartLimiter::new(2);
        let one = start_limiter.acquire(cluster(1)).await;
        assert!(start_limiter.acquire(cluster(1)).now_or_never().is_none(), "another of the same cluster");
        let other = start_limiter.acquire(cluster(2)).now_or_never().expect("one of another cluster");
        assert!(
            start_limiter.acquire(cluster(3)).now_or_never().is_none(),
            "more than the machine has cores"
        );
        drop(other);
        assert!(start_limiter.acquire(cluster(3)).now_or_never().is_some());
        drop(one);
        assert!(start_limiter.acquire(cluster(1)).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_hangs_releases_its_permit_after_a_time_limit() {
        let start_limiter = StartLimiter::new(1);
        let turn = start_limiter.acquire(cluster(1)).await;
        let hangs = tokio::spawn(turn.hold_for(pending::<()>()));
        let next = start_limiter.acquire(cluster(1)).await;
        assert!(!hangs.is_finished(), "the start itself continues");
        assert_eq!(next.hold_for(async { 7 }).await, 7);
        hangs.abort();
    }
}

//! Collects the clusters that commits change, debounced.

use std::collections::HashSet;
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_store::Touched;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// The time in which a burst of changes is collected, since one evaluation covers all of them.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The clusters that may have changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedClusters {
    /// True if any cluster may have changed.
    pub(crate) all: bool,
    /// These clusters changed.
    pub(crate) clusters: HashSet<ClusterId>,
    /// True if apps changed, or the clusters that they use.
    pub(crate) apps: bool,
}

impl ChangedClusters {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, touched: Touched) {
        match touched {
            Touched::Cluster(id) => drop(self.clusters.insert(id)),
            Touched::Action(_) | Touched::Progress(_) | Touched::Work | Touched::Tasks | Touched::Task(_) => {
            }
            Touched::Apps => self.apps = true,
            Touched::Everything => self.all = true,
        }
    }
}

/// Collects the clusters that commits change.
pub(crate) struct ChangeFeed {
    commits: Receiver<Touched>,
    /// The collected changes, which are kept if the wait is dropped before the burst has passed.
    changes: ChangedClusters,
}

impl ChangeFeed {
    pub(crate) fn new(commits: Receiver<Touched>) -> Self {
        Self { commits, changes: ChangedClusters::default() }
    }

    /// Waits for a change, and for the rest of its burst.
    pub(crate) async fn wait_for_change(&mut self) {
        while self.changes.is_empty() {
            match self.commits.recv().await {
                Ok(touched) => self.changes.add(touched),
                Err(RecvError::Lagged(_)) => self.changes.all = true,
                // The store is closed, so nothing can change any more.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
        tokio::time::sleep(DEBOUNCE).await;
    }

    /// Takes all changes since the last call.
    pub(crate) fn take_changes(&mut self) -> ChangedClusters {
        loop {
            match self.commits.try_recv() {
                Ok(touched) => self.changes.add(touched),
                Err(TryRecvError::Lagged(_)) => self.changes.all = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return std::mem::take(&mut self.changes),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;
    use uuid::Uuid;

    use super::*;

    fn cluster(number: u128) -> ClusterId {
        ClusterId::from_uuid(Uuid::from_u128(number))
    }

    fn changes(all: bool, clusters: &[u128]) -> ChangedClusters {
        let clusters = clusters.iter().map(|number| cluster(*number)).collect();
        ChangedClusters { all, clusters, apps: false }
    }

    #[tokio::test]
    async fn changes_are_not_lost_with_a_dropped_wait() {
        let (commits, listener) = broadcast::channel(8);
        let mut feed = ChangeFeed::new(listener);
        for touched in [Touched::Work, Touched::Cluster(cluster(1))] {
            commits.send(touched).unwrap();
        }
        // Polled once: it has received the first change, and waits for the rest of the burst.
        assert!(futures::poll!(std::pin::pin!(feed.wait_for_change())).is_pending());
        commits.send(Touched::Cluster(cluster(2))).unwrap();
        assert_eq!(feed.take_changes(), changes(false, &[1, 2]));
        assert_eq!(feed.take_changes(), ChangedClusters::default(), "changes are taken once");
    }

    #[tokio::test]
    async fn a_lagging_feed_reports_everything() {
        let (commits, listener) = broadcast::channel(2);
        let mut feed = ChangeFeed::new(listener);
        for number in 1..=3 {
            commits.send(Touched::Cluster(cluster(number))).unwrap();
        }
        feed.wait_for_change().await;
        assert_eq!(feed.take_changes(), changes(true, &[2, 3]));
        commits.send(Touched::Everything).unwrap();
        feed.wait_for_change().await;
        assert_eq!(feed.take_changes(), changes(true, &[]));
    }
}

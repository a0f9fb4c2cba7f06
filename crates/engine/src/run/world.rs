//! Changes of the world that the provider reports for a cluster.

use crate::notify::Subscription;

/// Reported changes, and the last of them that an observation covers.
pub(crate) struct WorldChanges {
    changes: Subscription,
    observed: u64,
}

impl WorldChanges {
    pub(super) fn new(changes: Subscription) -> Self {
        Self { observed: changes.version(), changes }
    }

    /// Begins an observation, which covers all changes that were reported before.
    pub(crate) fn begin_observation(&mut self) {
        self.observed = self.changes.version();
    }

    /// Returns once a change was reported that the last observation may have missed.
    pub(crate) async fn changed(&self) {
        self.changes.changed_since(self.observed).await;
    }
}

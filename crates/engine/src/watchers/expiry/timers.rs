//! Schedules the next evaluation of each cluster.

use std::collections::{BTreeSet, HashMap};

use muster_core::ids::ClusterId;
use muster_core::time::Timestamp;

use crate::watchers::expiry::decide::WatchState;

/// Clusters by the moment of their next evaluation, with their state.
#[derive(Debug, Default)]
pub(crate) struct ExpiryTimers {
    queue: BTreeSet<(Timestamp, ClusterId)>,
    known: HashMap<ClusterId, (Option<Timestamp>, WatchState)>,
}

impl ExpiryTimers {
    /// Schedules a cluster for now.
    pub(crate) fn schedule_now(&mut self, id: ClusterId) {
        let watch_state = self.watch_state(id);
        self.set(id, Some(Timestamp::default()), watch_state);
    }

    /// Schedules a cluster for a moment; without one, only a change of the cluster schedules it.
    pub(crate) fn set(&mut self, id: ClusterId, at: Option<Timestamp>, watch_state: WatchState) {
        self.forget(id);
        self.queue.extend(at.map(|at| (at, id)));
        self.known.insert(id, (at, watch_state));
    }

    /// Removes a cluster that has no limits, is gone, or belongs to another instance.
    pub(crate) fn forget(&mut self, id: ClusterId) {
        if let Some((Some(at), _)) = self.known.remove(&id) {
            self.queue.remove(&(at, id));
        }
    }

    /// Returns the state of a cluster.
    pub(crate) fn watch_state(&self, id: ClusterId) -> WatchState {
        self.known.get(&id).map(|(_, watch_state)| *watch_state).unwrap_or_default()
    }

    /// Returns the due clusters, at most `at_most`, the longest waiting first. They stay due until they are rescheduled
    /// or removed.
    pub(crate) fn due(&self, now: Timestamp, at_most: usize) -> Vec<ClusterId> {
        let due = self.queue.iter().take_while(|(at, _)| *at <= now);
        due.take(at_most).map(|(_, id)| *id).collect()
    }

    /// Returns the moment of the next evaluation.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Returns all known clusters.
    pub(crate) fn known(&self) -> Vec<ClusterId> {
        self.known.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn each_cluster_has_one_moment_and_keeps_its_memory() {
        let [early, late] = [1, 2].map(|number| ClusterId::from_uuid(Uuid::from_u128(number)));
        let at = |micros| Some(Timestamp::from_micros(micros));
        let watch_state = WatchState { queried_at: at(7), deletion_requested_at: None };
        let mut timers = ExpiryTimers::default();
        timers.set(late, at(20), watch_state);
        timers.set(early, at(10), WatchState::default());
        assert_eq!(timers.due(Timestamp::from_micros(20), 9), [early, late]);
        assert_eq!(timers.due(Timestamp::from_micros(20), 1), [early]);
        timers.schedule_now(late);
        assert_eq!(timers.due(Timestamp::from_micros(9), 9), [late]);
        assert_eq!(timers.watch_state(late), watch_state);
        timers.set(late, None, watch_state);
        assert_eq!((timers.next(), timers.known().len()), (at(10), 2));
        timers.forget(early);
        assert_eq!((timers.next(), timers.known()), (None, vec![late]));
    }
}

//! The UIDs of deleted objects. Kubernetes never uses a UID again, so a late report of one is ignored.

use std::collections::{HashSet, VecDeque};

/// UIDs of objects that were deleted recently.
#[derive(Default)]
pub(crate) struct Tombstones {
    uids: HashSet<String>,
    /// The same UIDs, oldest first.
    order: VecDeque<String>,
}

impl Tombstones {
    /// The number of deletions that are remembered: more than can happen before a late watch event, or a late answer to
    /// a write, arrives.
    const CAPACITY: usize = 4096;

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// Records a deletion, and removes the oldest one beyond the capacity.
    pub(crate) fn insert(&mut self, uid: &str) {
        if !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > Self::CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

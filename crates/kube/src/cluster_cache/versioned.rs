//! Cached values with the epoch of their last report, so that late reports do not replace newer ones.

use muster_core::time::Timestamp;

use crate::projection::is_older;

/// The time and origin of a report, which decide if it replaces the cached value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// The epoch of the cache at which the report arrived.
    pub(super) epoch: u64,
    pub(super) at: Timestamp,
    /// The epoch at which the list or read that returned the value began; none for a watch event, which may be late.
    pub(super) read_since: Option<u64>,
}

/// A value as last reported.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Versioned<T> {
    pub(crate) value: T,
    /// The epoch of the last report.
    pub(super) epoch: u64,
}

impl<T: PartialEq> Versioned<T> {
    /// Replaces the value unless the reported one is older. Returns true if the value changed. `version` returns UID
    /// and resource version.
    pub(super) fn update(
        &mut self,
        value: T,
        arrival: Arrival,
        version: impl Fn(&T) -> (&str, &str),
    ) -> bool {
        // A Kubernetes that was restored from a backup has lower versions than before, so a value that was read since
        // the last report is accepted whatever its version.
        let is_read = arrival.read_since.is_some_and(|since| self.epoch < since);
        self.epoch = arrival.epoch;
        let ((uid, now), (known_uid, then)) = (version(&value), version(&self.value));
        if (uid == known_uid && is_older(now, then) && !is_read) || self.value == value {
            return false;
        }
        self.value = value;
        true
    }
}

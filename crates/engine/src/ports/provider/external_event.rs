//! External events about a provider's objects.

use muster_core::event::ExternalRecord;
use muster_core::time::{TimeSpan, Timestamp};
use uuid::Uuid;

/// An external event about an object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalEvent {
    /// The id; a repeated event keeps it.
    pub id: Uuid,
    /// Increases with every event and every repetition.
    pub version: u64,
    /// The kind of its object.
    pub kind: String,
    /// The name of its object.
    pub object: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// True if the event is a warning.
    pub is_warning: bool,
    /// The time of its last repetition.
    pub at: Timestamp,
    /// The event in the system that published it.
    pub record: ExternalRecord,
}

/// The largest error of a time that was rounded down to whole seconds.
const WITHIN_SECOND: TimeSpan = TimeSpan::from_micros(999_999);
const MICROSECOND: TimeSpan = TimeSpan::from_micros(1);

/// Sorts events by their versions, and adjusts their times to that order.
///
/// Most times of Kubernetes are whole seconds, rounded down, so an event would appear before the action that caused it,
/// and in no order among its neighbours. Such a time is moved to the latest moment of its second that is neither later
/// than `now` nor later than the next event.
pub(crate) fn in_order(mut events: Vec<ExternalEvent>, now: Timestamp) -> Vec<ExternalEvent> {
    events.sort_by_key(|event| event.version);
    let mut latest = now;
    for event in events.iter_mut().rev() {
        if event.at.micros() % 1_000_000 == 0 {
            event.at = event.at.after(WITHIN_SECOND).min(latest).max(event.at);
        }
        latest = latest.min(event.at.before(MICROSECOND));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn times(events: &[(u64, i64)], now: i64) -> Vec<(u64, i64)> {
        let event = |(version, at): &(u64, i64)| ExternalEvent {
            id: Uuid::nil(),
            version: *version,
            kind: String::new(),
            object: String::new(),
            reason: String::new(),
            message: String::new(),
            is_warning: false,
            at: Timestamp::from_micros(*at),
            record: ExternalRecord::default(),
        };
        let placed = in_order(events.iter().map(event).collect(), Timestamp::from_micros(now));
        placed.iter().map(|event| (event.version, event.at.micros())).collect()
    }

    #[test]
    fn a_time_in_whole_seconds_is_not_before_what_caused_it() {
        // Observed 0.3 s after an action that began at 10.5 s.
        assert_eq!(times(&[(7, 10 * SECOND)], 10_800_000), [(7, 10_800_000)]);
        // Observed much later: the end of its second.
        assert_eq!(times(&[(7, 10 * SECOND)], 60 * SECOND), [(7, 10_999_999)]);
        // The clock of Kubernetes is ahead.
        assert_eq!(times(&[(7, 10 * SECOND)], 9 * SECOND), [(7, 10 * SECOND)]);
    }

    #[test]
    fn times_follow_the_order_in_which_events_were_recorded() {
        let second = 10 * SECOND;
        let placed = times(&[(9, second), (8, 10_350_000), (7, second), (6, second)], 10_600_000);
        assert_eq!(placed, [(6, 10_349_998), (7, 10_349_999), (8, 10_350_000), (9, 10_600_000)]);
    }
}

//! Messages about the limits of clusters.

use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::time::{TimeSpan, Timestamp};

use crate::events::{self, reason};
use crate::watchers::expiry::decide::ExpiryReason;

/// Rounds a time span to whole seconds, for messages.
fn about(span: TimeSpan) -> TimeSpan {
    TimeSpan::from_micros((span.micros() + 500_000) / 1_000_000 * 1_000_000)
}

/// Returns the event that warns of a deletion.
pub(crate) fn warning(cluster: &Cluster, of: ExpiryReason, now: Timestamp) -> Event {
    let left = |end: Option<Timestamp>| about(end.unwrap_or(now).since(now));
    let (word, message) = match of {
        ExpiryReason::Idle => {
            let unused = about(now.since(cluster.unused_since().unwrap_or(now)));
            let (left, limit) =
                (left(cluster.idle_ends_at()), cluster.limits.idle_timeout.unwrap_or_default());
            let message = format!(
                "it has been idle for {unused}: it is deleted in {left} unless it is used (idle_timeout {limit})"
            );
            (reason::IDLE_TIMEOUT_SOON, message)
        }
        ExpiryReason::Lifetime => {
            let (left, limit) =
                (left(cluster.lifetime_ends_at()), cluster.limits.max_lifetime.unwrap_or_default());
            let message = format!(
                "its lifetime is over in {left}: it is then deleted, whatever runs on it (max_lifetime {limit})"
            );
            (reason::LIFETIME_OVER_SOON, message)
        }
    };
    events::of_cluster(None, cluster, Level::Warn, word, &message, now)
}

/// Returns the reason and the message of a deletion.
pub(crate) fn end(cluster: &Cluster, by: ExpiryReason) -> (&'static str, String) {
    match by {
        ExpiryReason::Idle => {
            let limit = cluster.limits.idle_timeout.unwrap_or_default();
            (reason::IDLE_TIMEOUT, format!("it has been idle for its idle_timeout of {limit}: it is deleted"))
        }
        ExpiryReason::Lifetime => {
            let limit = cluster.limits.max_lifetime.unwrap_or_default();
            (reason::LIFETIME_OVER, format!("its max_lifetime of {limit} is over: it is deleted"))
        }
    }
}

//! Decides about the limits of one cluster. Pure: the time and the reported activity are passed in.

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::limits::{Activity, ExpiryState, notice};
use muster_core::time::{TimeSpan, Timestamp};

/// The bounds of the period of activity queries, which is a quarter of the idle timeout.
const QUERY_PERIOD: (TimeSpan, TimeSpan) = (TimeSpan::from_secs(1), TimeSpan::from_secs(30));

/// Delay before a failed deletion is retried.
const RETRY_AFTER: TimeSpan = TimeSpan::from_secs(60);

/// The state of a cluster between two evaluations. Not stored: a new engine begins without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WatchState {
    /// The time of the last query of its activity.
    pub(crate) queried_at: Option<Timestamp>,
    /// The time of the last request of its deletion.
    pub(crate) deletion_requested_at: Option<Timestamp>,
}

/// The limit that a cluster has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryReason {
    /// Its idle timeout.
    Idle,
    /// Its maximal lifetime.
    Lifetime,
}

/// The decision about one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpiryDecision {
    /// The reason to delete the cluster; none to keep it.
    pub(crate) end: Option<ExpiryReason>,
    /// The limits of which its users have to be warned.
    pub(crate) warn: Vec<ExpiryReason>,
    /// The state to record.
    pub(crate) expiry_state: ExpiryState,
    /// The time of the next evaluation; none if only a change of the cluster can matter.
    pub(crate) next: Option<Timestamp>,
}

/// Returns true if the activity of a cluster has to be queried now.
pub(crate) fn is_query_due(cluster: &Cluster, watch_state: WatchState, now: Timestamp) -> bool {
    next_query_at(cluster, watch_state).is_some_and(|at| at <= now)
}

/// Returns the time of the next activity query: periodically, and when a warning or the timeout is due. None during an
/// action, which counts as use.
fn next_query_at(cluster: &Cluster, watch_state: WatchState) -> Option<Timestamp> {
    let limit = cluster.limits.idle_timeout?;
    if cluster.status.is_transitional() {
        return None;
    }
    let Some(queried_at) = watch_state.queried_at else { return Some(Timestamp::default()) };
    let (least, most) = QUERY_PERIOD;
    let regular = queried_at.after(TimeSpan::from_micros(limit.micros() / 4).clamp(least, most));
    let end = cluster.idle_ends_at();
    let moments = [end.map(|end| end.before(notice(limit))), end];
    moments.into_iter().flatten().filter(|moment| *moment > queried_at).chain([regular]).min()
}

/// Decides about a cluster; `activity` is given only if it was queried just now.
pub(crate) fn decide(
    cluster: &Cluster,
    activity: Option<Activity>,
    watch_state: WatchState,
    now: Timestamp,
) -> ExpiryDecision {
    let mut observed = cluster.clone();
    if let Some(activity) = activity {
        observed.expiry_state.idle_since = match activity {
            Activity::IdleSince(since) => Some(since.min(now)),
            // A cluster whose creation failed may have nothing that could answer, and nothing that could be used.
            Activity::Unknown if cluster.created_at.is_none() => Some(cluster.init_at),
            Activity::Busy | Activity::Unknown => None,
        };
    }
    let idle_end = observed.idle_ends_at().zip(observed.limits.idle_timeout);
    let lifetime_end = observed.lifetime_ends_at().zip(observed.limits.max_lifetime);
    let mut decision =
        ExpiryDecision { end: None, warn: Vec::new(), expiry_state: observed.expiry_state, next: None };
    if observed.status == ClusterStatus::Deleting {
        return decision;
    }
    // Only an activity that was queried just now counts: the cluster may be in use since the last query.
    if activity.is_some()
        && let Some((end, limit)) = idle_end
    {
        let warned = observed.expiry_state.idle_warned_at >= observed.unused_since();
        if now >= end {
            decision.end = Some(ExpiryReason::Idle);
        } else if now >= end.before(notice(limit)) && !warned {
            decision.warn.push(ExpiryReason::Idle);
            decision.expiry_state.idle_warned_at = Some(now);
        }
    }
    if let Some((end, limit)) = lifetime_end {
        let notice_at = end.before(notice(limit));
        if now >= end {
            decision.end = Some(ExpiryReason::Lifetime);
        } else if now >= notice_at && observed.expiry_state.lifetime_warned_at < Some(notice_at) {
            decision.warn.push(ExpiryReason::Lifetime);
            decision.expiry_state.lifetime_warned_at = Some(now);
        }
    }
    let pause = watch_state
        .deletion_requested_at
        .map(|deletion_requested_at| deletion_requested_at.after(RETRY_AFTER))
        .filter(|until| now < *until);
    if let Some(until) = pause.filter(|_| decision.end.is_some()) {
        return ExpiryDecision { end: None, next: Some(until), ..decision };
    }
    let queried_at = if activity.is_some() { Some(now) } else { watch_state.queried_at };
    let moments = lifetime_end.map(|(end, limit)| [end.before(notice(limit)), end]);
    let later = moments.into_iter().flatten().filter(|moment| *moment > now);
    decision.next = later.chain(next_query_at(&observed, WatchState { queried_at, ..watch_state })).min();
    decision
}

#[cfg(test)]
mod tests;

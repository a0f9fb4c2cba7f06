//! What to do about the limits of one cluster. Pure: the clock and the reported activity are passed in.

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::limits::{Activity, Watched, notice};
use muster_core::time::{Span, Timestamp};

/// The bounds of the period of activity queries, which is a quarter of the idle timeout.
const ASK_EVERY: (Span, Span) = (Span::from_secs(1), Span::from_secs(30));

/// Delay before a failed deletion is retried.
const TRY_AGAIN: Span = Span::from_secs(60);

/// State of a cluster between two evaluations; lost with the engine, and then rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Memory {
    /// When its activity was last queried.
    pub(crate) asked: Option<Timestamp>,
    /// When its deletion was last requested.
    pub(crate) tried: Option<Timestamp>,
}

/// The limit that a cluster has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its idle timeout.
    Idle,
    /// Its maximal lifetime.
    Lifetime,
}

/// What to do about one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Delete it, for this reason.
    pub(crate) end: Option<Ending>,
    /// Warn its users of these limits.
    pub(crate) warn: Vec<Ending>,
    /// The state to record.
    pub(crate) watched: Watched,
    /// When to evaluate it again; none if only a change of the cluster can matter.
    pub(crate) next: Option<Timestamp>,
}

/// Whether its activity has to be queried now.
pub(crate) fn asks(cluster: &Cluster, memory: Memory, now: Timestamp) -> bool {
    ask_at(cluster, memory).is_some_and(|at| at <= now)
}

/// When its activity is queried next: periodically, and when a warning or the timeout is due. Not during an action:
/// that counts as use.
fn ask_at(cluster: &Cluster, memory: Memory) -> Option<Timestamp> {
    let limit = cluster.limits.idle_timeout?;
    if cluster.created_at.is_none() || cluster.status.is_transitional() {
        return None;
    }
    let Some(asked) = memory.asked else { return Some(Timestamp::default()) };
    let (least, most) = ASK_EVERY;
    let regular = asked.after(Span::from_micros(limit.micros() / 4).clamp(least, most));
    let end = cluster.idle_ends_at();
    let moments = [end.map(|end| end.before(notice(limit))), end];
    moments.into_iter().flatten().filter(|moment| *moment > asked).chain([regular]).min()
}

/// Decides, with the activity if it was queried just now.
pub(crate) fn decide(
    cluster: &Cluster,
    activity: Option<Activity>,
    memory: Memory,
    now: Timestamp,
) -> Decision {
    let mut seen = cluster.clone();
    if let Some(activity) = activity {
        seen.watched.idle_since = match activity {
            Activity::IdleSince(since) => Some(since.min(now)),
            Activity::Busy | Activity::Unknown => None,
        };
    }
    let idle_end = seen.idle_ends_at().zip(seen.limits.idle_timeout);
    let lifetime_end = seen.lifetime_ends_at().zip(seen.limits.max_lifetime);
    let mut decision = Decision { end: None, warn: Vec::new(), watched: seen.watched, next: None };
    if seen.status == ClusterStatus::Deleting {
        return decision;
    }
    // Only an activity that was queried just now counts: the cluster may be in use since the last query.
    if activity.is_some()
        && let Some((end, limit)) = idle_end
    {
        let warned = seen.watched.idle_warned_at >= seen.unused_since();
        if now >= end {
            decision.end = Some(Ending::Idle);
        } else if now >= end.before(notice(limit)) && !warned {
            decision.warn.push(Ending::Idle);
            decision.watched.idle_warned_at = Some(now);
        }
    }
    if let Some((end, limit)) = lifetime_end {
        let notice_at = end.before(notice(limit));
        if now >= end {
            decision.end = Some(Ending::Lifetime);
        } else if now >= notice_at && seen.watched.lifetime_warned_at < Some(notice_at) {
            decision.warn.push(Ending::Lifetime);
            decision.watched.lifetime_warned_at = Some(now);
        }
    }
    let pause = memory.tried.map(|tried| tried.after(TRY_AGAIN)).filter(|until| now < *until);
    if let Some(until) = pause.filter(|_| decision.end.is_some()) {
        return Decision { end: None, next: Some(until), ..decision };
    }
    let asked = if activity.is_some() { Some(now) } else { memory.asked };
    let moments = lifetime_end.map(|(end, limit)| [end.before(notice(limit)), end]);
    let later = moments.into_iter().flatten().filter(|moment| *moment > now);
    decision.next = later.chain(ask_at(&seen, Memory { asked, ..memory })).min();
    decision
}

#[cfg(test)]
mod tests;

//! Idle timeout and lifetime of clusters.

use serde::{Deserialize, Deserializer, Serialize};

use crate::cluster::Cluster;
use crate::time::{TimeSpan, Timestamp};

/// Limits after which a cluster is deleted; absent means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The longest time that the cluster may be unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<TimeSpan>,
    /// The longest time that the cluster may exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lifetime: Option<TimeSpan>,
}

/// A change of limits; what is absent stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsChange {
    /// The longest time that the cluster may be unused; null lifts the limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub idle_timeout: Option<Option<TimeSpan>>,
    /// The longest time that the cluster may exist; null lifts the limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub max_lifetime: Option<Option<TimeSpan>>,
}

/// Reads a present key as a change even if its value is null, which plain `Option` reads as absent.
#[expect(clippy::option_option, reason = "absent and null are two things")]
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl LimitsChange {
    /// The limits after this change.
    pub fn apply(self, limits: Limits) -> Limits {
        Limits {
            idle_timeout: self.idle_timeout.unwrap_or(limits.idle_timeout),
            max_lifetime: self.max_lifetime.unwrap_or(limits.max_lifetime),
        }
    }
}

/// The recorded state of a cluster with limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExpiryState {
    /// The time since which the cluster is observed to be idle; absent while it is busy or its activity is unknown.
    pub idle_since: Option<Timestamp>,
    /// The time when its users were last warned of the idle timeout.
    pub idle_warned_at: Option<Timestamp>,
    /// The time when its users were last warned of the end of its lifetime.
    pub lifetime_warned_at: Option<Timestamp>,
}

/// The observed activity of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Something runs on the cluster.
    Busy,
    /// Nothing has run on the cluster since this time.
    IdleSince(Timestamp),
    /// The activity is unknown, and counts as busy.
    Unknown,
}

impl Activity {
    /// Idle since a time in seconds after 1970 with a fraction, as Python represents times; unknown if it is out of
    /// range.
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit a time is none")]
    pub fn idle_since_seconds(seconds: f64) -> Self {
        let micros = seconds * 1e6;
        if (0.0..9e18).contains(&micros) {
            Self::IdleSince(Timestamp::from_micros(micros as i64))
        } else {
            Self::Unknown
        }
    }
}

/// The shortest and the longest notice period.
const NOTICE: (TimeSpan, TimeSpan) = (TimeSpan::from_secs(3), TimeSpan::from_secs(300));

/// The notice period of a limit: a tenth of it, within bounds, and never more than half of it.
pub fn notice(limit: TimeSpan) -> TimeSpan {
    let tenth = TimeSpan::from_micros(limit.micros() / 10);
    let (shortest, longest) = NOTICE;
    tenth.clamp(shortest, longest).min(TimeSpan::from_micros(limit.micros() / 2))
}

impl Cluster {
    /// The time when the lifetime ends. It counts from the end of the creation, or from the request if the creation
    /// failed.
    pub fn lifetime_ends_at(&self) -> Option<Timestamp> {
        if self.created_at.is_none() && self.status.is_transitional() {
            return None;
        }
        Some(self.begun_at().after(self.limits.max_lifetime?))
    }

    /// The time when the creation succeeded, or the time of the request if it failed.
    fn begun_at(&self) -> Timestamp {
        self.created_at.unwrap_or(self.init_at)
    }

    /// The time since which the cluster is unused: nothing ran on it, and no user changed it. None while it is busy,
    /// or while an action is in progress.
    pub fn unused_since(&self) -> Option<Timestamp> {
        let (idle, begun) = (self.expiry_state.idle_since?, self.begun_at());
        let settled = !self.status.is_transitional();
        settled.then(|| idle.max(begun).max(self.updated_at.unwrap_or(begun)))
    }

    /// The time when the idle timeout is reached if the cluster stays unused.
    pub fn idle_ends_at(&self) -> Option<Timestamp> {
        Some(self.unused_since()?.after(self.limits.idle_timeout?))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cluster::ClusterStatus;
    use crate::sample;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[rstest]
    #[case::half_of_what_is_short(2_000, 1_000)]
    #[case::a_few_seconds_at_least(10_000, 3_000)]
    #[case::a_tenth(600_000, 60_000)]
    #[case::minutes_at_most(86_400_000, 300_000)]
    fn the_notice_fits_the_limit(#[case] limit: u32, #[case] expected: u32) {
        assert_eq!(notice(TimeSpan::from_millis(limit)), TimeSpan::from_millis(expected));
    }

    #[rstest]
    #[case::used_after_its_creation(Some(100), None, 150, Some(150))]
    #[case::never_used(Some(100), None, 0, Some(100))]
    #[case::changed_since(Some(100), Some(170), 150, Some(170))]
    #[case::creation_failed(None, Some(60), 0, Some(60))]
    fn it_is_unused_since_the_last_of_use_and_change(
        #[case] created: Option<i64>,
        #[case] updated: Option<i64>,
        #[case] idle: i64,
        #[case] expected: Option<i64>,
    ) {
        let mut cluster = Cluster {
            status: ClusterStatus::Active,
            init_at: at(50),
            created_at: created.map(at),
            updated_at: updated.map(at),
            limits: Limits { idle_timeout: Some(TimeSpan::from_secs(10)), max_lifetime: None },
            expiry_state: ExpiryState { idle_since: Some(at(idle)), ..ExpiryState::default() },
            ..sample::cluster(1, 0, None)
        };
        assert_eq!(cluster.unused_since(), expected.map(at));
        assert_eq!(cluster.idle_ends_at(), expected.map(|since| at(since + 10)));
        cluster.status = ClusterStatus::Resizing;
        assert_eq!(cluster.idle_ends_at(), None, "while something is under way");
    }

    #[rstest]
    #[case::created(Some(200), ClusterStatus::Active, Some(210))]
    #[case::being_changed(Some(200), ClusterStatus::Resizing, Some(210))]
    #[case::being_created(None, ClusterStatus::Creating, None)]
    #[case::creation_failed(None, ClusterStatus::Error, Some(110))]
    fn a_lifetime_counts_from_the_creation(
        #[case] created: Option<i64>,
        #[case] status: ClusterStatus,
        #[case] expected: Option<i64>,
    ) {
        let cluster = Cluster {
            status,
            init_at: at(100),
            created_at: created.map(at),
            limits: Limits { idle_timeout: None, max_lifetime: Some(TimeSpan::from_secs(10)) },
            ..sample::cluster(1, 0, None)
        };
        assert_eq!(cluster.lifetime_ends_at(), expected.map(at));
    }
}

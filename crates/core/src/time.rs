//! Timestamps and durations as they are stored. This crate has no clock: callers pass the time in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time this many microseconds after the beginning of 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The microseconds since the beginning of 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The time a duration later.
    #[must_use]
    pub const fn after(self, span: TimeSpan) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time a duration earlier.
    #[must_use]
    pub const fn before(self, span: TimeSpan) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The duration since `earlier`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> TimeSpan {
        let span = self.0.saturating_sub(earlier.0);
        TimeSpan(if span < 0 { 0 } else { span })
    }
}

/// A duration in microseconds, which is never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeSpan(i64);

impl TimeSpan {
    /// A duration of this many microseconds; negative values become zero.
    pub const fn from_micros(micros: i64) -> Self {
        Self(if micros < 0 { 0 } else { micros })
    }

    /// A duration of this many milliseconds.
    pub const fn from_millis(millis: u32) -> Self {
        Self(millis as i64 * 1_000)
    }

    /// A duration of this many seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as i64 * 1_000_000)
    }

    /// The duration in microseconds.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The duration in whole seconds, rounded down.
    pub const fn secs(self) -> i64 {
        self.0 / 1_000_000
    }
}

/// Formats the duration in the largest unit of which it is a whole number: `30d`, `90s`, `0.5s`.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.secs(), self.0 % 1_000_000);
        if micros != 0 {
            let fraction = format!("{micros:06}");
            return write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'));
        }
        let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
        match units.iter().find(|(unit, _)| seconds > 0 && seconds % unit == 0) {
            Some((unit, letter)) => write!(f, "{}{letter}", seconds / unit),
            None => write!(f, "{seconds}s"),
        }
    }
}

impl From<TimeSpan> for std::time::Duration {
    fn from(span: TimeSpan) -> Self {
        Self::from_micros(u64::try_from(span.0).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0s")]
    #[case(500_000, "0.5s")]
    #[case(1_000_001, "1.000001s")]
    #[case(90_000_000, "90s")]
    #[case(120_000_000, "2m")]
    #[case(3_600_000_000, "1h")]
    #[case(2_592_000_000_000, "30d")]
    fn a_duration_is_shown_in_its_largest_whole_unit(#[case] micros: i64, #[case] words: &str) {
        assert_eq!(TimeSpan::from_micros(micros).to_string(), words);
    }

    #[test]
    fn a_moment_is_no_time_after_a_later_one() {
        let (early, late) = (Timestamp::from_micros(5), Timestamp::from_micros(9));
        assert_eq!(late.since(early), TimeSpan::from_micros(4));
        assert_eq!(early.since(late), TimeSpan::default());
    }

    #[test]
    fn the_end_of_time_does_not_overflow() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.after(TimeSpan::from_secs(1)), end);
    }
}

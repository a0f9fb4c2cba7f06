//! Delays between attempts.

use crate::time::TimeSpan;

/// Delays that double with every failure, from the first to the longest, with jitter.
///
/// The jitter is *equal*: half of each delay is fixed, the other half is random. Clients that failed together do not
/// retry together, as they would without jitter. Unlike with full jitter (from zero to the whole delay), a server that
/// is down is never called again at once; no delay is longer than documented.
///
/// ```
/// use muster_core::backoff::Backoff;
/// use muster_core::time::TimeSpan;
///
/// const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(200), longest: TimeSpan::from_secs(10) };
/// let third = BACKOFF.delay(3, 0.5);
/// assert_eq!(third, TimeSpan::from_millis(600));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest delay after the first failure.
    pub first: TimeSpan,
    /// The longest delay after any number of failures.
    pub longest: TimeSpan,
}

impl Backoff {
    /// The delay after a number of failures in a row; `random` is drawn for each delay, from 0 to 1.
    #[must_use]
    pub fn delay(&self, failures: u32, random: f64) -> TimeSpan {
        let half = self.limit(failures).micros() / 2;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a delay is exact enough, and no longer than half of the limit"
        )]
        let jitter = (half as f64 * random.clamp(0.0, 1.0)) as i64;
        TimeSpan::from_micros(half + jitter)
    }

    /// The longest delay after a number of failures in a row.
    #[must_use]
    pub fn limit(&self, failures: u32) -> TimeSpan {
        let doubled = self.first.micros().saturating_mul(1 << failures.saturating_sub(1).min(32));
        TimeSpan::from_micros(doubled).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(500), longest: TimeSpan::from_secs(30) };

    #[rstest]
    #[case::first(1, 250, 500)]
    #[case::doubled(2, 500, 1_000)]
    #[case::doubled_again(3, 1_000, 2_000)]
    #[case::longest(20, 15_000, 30_000)]
    #[case::however_many(u32::MAX, 15_000, 30_000)]
    #[case::none_yet(0, 250, 500)]
    fn delays_double_up_to_the_longest(#[case] failures: u32, #[case] least: u32, #[case] most: u32) {
        assert_eq!(BACKOFF.delay(failures, 0.0), TimeSpan::from_millis(least));
        assert_eq!(BACKOFF.delay(failures, 1.0), TimeSpan::from_millis(most));
        assert_eq!(BACKOFF.delay(failures, 0.5), TimeSpan::from_millis(u32::midpoint(least, most)));
    }

    #[rstest]
    #[case(-1.0, 250)]
    #[case(7.0, 500)]
    #[case(f64::NAN, 250)]
    fn a_number_outside_of_its_range_does_no_harm(#[case] random: f64, #[case] expected: u32) {
        assert_eq!(BACKOFF.delay(1, random), TimeSpan::from_millis(expected));
    }

    #[test]
    fn a_huge_first_delay_does_not_overflow() {
        let huge =
            Backoff { first: TimeSpan::from_micros(i64::MAX), longest: TimeSpan::from_micros(i64::MAX) };
        assert!(huge.delay(u32::MAX, 1.0) >= huge.delay(1, 0.0));
    }
}

//! The output of figures.

use std::fmt::Display;
use std::time::Duration;

/// The value in the middle; of an even number, the lower of the two.
pub fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// `subject` divided by `floor`.
pub fn ratio(subject: Duration, floor: Duration) -> f64 {
    subject.as_secs_f64() / floor.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A duration in milliseconds.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A size in megabytes.
pub fn megabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

/// Prints a figure that has no target.
pub fn report(what: &str, value: impl Display) {
    println!("  {what:<44} {value}");
}

/// Prints a figure and whether it is within an upper limit.
pub fn at_most<N: PartialOrd + Copy>(what: &str, value: N, limit: N, show: impl Fn(N) -> String) {
    let word = if value <= limit { "ok" } else { "MISSED" };
    report(what, format!("{:<12} {word} (at most {})", show(value), show(limit)));
}

/// Prints a figure and whether it reaches a lower limit.
pub fn at_least<N: PartialOrd + Copy>(what: &str, value: N, limit: N, show: impl Fn(N) -> String) {
    let word = if value >= limit { "ok" } else { "MISSED" };
    report(what, format!("{:<12} {word} (at least {})", show(value), show(limit)));
}

/// Prints a ratio to the floor. A ratio below 1 means that the floor was measured wrongly.
pub fn above_floor(ratio: f64, limit: f64) {
    if ratio < 1.0 {
        report("ratio", format!("{ratio:<12.2} INVALID (below the floor: measure again on a quiet machine)"));
    } else {
        at_most("ratio", ratio, limit, |ratio| format!("{ratio:.2}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        let rounds = [3, 1, 900, 2, 4].map(Duration::from_millis);
        assert_eq!(median(rounds.into()), Duration::from_millis(3));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}

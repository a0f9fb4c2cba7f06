//! Reads and formats timestamps of the wire format: RFC 3339 with `Z`.

use jiff::Timestamp as Instant;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use muster_core::time::Timestamp;

/// Formats a time, with its fraction of a second if it has one.
pub(super) fn show(at: Timestamp) -> String {
    Instant::from_microsecond(at.micros()).unwrap_or_default().to_string()
}

/// Truncates a time to whole seconds.
pub(super) const fn whole_seconds(at: Timestamp) -> Timestamp {
    const SECOND: i64 = 1_000_000;
    Timestamp::from_micros(at.micros().div_euclid(SECOND) * SECOND)
}

/// Parses a time with `Z` or an offset, or without a zone as UTC, or a date. A blank may replace an unescaped `+`.
pub(super) fn read(given: &str) -> Option<Timestamp> {
    let given = given.trim();
    if given.is_empty() || given.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let given = with_plus(given);
    let instant = given.parse::<Instant>().ok();
    let given = given.strip_suffix('Z').unwrap_or(&given);
    let civil = || given.parse::<DateTime>().or_else(|_| given.parse::<Date>().map(DateTime::from)).ok();
    // The last hours of the year 9999 are out of range; any time that far in the future has the same effect.
    let last = || Instant::MAX.as_second() * 1_000_000;
    let from_civil = |civil: DateTime| {
        civil.to_zoned(TimeZone::UTC).map_or_else(|_| last(), |zoned| zoned.timestamp().as_microsecond())
    };
    let micros = instant.map(Instant::as_microsecond).or_else(|| civil().map(from_civil))?;
    Some(Timestamp::from_micros(micros))
}

/// Restores the `+` before an offset: unescaped, it means a blank in a query string.
fn with_plus(given: &str) -> String {
    match given.rsplit_once(' ') {
        Some((before, offset)) if before.contains(':') && offset.len() <= 5 => format!("{before}+{offset}"),
        _ => given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2025-09-02T15:40:00Z", Some("2025-09-02T15:40:00Z"))]
    #[case(" 2025-09-02T15:40:00Z ", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02T15:40:00+00:00", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02T15:40:00 00:00", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02T17:40:00+02:00", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02T15:40:00.5Z", Some("2025-09-02T15:40:00.5Z"))]
    #[case("2025-09-02T15:40:00", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02 15:40:00", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02 15:40:00 00:00", Some("2025-09-02T15:40:00Z"))]
    #[case("2025-09-02", Some("2025-09-02T00:00:00Z"))]
    #[case("9999-12-31T23:59:59Z", Some("9999-12-30T22:00:00Z"))]
    #[case("1756827600", None)]
    #[case("1756827600.5", None)]
    #[case("yesterday", None)]
    #[case("", None)]
    #[case("2025-13-02T15:40:00Z", None)]
    fn times_are_read_in_every_form_that_clients_send(#[case] given: &str, #[case] read_as: Option<&str>) {
        assert_eq!(read(given).map(show).as_deref(), read_as);
    }

    #[test]
    fn a_time_can_lose_its_fraction() {
        let at = read("2025-09-02T15:40:00.999Z").expect("a time");
        assert_eq!(show(whole_seconds(at)), "2025-09-02T15:40:00Z");
    }
}

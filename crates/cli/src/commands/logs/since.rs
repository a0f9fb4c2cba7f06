//! Parses `--since`.

use muster_core::time::Timestamp as Moment;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::wkt::Timestamp;

use crate::wait::parse_duration;

/// Parses a duration before now, or a time.
pub(in crate::commands) fn parse(text: &str) -> Result<Timestamp, String> {
    before(text, SystemClock.now())
}

fn before(text: &str, now: Moment) -> Result<Timestamp, String> {
    if let Ok(duration) = parse_duration(text) {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        return Ok(Timestamp::from_micros(now.micros().saturating_sub(micros).max(0)));
    }
    let rule = || format!("'{text}' must be a duration such as 10m, or a time such as 2026-01-31T12:00:00Z");
    serde_json::from_value(text.into()).map_err(|_| rule())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10m", Some(400))]
    #[case("2s", Some(998))]
    #[case("1h", Some(0))]
    #[case("1970-01-01T00:01:00Z", Some(60))]
    #[case("1970-01-01T01:01:00+01:00", Some(60))]
    #[case("yesterday", None)]
    #[case("-5m", None)]
    fn since_is_a_duration_before_now_or_a_time(#[case] text: &str, #[case] expected: Option<i64>) {
        let moment = before(text, Moment::from_micros(1_000_000_000));
        assert_eq!(moment.ok().map(|moment| moment.micros() / 1_000_000), expected);
    }
}

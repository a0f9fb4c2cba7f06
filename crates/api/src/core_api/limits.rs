//! The lengths of time that a request may give, and how they are said.

use muster_core::time::Span;
use muster_proto::wkt;

use crate::error::ApiError;

/// Longer is a mistake more often than a wish.
const LONGEST_TIMEOUT: Span = Span::from_secs(30 * DAY);

/// Ten years: longer is for ever, which is said by leaving the field out.
const LONGEST_LIFE: Span = Span::from_secs(3_650 * DAY);

const DAY: u32 = 86_400;

/// How long actions may take: whole seconds.
pub(super) fn timeout(given: wkt::Duration) -> Result<u32, ApiError> {
    let span = between("timeout", given, Span::from_secs(1), LONGEST_TIMEOUT)?;
    let whole = span.micros() % 1_000_000 == 0;
    u32::try_from(span.secs())
        .ok()
        .filter(|_| whole)
        .ok_or_else(|| ApiError::invalid(format!("timeout is {given}: whole seconds are expected")))
}

/// How long a cluster may be idle, or live.
pub(super) fn life(field: &str, given: wkt::Duration) -> Result<Span, ApiError> {
    between(field, given, Span::from_secs(1), LONGEST_LIFE)
}

/// A length of time within limits.
pub(super) fn between(field: &str, given: wkt::Duration, least: Span, most: Span) -> Result<Span, ApiError> {
    let micros = given.micros();
    // Over gRPC the two parts may contradict each other, and then it is no length of time at all.
    let same_sign = i64::from(given.nanos.signum()) * given.seconds.signum() >= 0;
    let sound = same_sign && given.nanos.unsigned_abs() < 1_000_000_000;
    if sound && (least.micros()..=most.micros()).contains(&micros) {
        return Ok(Span::from_micros(micros));
    }
    Err(ApiError::invalid(format!("{field} is {given}: between {least} and {most} is possible")))
}

/// The longest name that a caller may give a request.
const LONGEST_REQUEST_ID: usize = 255;

/// A caller's name for a request: short, and visible.
pub(super) fn request_id(given: &str) -> Result<(), ApiError> {
    if given.len() <= LONGEST_REQUEST_ID && given.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "request_id {:?} is not possible: at most {LONGEST_REQUEST_ID} printable ASCII characters",
        given.chars().take(40).collect::<String>()
    )))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, "timeout is 0s: between 1s and 30d is possible")]
    #[case(-5, 0, "timeout is -5s: between 1s and 30d is possible")]
    #[case(i64::MAX, 0, "timeout is 9223372036854775807s: between 1s and 30d is possible")]
    #[case(i64::MIN, 0, "timeout is -9223372036854775808s: between 1s and 30d is possible")]
    #[case(5, -1, "between 1s and 30d is possible")]
    #[case(5, i32::MAX, "between 1s and 30d is possible")]
    #[case(1, 500_000_000, "timeout is 1.5s: whole seconds are expected")]
    fn what_is_no_time_to_wait_is_refused(#[case] seconds: i64, #[case] nanos: i32, #[case] words: &str) {
        let error = timeout(wkt::Duration { seconds, nanos }).unwrap_err();
        assert!(error.sentence.contains(words), "{error}");
    }
}

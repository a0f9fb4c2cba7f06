//! Bounds of the durations and request ids that a request may give.

use muster_core::cluster::LONGEST_TIMEOUT;
use muster_core::time::TimeSpan;
use muster_proto::wkt;

use crate::error::ApiError;

/// Ten years: for a longer lifetime, clients omit the field.
const LONGEST_LIFE: TimeSpan = TimeSpan::from_secs(3_650 * DAY);

const DAY: u32 = 86_400;

/// Reads the timeout of actions, in whole seconds.
pub(super) fn timeout(given: wkt::Duration) -> Result<u32, ApiError> {
    let span = between("timeout", given, TimeSpan::from_secs(1), LONGEST_TIMEOUT)?;
    let whole = span.micros() % 1_000_000 == 0;
    u32::try_from(span.secs())
        .ok()
        .filter(|_| whole)
        .ok_or_else(|| ApiError::invalid(format!("timeout is {given}: must be whole seconds")))
}

/// Reads an idle timeout or a lifetime.
pub(super) fn life(field: &str, given: wkt::Duration) -> Result<TimeSpan, ApiError> {
    between(field, given, TimeSpan::from_secs(1), LONGEST_LIFE)
}

/// Reads a duration within bounds.
pub(super) fn between(
    field: &str,
    given: wkt::Duration,
    least: TimeSpan,
    most: TimeSpan,
) -> Result<TimeSpan, ApiError> {
    let micros = given.micros();
    // Over gRPC seconds and nanoseconds may have different signs, which makes the duration invalid.
    let same_sign = i64::from(given.nanos.signum()) * given.seconds.signum() >= 0;
    let sound = same_sign && given.nanos.unsigned_abs() < 1_000_000_000;
    if sound && (least.micros()..=most.micros()).contains(&micros) {
        return Ok(TimeSpan::from_micros(micros));
    }
    Err(ApiError::invalid(format!("{field} is {given}: must be from {least} to {most}")))
}

/// The longest request id.
const LONGEST_REQUEST_ID: usize = 255;

/// Refuses a request id that is too long or not printable.
pub(super) fn request_id(given: &str) -> Result<(), ApiError> {
    if given.len() <= LONGEST_REQUEST_ID && given.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "request_id is {:?}: must have at most {LONGEST_REQUEST_ID} printable ASCII characters",
        given.chars().take(40).collect::<String>()
    )))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, "timeout is 0s: must be from 1s to 30d")]
    #[case(-5, 0, "timeout is -5s: must be from 1s to 30d")]
    #[case(i64::MAX, 0, "timeout is 9223372036854775807s: must be from 1s to 30d")]
    #[case(i64::MIN, 0, "timeout is -9223372036854775808s: must be from 1s to 30d")]
    #[case(5, -1, "must be from 1s to 30d")]
    #[case(5, i32::MAX, "must be from 1s to 30d")]
    #[case(1, 500_000_000, "timeout is 1.5s: must be whole seconds")]
    fn an_invalid_timeout_is_refused(#[case] seconds: i64, #[case] nanos: i32, #[case] expected: &str) {
        let error = timeout(wkt::Duration { seconds, nanos }).unwrap_err();
        assert!(error.message.contains(expected), "{error}");
    }
}

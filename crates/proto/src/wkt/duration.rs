//! `google.protobuf.Duration`, with its text form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS: i64 = 1_000_000_000;
const MICROS: i64 = 1_000_000;
const NANOS_IN_MICRO: i64 = 1_000;

/// `google.protobuf.Duration`; in JSON seconds such as `1.5s`. Input may also be `200ms`, `10m`, `2h` or `1d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The fraction in nanoseconds, with the same sign as the seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Duration {
    /// Converts from microseconds.
    pub fn from_micros(micros: i64) -> Self {
        let nanos = i32::try_from(micros % MICROS * NANOS_IN_MICRO).unwrap_or_default();
        Self { seconds: micros / MICROS, nanos }
    }

    /// Converts to microseconds.
    pub fn micros(self) -> i64 {
        self.seconds.saturating_mul(MICROS).saturating_add(i64::from(self.nanos) / NANOS_IN_MICRO)
    }
}

/// The error for text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a duration: write it as 200ms, 30s, 1.5s, 10m, 2h or 1d")]
pub struct NoDuration(String);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        write!(f, "{sign}{}", self.seconds.unsigned_abs())?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos.unsigned_abs());
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("s")
    }
}

impl FromStr for Duration {
    type Err = NoDuration;

    fn from_str(text: &str) -> Result<Self, NoDuration> {
        parse(text).ok_or_else(|| NoDuration(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Duration> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let sign = if negative { -1 } else { 1 };
    if let Some(millis) = rest.strip_suffix("ms") {
        let digits = !millis.is_empty() && millis.bytes().all(|byte| byte.is_ascii_digit());
        let millis = millis.parse::<i64>().ok().filter(|_| digits)?;
        return Some(Duration::from_micros(millis.checked_mul(1_000)?.checked_mul(sign)?));
    }
    let (number, unit) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
    let unit: i64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    // A fraction is accepted for seconds only: `1.5m` is more often a mistake than intended.
    if number.contains('.') && (fraction.is_empty() || unit != 1) {
        return None;
    }
    let seconds = whole.parse::<i64>().ok()?.checked_mul(unit)?;
    let nanos = format!("{fraction:0<9}").parse::<i32>().ok()?;
    Some(Duration {
        seconds: seconds.checked_mul(sign)?,
        nanos: nanos.checked_mul(i32::try_from(sign).ok()?)?,
    })
}

impl TryFrom<Duration> for std::time::Duration {
    type Error = NoDuration;

    /// Refuses negative durations, which the standard library cannot express.
    fn try_from(given: Duration) -> Result<Self, NoDuration> {
        let (seconds, nanos) = (u64::try_from(given.seconds), u32::try_from(given.nanos));
        match (seconds, nanos) {
            (Ok(seconds), Ok(nanos)) if i64::from(nanos) < NANOS => Ok(Self::new(seconds, nanos)),
            _ => Err(NoDuration(given.to_string())),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

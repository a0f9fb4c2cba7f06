//! `google.protobuf.Timestamp`, with its text form.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MICROS: i64 = 1_000_000;
const NANOS_IN_MICRO: i64 = 1_000;

/// `google.protobuf.Timestamp`; in JSON RFC 3339 with `Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds of that second, never negative.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// Converts from microseconds since 1970-01-01 UTC.
    pub fn from_micros(micros: i64) -> Self {
        let nanos = i32::try_from(micros.rem_euclid(MICROS) * NANOS_IN_MICRO).unwrap_or_default();
        Self { seconds: micros.div_euclid(MICROS), nanos }
    }

    /// Converts to microseconds since 1970-01-01 UTC.
    pub fn micros(self) -> i64 {
        self.seconds.saturating_mul(MICROS).saturating_add(i64::from(self.nanos) / NANOS_IN_MICRO)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let moment = jiff::Timestamp::new(self.seconds, self.nanos).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&moment)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let nanos = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_nanosecond).map_err(|_| {
            serde::de::Error::custom(format!("'{text}' is not a time: write it as 2026-01-31T12:00:00Z"))
        })?;
        let second = i128::from(MICROS * NANOS_IN_MICRO);
        // Both conversions succeed: jiff's timestamps end with the year 9999.
        let seconds = i64::try_from(nanos.div_euclid(second)).unwrap_or_default();
        Ok(Self { seconds, nanos: i32::try_from(nanos.rem_euclid(second)).unwrap_or_default() })
    }
}

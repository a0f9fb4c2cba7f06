//! Durations in settings: `30s`, `500ms`, `1m`, or a number of seconds.

use std::str::FromStr;

use muster_core::time::TimeSpan;
use muster_proto::wkt;
use serde::{Deserialize, Deserializer};

/// A duration that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period(pub(crate) TimeSpan);

impl Period {
    pub(super) const fn from_secs(seconds: u32) -> Self {
        Self(TimeSpan::from_secs(seconds))
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(seconds) = text.parse() {
            return Ok(Self::from_secs(seconds));
        }
        let given = wkt::Duration::from_str(text).map_err(|error| error.to_string())?;
        if given.micros() < 0 {
            return Err(format!("'{text}' is negative: write 30s or 1m"));
        }
        Ok(Self(TimeSpan::from_micros(given.micros())))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Seconds(u32),
            Text(String),
        }
        match Given::deserialize(deserializer)? {
            Given::Seconds(seconds) => Ok(Self::from_secs(seconds)),
            Given::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("30s", 30_000)]
    #[case("2", 2_000)]
    #[case("500ms", 500)]
    #[case("1m", 60_000)]
    #[case("0", 0)]
    fn a_period_has_a_unit_or_counts_seconds(#[case] text: &str, #[case] millis: u32) {
        assert_eq!(text.parse(), Ok(Period(TimeSpan::from_millis(millis))));
    }

    #[rstest]
    #[case("-1s")]
    #[case("soon")]
    #[case("")]
    fn invalid_periods_are_refused(#[case] text: &str) {
        assert!(text.parse::<Period>().is_err());
    }
}

//! Microversions of the API, which clients select by a header.

use std::fmt;

use http::HeaderMap;

use super::senlin_error::SenlinError;

/// The header that carries the client's version.
pub(super) const HEADER: &str = "openstack-api-version";

/// The service type in that header.
const SERVICE: &str = "clustering";

/// A version 1.N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MicroVersion(pub(super) u16);

impl MicroVersion {
    /// The version of clients that give none.
    pub(super) const OLDEST: Self = Self(0);
    /// The newest version. Its additions are Muster's own.
    pub(super) const NEWEST: Self = Self(15);

    /// Reads the version that a client requests; of several, the last one counts.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, SenlinError> {
        let given = headers.get_all(HEADER).iter().filter_map(|value| value.to_str().ok());
        let entries = given.flat_map(|value| value.split(','));
        let mut requested =
            entries.filter_map(|entry| entry.trim().split_once(' ')).filter(|(name, _)| *name == SERVICE);
        let Some((_, wanted)) = requested.next_back() else { return Ok(Self::OLDEST) };
        Self::read(wanted.trim())
    }

    fn read(wanted: &str) -> Result<Self, SenlinError> {
        if wanted == "latest" {
            return Ok(Self::NEWEST);
        }
        let numbers = wanted.split_once('.').and_then(|(major, minor)| {
            let number =
                |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u16>().ok());
            Some((number(major)??, number(minor)??))
        });
        let Some((major, minor)) = numbers else {
            return Err(SenlinError::form(format!(
                "API Version String '{wanted}' is of invalid format. Must be of format 'major.minor'."
            )));
        };
        if major == 1 && minor <= Self::NEWEST.0 {
            return Ok(Self(minor));
        }
        Err(SenlinError::no_such_version(format!(
            "Version '{wanted}' is not supported by the API. Minimum is '{}' and maximum is '{}'.",
            Self::OLDEST,
            Self::NEWEST
        )))
    }

    /// Returns the value of the version header in responses.
    pub(super) fn header(self) -> String {
        format!("{SERVICE} {self}")
    }
}

impl fmt::Display for MicroVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(values: &[&str]) -> Result<MicroVersion, SenlinError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        MicroVersion::of(&headers)
    }

    #[rstest]
    #[case(&[], 0)]
    #[case(&["clustering 1.7"], 7)]
    #[case(&["compute 2.1, clustering 1.3"], 3)]
    #[case(&["clustering 1.3,clustering 1.5"], 5)]
    #[case(&["clustering 1.3", "clustering 1.4"], 4)]
    #[case(&["clustering latest"], 15)]
    #[case(&["compute 2.1"], 0)]
    fn the_last_version_for_this_service_counts(#[case] values: &[&str], #[case] minor: u16) {
        assert_eq!(of(values).unwrap(), MicroVersion(minor));
    }

    #[test]
    fn an_unsupported_version_is_refused_with_those_supported() {
        let error = of(&["clustering 1.99"]).unwrap_err();
        let text = "Version '1.99' is not supported by the API. Minimum is '1.0' and maximum is '1.15'.";
        assert_eq!((error.status.as_u16(), error.message.as_str()), (406, text));
        assert_eq!(of(&["clustering 2.0"]).unwrap_err().status.as_u16(), 406);
        assert_eq!(of(&["clustering abc"]).unwrap_err().status.as_u16(), 400);
        assert_eq!(of(&["clustering 1.+7"]).unwrap_err().status.as_u16(), 400);
    }
}

//! Profiles: the typed, versioned recipes that nodes are created from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::ProfileId;
use crate::time::Timestamp;

/// A type of profile, such as `dask.cluster-1.0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileType {
    /// The name, such as `dask.cluster`.
    pub name: String,
    /// The version, such as `1.0`.
    pub version: String,
}

/// A string that names no type and version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not a profile type: must be a name and a version, such as dask.cluster-1.0")]
pub struct InvalidProfileType {
    /// The given value.
    pub given: String,
}

impl ProfileType {
    /// A type with this name and version.
    pub fn new(name: &str, version: &str) -> Self {
        Self { name: name.to_owned(), version: version.to_owned() }
    }
}

impl fmt::Display for ProfileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.name, self.version)
    }
}

impl FromStr for ProfileType {
    type Err = InvalidProfileType;

    fn from_str(given: &str) -> Result<Self, InvalidProfileType> {
        let parts = given.rsplit_once('-').filter(|(name, version)| {
            !name.is_empty() && version.starts_with(|first: char| first.is_ascii_digit())
        });
        let (name, version) = parts.ok_or_else(|| InvalidProfileType { given: given.to_owned() })?;
        Ok(Self::new(name, version))
    }
}

impl TryFrom<String> for ProfileType {
    type Error = InvalidProfileType;

    fn try_from(given: String) -> Result<Self, InvalidProfileType> {
        given.parse()
    }
}

impl From<ProfileType> for String {
    fn from(value: ProfileType) -> Self {
        value.to_string()
    }
}

/// A recipe for nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its id.
    pub id: ProfileId,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ProfileType,
    /// The tenant.
    pub project: String,
    /// The user that created it.
    pub user: String,
    /// The properties, as they were given.
    pub properties: Map<String, Value>,
    /// The other fields of the specification, as they were given; empty if the type says it all.
    pub envelope: Map<String, Value>,
    /// User data.
    pub metadata: Map<String, Value>,
    /// True if the profile was created for one cluster, and is deleted with it.
    pub implicit: bool,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
}

impl Profile {
    /// A profile that is created for one cluster, and deleted with it.
    pub fn implicit(
        id: ProfileId,
        name: impl Into<String>,
        kind: ProfileType,
        project: impl Into<String>,
        user: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            kind,
            project: project.into(),
            user: user.into(),
            properties: Map::new(),
            envelope: Map::new(),
            metadata: Map::from_iter([("muster_implicit".to_owned(), Value::Bool(true))]),
            implicit: true,
            created_at,
            updated_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_type_is_written_as_it_was_read() {
        let kind: ProfileType = "dask.cluster-1.0".parse().unwrap();
        assert_eq!(kind, ProfileType::new("dask.cluster", "1.0"));
        assert_eq!(kind.to_string(), "dask.cluster-1.0");
    }

    #[rstest]
    #[case("dask.cluster")]
    #[case("-1.0")]
    #[case("dask-cluster")]
    #[case("")]
    fn what_names_no_version_is_refused(#[case] given: &str) {
        assert!(given.parse::<ProfileType>().is_err());
    }
}

//! Typed ids: a node's id cannot be passed where a cluster's is asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A string that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not an id: a UUID such as 0190f3a2-7b1c-7d4e-8f00-1234567890ab is expected")]
pub struct InvalidId {
    /// The given value.
    pub given: String,
}

macro_rules! typed_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The id with this UUID. New ids are drawn where a clock and randomness are allowed.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID behind the id.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }

            /// The first eight characters, as people quote it.
            pub fn short(&self) -> String {
                self.0.as_simple().to_string()[..8].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(given: &str) -> Result<Self, InvalidId> {
                Uuid::parse_str(given).map(Self).map_err(|_| InvalidId { given: given.to_owned() })
            }
        }
    )+};
}

typed_id! {
    /// A cluster, whichever API created it.
    ClusterId,
    /// One member of a cluster, or an orphan.
    NodeId,
    /// A recipe for nodes.
    ProfileId,
    /// A rule.
    PolicyId,
    /// A rule's attachment to a cluster.
    BindingId,
    /// A webhook receiver.
    ReceiverId,
    /// A durable unit of change.
    ActionId,
    /// Something that happened.
    EventId,
    /// A process that executes actions.
    EngineId,
    /// A durable piece of work that is not a change of a cluster.
    TaskId,
    /// A recipe for images.
    ImageTemplateId,
    /// A workload that uses clusters.
    AppId,
    /// A command that runs beside a cluster.
    JobId,
}

/// The provider whose nodes are processes of the server's user.
pub const LOCAL_PROVIDER: &str = "local";

/// Where nodes really run: `local:<id>`, `kubernetes:<uid>`, `simulated:<database id>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(String);

impl InstanceId {
    /// The instance of this kind of provider with this id.
    pub fn new(provider: &str, id: &str) -> Self {
        Self(format!("{provider}:{id}"))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind of provider.
    pub fn provider(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(provider, _)| provider)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InstanceId {
    type Err = std::convert::Infallible;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        Ok(Self(given.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190f3a2-7b1c-7d4e-8f00-1234567890ab";

    #[test]
    fn an_id_is_written_as_it_was_read() {
        let id: ClusterId = ID.parse().unwrap();
        assert_eq!(id.to_string(), ID);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{ID}\""));
        assert_eq!(serde_json::from_str::<ClusterId>(&format!("\"{ID}\"")).unwrap(), id);
    }

    #[test]
    fn a_short_id_is_its_first_eight_characters() {
        assert_eq!(ID.parse::<NodeId>().unwrap().short(), "0190f3a2");
    }

    #[test]
    fn what_is_no_uuid_is_refused_with_the_value() {
        let error = "fred".parse::<ClusterId>().unwrap_err();
        assert!(error.to_string().starts_with("'fred' is not an id"), "{error}");
    }
}

//! Names of types and of the objects that are created for them.

use super::{DOMAIN, INJECT_RESOURCE, INJECTING_CONTAINER, MACHINE_GROUP, MACHINE_TYPE, NODE_POOL, POD_ROLE};

/// The longest name of a StatefulSet: its controller appends a hash of eleven characters, and the result is the value
/// of a label.
const LONGEST_JOINED: usize = 52;

/// The longest name of a Machine: its pool has ten characters more, and no object has more than 253.
const LONGEST_MACHINE: usize = 243;

/// The reserved keys; a type of such a name would overwrite them on nodes.
const OWN_KEYS: [&str; 6] =
    [MACHINE_GROUP, MACHINE_TYPE, POD_ROLE, NODE_POOL, INJECTING_CONTAINER, INJECT_RESOURCE];

/// The reason why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// A type that is named like a reserved key.
    #[error("machineType name '{0}' is reserved: '{DOMAIN}/{0}' is a key of its own; choose another name")]
    Reserved(String),
    /// A name that no Service can have.
    #[error(
        "{what} '{name}' is not possible: names have small letters, digits and '-', begin with a letter and end with a letter \
         or digit"
    )]
    Malformed {
        /// The kind of the named object.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A Machine whose pool would have too long a name.
    #[error(
        "the name of the Machine has {length} characters: at most {LONGEST_MACHINE} are possible; shorten it"
    )]
    LongMachine {
        /// The length of the name.
        length: usize,
    },
    /// A name that is too long for a StatefulSet.
    #[error("'{name}', the name of the reservation, has {} characters: at most {LONGEST_JOINED} are possible; shorten the type or the group", name.len())]
    TooLong {
        /// The name.
        name: String,
    },
}

/// The name of a type's StatefulSet and Service.
pub fn reservation_name(machine_type: &str, group: &str) -> String {
    format!("{machine_type}-{group}")
}

/// The name of the pool of a Machine.
pub fn pool_name(machine: &str) -> String {
    format!("{machine}-node-pool")
}

/// Refuses a type whose name cannot be a key of nodes or begin the name of a Service.
pub fn check_type_name(name: &str) -> Result<(), InvalidName> {
    if OWN_KEYS.iter().any(|key| key.strip_prefix(DOMAIN).and_then(|key| key.strip_prefix('/')) == Some(name))
    {
        return Err(InvalidName::Reserved(name.to_owned()));
    }
    well_formed("machineType name", name)
}

/// Refuses a Machine whose pool would have too long a name.
pub fn check_machine_name(name: &str) -> Result<(), InvalidName> {
    let length = name.len();
    if length > LONGEST_MACHINE { Err(InvalidName::LongMachine { length }) } else { Ok(()) }
}

/// Refuses a type and a group whose joined name is not valid for a reservation.
pub fn check_joined_name(machine_type: &str, group: &str) -> Result<(), InvalidName> {
    let name = reservation_name(machine_type, group);
    well_formed("the name of the reservation", &name)?;
    if name.len() > LONGEST_JOINED { Err(InvalidName::TooLong { name }) } else { Ok(()) }
}

/// Checks that a name is a label of RFC 1035, as the name of a Service has to be.
fn well_formed(what: &'static str, name: &str) -> Result<(), InvalidName> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inner)
        && !name.ends_with('-')
        && name.len() <= 63;
    if good { Ok(()) } else { Err(InvalidName::Malformed { what, name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("compute-xlarge", true)]
    #[case::digits("a100", true)]
    #[case::own_key("node-pool", false)]
    #[case::own_key_of_pods("machine-group", false)]
    #[case::own_key_of_the_injector("inject-resource", false)]
    #[case::empty("", false)]
    #[case::digit_first("2xlarge", false)]
    #[case::capital("Large", false)]
    #[case::dot("a.b", false)]
    #[case::dash_last("a-", false)]
    fn a_type_can_be_named_like_a_service_but_not_like_our_keys(#[case] name: &str, #[case] good: bool) {
        assert_eq!(check_type_name(name).is_ok(), good, "{:?}", check_type_name(name));
    }

    #[test]
    fn a_joined_name_has_at_most_52_characters() {
        assert_eq!(check_joined_name(&"a".repeat(40), &"b".repeat(11)), Ok(()));
        let refused = check_joined_name(&"a".repeat(40), &"b".repeat(12)).unwrap_err().to_string();
        assert!(refused.contains("has 53 characters"), "{refused}");
        assert!(check_joined_name("a", "B").is_err());
    }

    #[test]
    fn a_machine_can_be_named_if_its_pool_can() {
        assert_eq!(pool_name(&"m".repeat(LONGEST_MACHINE)).len(), 253);
        assert_eq!(check_machine_name(&"m".repeat(LONGEST_MACHINE)), Ok(()));
        let refused = check_machine_name(&"m".repeat(LONGEST_MACHINE + 1)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the name of the Machine has 244 characters: at most 243 are possible; shorten it"
        );
    }

    #[test]
    fn names_are_those_of_the_seed() {
        assert_eq!(reservation_name("compute-xlarge", "general-machine"), "compute-xlarge-general-machine");
        assert_eq!(pool_name("general-machine"), "general-machine-node-pool");
    }
}

//! Shapes of nodes: cpu, memory, gpu, and where they may run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::{Cpu, InvalidQuantity, Memory};
use crate::unknown_fields::UnknownFields;

/// The size of a node. Absent values are left to the provider.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Cpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Whole accelerators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Labels that the machine below must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub selectors: BTreeMap<String, String>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A named shape of the server's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedShape {
    /// Its name.
    pub name: String,
    /// Cpu.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// Whole accelerators.
    pub gpu: Option<u32>,
}

/// The least memory of a node: a smaller amount was meant in another unit.
const LEAST_MEMORY: Memory = Memory::from_bytes(1 << 20);

/// Why a shape was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShape {
    /// One of its amounts is invalid.
    #[error(transparent)]
    Quantity(#[from] InvalidQuantity),
    /// No cpu.
    #[error(
        "cpu is 0, and nothing runs on none: give a part of a core at least, such as 100m, or leave it out"
    )]
    NoCpu,
    /// Too little memory.
    #[error(
        "memory is {0}, and no program runs in less than {LEAST_MEMORY}: give more, with a unit, such as 512Mi or 4Gi"
    )]
    TooLittleMemory(Memory),
}

/// Refuses amounts that no node can run with.
pub fn check(cpu: Option<Cpu>, memory: Option<Memory>) -> Result<(), InvalidShape> {
    if cpu == Some(Cpu::default()) {
        return Err(InvalidShape::NoCpu);
    }
    match memory.filter(|memory| *memory < LEAST_MEMORY) {
        Some(memory) => Err(InvalidShape::TooLittleMemory(memory)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1m", "1Mi", None)]
    #[case("0", "1Gi", Some("cpu is 0, and nothing runs on none: give a part of a core at least"))]
    #[case("1", "1", Some("memory is 1, and no program runs in less than 1Mi: give more, with a unit"))]
    #[case("1", "1048575", Some("memory is 1048575, and no"))]
    fn amounts_that_nothing_runs_with_are_refused(
        #[case] cpu: &str,
        #[case] memory: &str,
        #[case] why: Option<&str>,
    ) {
        let checked = check(cpu.parse().ok(), memory.parse().ok()).map_err(|error| error.to_string());
        match why {
            None => assert_eq!(checked, Ok(())),
            Some(why) => assert!(checked.as_ref().is_err_and(|said| said.contains(why)), "{checked:?}"),
        }
    }
}

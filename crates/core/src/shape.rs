//! What one node is given: cpu, memory, gpu, and where it may run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::{Cpu, Memory};

/// The size of a node. What is absent is left to the provider.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
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
}

/// A shape that has a name, as a server's configuration has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedShape {
    /// What people call it.
    pub name: String,
    /// Cpu.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// Whole accelerators.
    pub gpu: Option<u32>,
}

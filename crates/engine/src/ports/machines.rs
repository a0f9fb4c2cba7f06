//! Machines: nodes whose slots are reserved for guests. They are served beside the engine.

use std::collections::{BTreeMap, HashMap};

use muster_core::time::Timestamp;

/// What serves machines.
pub trait MachineProvider: Send + Sync {
    /// Why guests are not admitted now.
    fn readiness(&self) -> Result<(), String>;

    /// The groups in the order of their names; else why they are not known.
    fn groups(&self) -> Result<Vec<MachineGroup>, String>;

    /// The pods of a namespace that wait for slots of a group, each with its place in the queue of its type; none if the group
    /// has no Machine.
    fn queue(&self, group: &str, namespace: &str) -> Option<HashMap<String, usize>>;

    /// The labels that make a pod in a namespace a guest; else why there are no guests in it.
    fn guest_labels(
        &self,
        namespace: &str,
        group: &str,
        machine_type: &str,
    ) -> Result<BTreeMap<String, String>, String>;
}

/// Nodes whose slots are reserved together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineGroup {
    /// Its name.
    pub name: String,
    /// The name of its Machine.
    pub machine: String,
    /// Its types; those that it does not have any more come last.
    pub types: Vec<MachineType>,
}

/// A kind of slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineType {
    /// Its name.
    pub name: String,
    /// The cpu of a slot.
    pub cpu: String,
    /// The memory of a slot.
    pub memory: String,
    /// The accelerators of a slot.
    pub gpu: Option<String>,
    /// The resource that they are requested by.
    pub gpu_resource: Option<String>,
    /// How many slots there are.
    pub maximum: i32,
    /// How many of them a reservation holds.
    pub reserved: i32,
    /// How many guests have been placed.
    pub used: i32,
    /// How many guests have not been placed.
    pub waiting: i32,
    /// Its guests, first those that have a slot.
    pub guests: Vec<Guest>,
}

/// A pod that has a slot, or waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its namespace.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// Whether it has a slot.
    pub has_slot: bool,
    /// How many guests get a slot before it, and one; none if it has one, or if there are none.
    pub position: Option<usize>,
    /// Since when it has its slot, or waits for one.
    pub since: Timestamp,
}

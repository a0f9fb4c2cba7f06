//! The port to machines: Kubernetes nodes whose slots are reserved for guests. Their controllers run beside the engine.

use std::collections::{BTreeMap, HashMap};

use muster_core::time::Timestamp;

/// Reports on machines and their guests.
pub trait MachineProvider: Send + Sync {
    /// Returns an error with the reason if guests are not admitted now.
    fn readiness(&self) -> Result<(), String>;

    /// Returns the groups in the order of their names; the error says why they are not known.
    fn groups(&self) -> Result<Vec<MachineGroup>, String>;

    /// Returns the pods of a namespace that wait for slots of a group, each with its position in the queue of its type;
    /// none if the group has no Machine.
    fn queue(&self, group: &str, namespace: &str) -> Option<HashMap<String, usize>>;

    /// Returns the labels that make a pod in a namespace a guest; the error says why the namespace can have no guests.
    fn guest_labels(
        &self,
        namespace: &str,
        group: &str,
        machine_type: &str,
    ) -> Result<BTreeMap<String, String>, String>;
}

/// A group of Kubernetes nodes whose slots are reserved together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineGroup {
    /// Its name.
    pub name: String,
    /// The name of its Machine.
    pub machine: String,
    /// Its machine types; those that were removed from the Machine come last.
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
    /// The name of the resource by which accelerators are requested.
    pub gpu_resource: Option<String>,
    /// The number of slots.
    pub maximum: i32,
    /// The number of slots that a reservation holds.
    pub reserved: i32,
    /// The number of guests that have a slot.
    pub used: i32,
    /// The number of guests that wait for a slot.
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
    /// True if the guest has a slot.
    pub has_slot: bool,
    /// The position in the queue, counted from one; none if the guest has a slot, or if its type has no slots.
    pub position: Option<usize>,
    /// The time since which the guest has its slot, or waits for one.
    pub since: Timestamp,
}

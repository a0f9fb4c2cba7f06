//! Machine: a group of nodes and the types that they serve.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;
use crate::keys;

/// A group of nodes and the machine types that they serve.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "imperator.tenzen-y.io",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    status = "MachineStatus",
    derive = "PartialEq",
    doc = "A group of nodes and the machine types that they serve.",
    printcolumn = r#"{"name": "Group", "type": "string", "jsonPath": ".metadata.labels.imperator\\.tenzen-y\\.io/machine-group"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The nodes of the group.
    pub node_pool: Vec<NodePoolEntry>,
    /// The types that they serve.
    #[schemars(length(max = rules::MOST_TYPES))]
    pub machine_types: Vec<MachineType>,
    /// The treatment of guests for which no slot is free.
    #[serde(default)]
    pub overflow: Overflow,
}

/// A node of a group.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[schemars(extend("x-kubernetes-validations" = rules::node_pool_entry()))]
#[serde(rename_all = "camelCase")]
pub struct NodePoolEntry {
    /// The name of the node.
    #[schemars(length(max = 253))]
    pub name: String,
    /// `ready`, or `maintenance` if nothing new may run on the node.
    pub mode: Mode,
    /// True to taint the node, which keeps off pods that are neither reservations nor guests.
    #[serde(default)]
    pub taint: bool,
    /// The type that the node serves: exactly one.
    pub machine_type: Vec<TypeName>,
}

impl NodePoolEntry {
    /// The type that the node serves, if it is exactly one.
    pub fn single_type(&self) -> Option<&str> {
        match self.machine_type.as_slice() {
            [only] => Some(&only.name),
            _ => None,
        }
    }
}

/// The mode of a node.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Reservations and guests run on it.
    Ready,
    /// No new pods are placed on it.
    Maintenance,
}

/// A reference to a type.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct TypeName {
    /// Its name.
    #[schemars(length(max = 63))]
    pub name: String,
}

/// A machine type: the resources of a slot, and the number of slots.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct MachineType {
    /// Its name, unique in the Machine.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The resources of one slot.
    pub spec: TypeAmounts,
    /// The number of slots.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub available: i32,
}

/// The resources of one slot.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct TypeAmounts {
    /// Cpu.
    pub cpu: Quantity,
    /// Memory.
    pub memory: Quantity,
    /// Accelerators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
}

/// The accelerators of a slot.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[schemars(extend("x-kubernetes-validations" = rules::gpu()))]
pub struct Gpu {
    /// The resource name of the accelerators.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub resource: Option<String>,
    /// The number of accelerators; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub num: Option<Quantity>,
    /// The value of the node's label `nvidia.com/gpu.family`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub family: Option<String>,
    /// The value of the node's label `nvidia.com/gpu.product`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub product: Option<String>,
    /// The value of the node's label `nvidia.com/gpu.machine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub machine: Option<String>,
}

/// Bounded, so that the cost of rules over it can be estimated.
fn int_or_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true, "maxLength": 64})
}

/// The treatment of guests for which no slot is free.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// They wait in order.
    #[default]
    Wait,
    /// They are refused at admission.
    Deny,
}

/// The observed state of a Machine, and its ledger.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// `Ready`, `CapacityShort` and `NodePoolReady`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The slots of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub available_machines: Vec<AvailableMachine>,
    /// The ledger: the guests that have a slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["uid"]))]
    pub bookings: Vec<Booking>,
}

/// The slots of a type.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct AvailableMachine {
    /// The type.
    pub name: String,
    /// The number of slots in each state.
    pub usage: Usage,
}

/// The number of slots in each state.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All slots.
    #[schemars(range(min = 0))]
    pub maximum: i32,
    /// Slots that are held by a reservation.
    #[schemars(range(min = 0))]
    pub reserved: i32,
    /// Slots that are used by a guest.
    #[schemars(range(min = 0))]
    pub used: i32,
    /// Guests that have no node yet.
    #[schemars(range(min = 0))]
    pub waiting: i32,
}

/// An entry of the ledger: a guest that has a slot.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Booking {
    /// The UID of the guest.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The type of the slot.
    pub machine_type: String,
    /// The time at which the slot was booked.
    pub booked_at: MicroTime,
}

impl Machine {
    /// The group, from the label.
    pub fn group(&self) -> Option<&str> {
        self.labels().get(keys::MACHINE_GROUP).map(String::as_str).filter(|group| !group.is_empty())
    }

    /// A type by its name.
    pub fn machine_type(&self, name: &str) -> Option<&MachineType> {
        self.spec.machine_types.iter().find(|candidate| candidate.name == name)
    }

    /// Returns true if the Machine is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The number of slots of a type in the spec; 0 if the type was removed or the Machine is being deleted.
    pub fn maximum(&self, machine_type: &str) -> i32 {
        match self.machine_type(machine_type) {
            Some(found) if !self.is_leaving() => found.available.max(0),
            _ => 0,
        }
    }

    /// The ledger.
    pub fn bookings(&self) -> &[Booking] {
        self.status.as_ref().map_or(&[], |status| &status.bookings)
    }
}

//! Keys of labels, annotations and taints, and the names of objects.
//!
//! The domain is that of the published operator, so that manifests of its users apply unchanged.

mod names;

use muster_core::machine;
pub use names::{
    InvalidName, check_joined_name, check_machine_name, check_type_name, pool_name, reservation_name,
};

/// The domain of the API group and of most keys.
pub const DOMAIN: &str = "imperator.tenzen-y.io";

/// Label: the group. On Machines, pools, reservations and guests; nodes have an annotation with the same key.
pub const MACHINE_GROUP: &str = machine::MACHINE_GROUP;

/// Label: the type. On reservations, guests and nodes.
pub const MACHINE_TYPE: &str = machine::MACHINE_TYPE;

/// Label: [`RESERVATION`] or [`GUEST`].
pub const POD_ROLE: &str = machine::POD_ROLE;

/// The role of pods that hold a slot for a guest.
pub const RESERVATION: &str = "reservation";

/// The role of pods that use a slot.
pub const GUEST: &str = "guest";

/// The three labels of a guest, which never change.
pub const GUEST_LABELS: [&str; 3] = machine::GUEST_LABELS;

/// Label and taint of nodes: their health.
pub const NODE_POOL: &str = "imperator.tenzen-y.io/node-pool";

/// Label of guests: the container that is given the type's resources.
pub const INJECTING_CONTAINER: &str = "imperator.tenzen-y.io/injecting-container";

/// An alias of [`INJECTING_CONTAINER`]; also the second spelling of the label of namespaces.
pub const INJECT_RESOURCE: &str = "imperator.tenzen-y.io/inject-resource";

/// The labels of namespaces whose guests are served, in both spellings; one of them is enough.
pub const NAMESPACE_LABELS: [&str; 2] = ["imperator.tenzen.io/inject-resource", INJECT_RESOURCE];

/// The value of the label of such namespaces.
pub const ENABLED: &str = "enabled";

/// The scheduling gate of guests that have no slot yet.
pub const GATE: &str = machine::SLOT_GATE;

/// Annotation of guests: the time at which the injector queued them, in microseconds since 1970. Orders guests that
/// were created in the same second.
pub const QUEUED_AT: &str = "muster.dev/queued-at";

/// Annotation of guests: the time at which their slot was booked. Written together with the removal of the gate.
pub const BOOKED_AT: &str = "muster.dev/booked-at";

/// Annotation of the policy beside the webhook: the namespace of the Muster that it belongs to.
pub const MACHINES_NAMESPACE: &str = "muster.dev/machines-namespace";

/// The field manager of all writes of Muster's machines part.
pub const FIELD_MANAGER: &str = "muster-machines";

/// The priority class of guests that are created without one.
pub const GUEST_PRIORITY_CLASS: &str = "muster-guest";

/// The priority of that class: above the cluster's default, which reservations have.
pub const GUEST_PRIORITY: i32 = 1;

/// The finalizer of pools: their nodes are cleaned before the pool is gone.
pub const POOL_FINALIZER: &str = "imperator.tenzen-y.io/nodes";

/// The finalizer of the published operator on pools.
pub const PUBLISHED_FINALIZER: &str = "imperator-machinenodepool-finalizer";

/// The Lease by which replicas of the published operator elect their leader.
pub const PUBLISHED_LEASE: &str = "c402a1f6.imperator.tenzen-y.io";

/// The namespace of the published operator, and the default for Muster's.
pub const PUBLISHED_NAMESPACE: &str = "imperator-system";

/// The Lease by which replicas of Muster elect their leader.
pub const LEASE: &str = "muster-machines";

/// Returns true if the labels of a namespace enable its guests.
pub fn is_enabled(labels: &std::collections::BTreeMap<String, String>) -> bool {
    NAMESPACE_LABELS.iter().any(|label| labels.get(*label).is_some_and(|value| value == ENABLED))
}

/// The label and the taint of nodes that serve a type; the value is the group.
pub fn type_key(machine_type: &str) -> String {
    format!("{DOMAIN}/{machine_type}")
}

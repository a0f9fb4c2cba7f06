//! The labels and the scheduling gate of guests: pods that take slots of a machine type.

/// Label: the machine group of a guest.
pub const MACHINE_GROUP: &str = "imperator.tenzen-y.io/machine-group";

/// Label: the machine type of a guest.
pub const MACHINE_TYPE: &str = "imperator.tenzen-y.io/machine-type";

/// Label: the role of a pod with respect to slots.
pub const POD_ROLE: &str = "imperator.tenzen-y.io/pod-role";

/// The three labels of a guest, which never change.
pub const GUEST_LABELS: [&str; 3] = [MACHINE_GROUP, MACHINE_TYPE, POD_ROLE];

/// The scheduling gate of guests that have no slot yet.
pub const SLOT_GATE: &str = "muster.dev/slot";

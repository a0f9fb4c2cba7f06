//! The names by which guests of machines are known: pods that take slots of a machine type.

/// Label: the machine group of a guest.
pub const MACHINE_GROUP: &str = "imperator.tenzen-y.io/machine-group";

/// Label: the machine type of a guest.
pub const MACHINE_TYPE: &str = "imperator.tenzen-y.io/machine-type";

/// The scheduling gate of guests that have no slot yet.
pub const SLOT_GATE: &str = "muster.dev/slot";

//! The reservations of a Machine: pods that hold the free slots of its types.
//!
//! `replicas = max(0, maximum − guests that hold or claim a slot)`. Reservations that cannot be placed never lower the
//! number, because it would rise again as soon as they are gone: the number would oscillate.

mod capacity;
mod objects;
mod overview;
mod plan;
mod status;

pub use capacity::{NodeSlots, TypeCapacity, other_requests, type_capacity};
pub use objects::{RESERVATION_IMAGE, wanted_service, wanted_set};
pub use overview::{GroupOverview, GuestOverview, TypeOverview, overview};
pub use plan::{
    ObservedMachine, PodDeletion, ReservationSettings, ReservationWrite, capacities, plan_reservations,
};
pub use status::{machine_status, usage};

#[cfg(test)]
mod tests;

//! The reservations of a Machine: how many pods hold slots, and where.
//!
//! `replicas = max(0, maximum − guests that hold or claim a slot)`. Reservations that cannot be placed never lower the
//! number: it would rise again as soon as they are gone.

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

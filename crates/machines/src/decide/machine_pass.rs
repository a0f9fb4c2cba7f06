//! A pass over a Machine: the ledger, the slots of its types, and the writes that follow once the ledger is
//! acknowledged.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use muster_core::time::Timestamp;

use crate::decide::ledger::next_ledger;
use crate::decide::reservations::{
    ObservedMachine, ReservationSettings, ReservationWrite, TypeCapacity, capacities, plan_reservations,
};
use crate::decide::takeover::{PublishedSet, replace_sets};
use crate::types::Booking;

/// The writes of a pass over a Machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachinePlan {
    /// The ledger, which is written first.
    pub ledger: Vec<Booking>,
    /// The slots of each type of the spec.
    pub capacities: Vec<TypeCapacity>,
    /// The writes that follow once the ledger is acknowledged.
    pub writes: Vec<ReservationWrite>,
    /// The types whose reservations are still those of the published operator, and are not reduced.
    pub held_back: BTreeSet<String>,
}

/// Plans a pass. Pure: the same observation gives the same plan.
pub fn plan_machine(
    observed: &ObservedMachine,
    settings: ReservationSettings,
    now: Timestamp,
) -> MachinePlan {
    let machine = observed.machine;
    let ledger = next_ledger(machine, &observed.guests, now).unwrap_or_else(|| machine.bookings().to_vec());
    let capacities = capacities(observed);
    let types: Vec<&str> = machine.spec.machine_types.iter().map(|of_spec| of_spec.name.as_str()).collect();
    let is_short = |name: &str| {
        types.iter().zip(&capacities).any(|(of_spec, capacity)| *of_spec == name && capacity.is_short())
    };
    let replacement = replace_sets(observed.group, &types, &observed.sets, is_short);
    let held_back: BTreeSet<&str> = replacement.held_back.iter().copied().collect();
    let mut writes = plan_reservations(observed, &ledger, settings, &held_back);
    if let Some(published) = replacement.delete {
        writes.extend(removal(observed, published));
    }
    let held_back = held_back.into_iter().map(str::to_owned).collect();
    MachinePlan { ledger, capacities, writes, held_back }
}

/// The removal of a set of the published operator, with its Service.
fn removal(observed: &ObservedMachine, PublishedSet { name, uid }: PublishedSet) -> Vec<ReservationWrite> {
    let service = observed.services.iter().find(|service| service.name_any() == name);
    let service = service.map(|service| ReservationWrite::DeleteService {
        name: name.clone(),
        uid: service.uid().unwrap_or_default(),
    });
    service.into_iter().chain([ReservationWrite::DeleteSet { name, uid }]).collect()
}

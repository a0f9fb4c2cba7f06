//! The overview for users: free slots, guests with a slot, and waiting guests.

use muster_core::time::Timestamp;

use crate::amounts::{CPU, MEMORY, core_time, normalised};
use crate::decide::ledger::waiting;
use crate::decide::reservations::plan::ObservedMachine;
use crate::decide::reservations::status::usage;
use crate::types::{Gpu, Machine, MachineType, TypeAmounts, Usage};

/// A group in the overview.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupOverview {
    /// The group.
    pub name: String,
    /// The name of its Machine.
    pub machine: String,
    /// The types; those that were removed from the Machine come last.
    pub types: Vec<TypeOverview>,
}

/// A type in the overview.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeOverview {
    /// The type.
    pub name: String,
    /// The resources of one slot; `None` if the type was removed from the Machine.
    pub amounts: Option<TypeAmounts>,
    /// The number of slots by state.
    pub usage: Usage,
    /// The guests: those that have a slot in the order of their bookings, then those that wait.
    pub guests: Vec<GuestOverview>,
}

/// A guest in the overview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOverview {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// True if the guest has a slot.
    pub has_slot: bool,
    /// The position in the queue; `None` if the guest has a slot, or the type has no slots.
    pub position: Option<usize>,
    /// The time since which the guest has its slot, or waits for one.
    pub since: Timestamp,
}

/// The overview of an observed group.
pub fn overview(observed: &ObservedMachine<'_>) -> GroupOverview {
    let Machine { metadata, spec, .. } = observed.machine;
    let ledger = observed.machine.bookings();
    let queue = waiting(observed.machine, ledger, &observed.guests);
    let known = spec.machine_types.iter().map(|machine_type| machine_type.name.as_str());
    let of_guests = ledger
        .iter()
        .map(|booking| &booking.machine_type)
        .chain(queue.iter().map(|guest| &guest.machine_type));
    let mut names: Vec<&str> = known.collect();
    for name in of_guests {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let of_type = |name: &str| {
        let holders = ledger.iter().filter(|booking| booking.machine_type == name);
        let holders = holders.map(|booking| GuestOverview {
            namespace: booking.namespace.clone(),
            name: booking.name.clone(),
            has_slot: true,
            position: None,
            since: core_time(booking.booked_at.0),
        });
        let waiting = queue.iter().filter(|guest| guest.machine_type == name);
        let waiting = waiting.map(|guest| GuestOverview {
            namespace: guest.namespace.clone(),
            name: guest.name.clone(),
            has_slot: false,
            position: guest.position,
            since: guest.since,
        });
        TypeOverview {
            name: name.to_owned(),
            amounts: observed.machine.machine_type(name).map(|MachineType { spec, .. }| shown_amounts(spec)),
            usage: usage(observed, name),
            guests: holders.chain(waiting).collect(),
        }
    };
    GroupOverview {
        name: observed.group.to_owned(),
        machine: metadata.name.clone().unwrap_or_default(),
        types: names.into_iter().map(of_type).collect(),
    }
}

/// Normalises amounts, whatever form the Machine has them in.
fn shown_amounts(TypeAmounts { cpu, memory, gpu }: &TypeAmounts) -> TypeAmounts {
    let gpu = gpu.as_ref().map(|gpu| {
        let resource = gpu.resource.as_deref().unwrap_or_default();
        Gpu { num: gpu.num.as_ref().map(|number| normalised(resource, number)), ..gpu.clone() }
    });
    TypeAmounts { cpu: normalised(CPU, cpu), memory: normalised(MEMORY, memory), gpu }
}

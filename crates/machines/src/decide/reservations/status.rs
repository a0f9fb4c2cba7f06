//! The status of a Machine.

use std::collections::BTreeSet;

use muster_core::time::Timestamp;

use super::capacity::TypeCapacity;
use super::plan::{ObservedMachine, has_unusable_node};
use crate::decide::slot_pod::{SlotPod, SlotRole};
use crate::types::{
    AvailableMachine, Booking, CAPACITY_SHORT, MachineStatus, NODE_POOL_READY, READY, Usage, WantedCondition,
    merge_conditions, ready,
};

/// The counts of a type. A reservation counts if a guest could replace it: not while it terminates, nor on a node that
/// cannot be used.
pub fn usage(observed: &ObservedMachine, machine_type: &str) -> Usage {
    let count = |pods: &[&SlotPod], counts: &dyn Fn(&SlotPod) -> bool| {
        let counted = pods.iter().filter(|pod| pod.machine_type == machine_type && counts(pod)).count();
        i32::try_from(counted).unwrap_or(i32::MAX)
    };
    let holds = |pod: &SlotPod| {
        pod.role == SlotRole::Reservation
            && pod.is_placed()
            && !pod.terminating
            && !has_unusable_node(observed, pod)
    };
    Usage {
        maximum: observed.machine.maximum(machine_type),
        reserved: count(&observed.reservations, &holds),
        used: count(&observed.guests, &SlotPod::is_placed),
        waiting: count(&observed.guests, &SlotPod::is_waiting),
    }
}

/// The status after a pass; `None` if it equals the present status. `problems` are the messages of failed writes.
pub fn machine_status(
    observed: &ObservedMachine,
    ledger: Vec<Booking>,
    capacities: &[TypeCapacity],
    problems: &[String],
    now: Timestamp,
) -> Option<MachineStatus> {
    let before = observed.machine.status.clone().unwrap_or_default();
    let mut conditions = vec![ready(problems), capacity_short(capacities)];
    conditions.extend(pool_ready(observed));
    let status = MachineStatus {
        conditions: merge_conditions(
            &before.conditions,
            conditions,
            observed.machine.metadata.generation,
            now,
        ),
        available_machines: available(observed, &before),
        bookings: ledger,
    };
    (observed.machine.status.as_ref() != Some(&status)).then_some(status)
}

/// The types in the order of the spec, then removed types that still have guests.
fn available(observed: &ObservedMachine, before: &MachineStatus) -> Vec<AvailableMachine> {
    let machine = observed.machine;
    let of_spec = machine.spec.machine_types.iter().map(|machine_type| machine_type.name.as_str());
    let listed: BTreeSet<&str> = before.available_machines.iter().map(|entry| entry.name.as_str()).collect();
    let of_guests = observed.guests.iter().map(|guest| guest.machine_type.as_str());
    let mut removed: BTreeSet<&str> = listed.iter().copied().chain(of_guests).collect();
    removed.retain(|name| machine.machine_type(name).is_none());
    let entry = |name: &str| AvailableMachine { name: name.to_owned(), usage: usage(observed, name) };
    let stays = |AvailableMachine { name, usage }: &AvailableMachine| {
        usage.used > 0 || (usage.waiting > 0 && listed.contains(name.as_str()))
    };
    let removed = removed.into_iter().map(entry).filter(stays);
    of_spec.map(entry).chain(removed).collect()
}

fn capacity_short(capacities: &[TypeCapacity]) -> WantedCondition {
    let short: Vec<_> = capacities
        .iter()
        .filter(|capacity| capacity.is_short())
        .map(|capacity| capacity.message.as_str())
        .collect();
    let (reason, message) = match short.as_slice() {
        [] => ("Enough", "the nodes have all slots".to_owned()),
        _ => ("NotEnoughNodes", short.join(". ")),
    };
    WantedCondition {
        type_: CAPACITY_SHORT,
        holds: Some(!short.is_empty()),
        reason: reason.to_owned(),
        message,
    }
}

/// The condition `Ready` of the pool, whose message names missing nodes.
fn pool_ready(observed: &ObservedMachine) -> Option<WantedCondition> {
    let ready =
        observed.pool?.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == READY)?;
    Some(WantedCondition {
        type_: NODE_POOL_READY,
        holds: Some(ready.status == "True"),
        reason: ready.reason.clone(),
        message: ready.message.clone(),
    })
}

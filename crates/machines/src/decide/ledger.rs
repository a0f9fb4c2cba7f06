//! The ledger: the bookings of slots by guests, and the queue for free slots.
//!
//! Two writes assign a slot to a guest: first the ledger, under the resourceVersion of the Machine that was read, then
//! the removal of the gate. A leader that was replaced fails at the first write. A leader that dies between the two
//! writes leaves a booking whose guest is still gated, and the next leader removes the gate.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::Patch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use muster_core::time::{TimeSpan, Timestamp};
use serde_json::json;

use crate::amounts::{core_time, jiff_time};
use crate::decide::inject::TypeLoad;
use crate::decide::patch::{escape, read_patch};
use crate::decide::slot_pod::SlotPod;
use crate::keys;
use crate::types::{Booking, Machine};

/// The longest wait of a booked guest for a reservation to be gone. After that the guest may preempt the reservation,
/// which may be stuck.
const SLOT_WAIT: TimeSpan = TimeSpan::from_secs(10);

/// Returns the new ledger, or `None` if the present ledger is up to date. `guests` are the counted guests of the group.
///
/// Bookings without a live pod end. Guests that occupy a slot without a booking are booked, even if there are more of
/// them than slots: guests of the published operator, and guests that were created while the injector was not
/// registered. Free slots are booked for the gated guests in the order of the queue.
pub fn next_ledger(machine: &Machine, guests: &[&SlotPod], now: Timestamp) -> Option<Vec<Booking>> {
    let alive: BTreeMap<&str, &SlotPod> = guests
        .iter()
        .filter(|guest| !guest.is_finished())
        .map(|guest| (guest.uid.as_str(), *guest))
        .collect();
    let before = machine.bookings();
    let mut after: Vec<Booking> =
        before.iter().filter(|booking| alive.contains_key(booking.uid.as_str())).cloned().collect();
    let mut entered: BTreeSet<String> = after.iter().map(|booking| booking.uid.clone()).collect();
    let queue = queue(alive.values().copied());
    for guest in queue.iter().filter(|guest| guest.is_released()) {
        if entered.insert(guest.uid.clone()) {
            after.push(book(guest, adopted_at(guest).unwrap_or(now)));
        }
    }
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for guest in entered.iter().filter_map(|uid| alive.get(uid.as_str())) {
        *held.entry(guest.machine_type.as_str()).or_default() += 1;
    }
    for guest in queue.iter().filter(|guest| is_eligible(guest)) {
        let held = held.entry(guest.machine_type.as_str()).or_default();
        let slots = usize::try_from(machine.maximum(&guest.machine_type)).unwrap_or(0);
        if *held < slots && entered.insert(guest.uid.clone()) {
            *held += 1;
            after.push(book(guest, now));
        }
    }
    (after != before).then_some(after)
}

/// Returns true if a slot can be booked for a guest. A guest with a gate of another controller could not use the slot,
/// and would keep it from other guests.
fn is_eligible(guest: &SlotPod) -> bool {
    guest.is_waiting() && guest.is_gated() && !guest.has_other_gates()
}

/// Guests in the order of the queue.
fn queue<'a>(guests: impl Iterator<Item = &'a SlotPod>) -> Vec<&'a SlotPod> {
    let mut queue: Vec<_> = guests.collect();
    queue.sort_by(|a, b| (a.created_at, a.queued_at, &a.uid).cmp(&(b.created_at, b.queued_at, &b.uid)));
    queue
}

fn book(guest: &SlotPod, at: Timestamp) -> Booking {
    Booking {
        uid: guest.uid.clone(),
        namespace: guest.namespace.clone(),
        name: guest.name.clone(),
        machine_type: guest.machine_type.clone(),
        booked_at: MicroTime(jiff_time(at)),
    }
}

/// The booking time of a guest without a booking, from the guest's annotation.
fn adopted_at(guest: &SlotPod) -> Option<Timestamp> {
    guest.booked_at.as_ref()?.parse::<jiff::Timestamp>().ok().map(core_time)
}

/// Counts the guests that hold or claim a slot of a type, and the guests that wait for one. A guest claims a slot by a
/// booking, or because no gate keeps the scheduler from placing it.
pub fn type_load(ledger: &[Booking], guests: &[&SlotPod], machine_type: &str) -> TypeLoad {
    let booked: BTreeSet<&str> = ledger.iter().map(|booking| booking.uid.as_str()).collect();
    let mut load = TypeLoad::default();
    for guest in guests.iter().filter(|guest| guest.machine_type == machine_type && !guest.is_finished()) {
        if guest.is_released() || booked.contains(guest.uid.as_str()) {
            load.holders += 1;
        } else if guest.is_waiting() {
            load.waiting += 1;
        }
    }
    load
}

/// The removal of a guest's gate, with the booking, as one patch.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRemoval {
    /// The UID of the guest.
    pub uid: String,
    /// The namespace of the guest.
    pub namespace: String,
    /// The name of the guest.
    pub name: String,
    /// The patch, which fails if the pod was replaced or its gates have changed.
    pub patch: Patch,
}

/// The booked guests whose gates can be removed now, in the order of their bookings.
///
/// A gate stays until the reservation that held its slot is gone. Before that the scheduler would make space for the
/// guest by a preemption, and of pods with the same priority it evicts the youngest first: a pod of another user, or a guest.
/// `held_back` are the types whose reservations are not reduced now.
pub fn admissible<'g>(
    machine: &Machine,
    ledger: &[Booking],
    guests: &[&'g SlotPod],
    reservations: &[&SlotPod],
    held_back: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<&'g SlotPod> {
    let free_slots = |machine_type: &str| {
        let of_type = |pod: &SlotPod| pod.machine_type == machine_type && !pod.is_finished();
        let held = reservations.iter().filter(|pod| of_type(pod) && pod.is_placed()).count();
        let used = guests.iter().filter(|guest| of_type(guest) && guest.is_released()).count();
        let slots = usize::try_from(machine.maximum(machine_type)).unwrap_or(0);
        slots.saturating_sub(held + used)
    };
    let by_uid: BTreeMap<&str, &'g SlotPod> =
        guests.iter().map(|guest| (guest.uid.as_str(), *guest)).collect();
    let mut free: BTreeMap<&str, usize> = BTreeMap::new();
    let mut admitted = Vec::new();
    for booking in ledger {
        let Some(guest) = by_uid.get(booking.uid.as_str()).copied() else { continue };
        if !guest.is_waiting() || !guest.is_gated() {
            continue;
        }
        let machine_type = guest.machine_type.as_str();
        let free = free.entry(machine_type).or_insert_with(|| free_slots(machine_type));
        let is_late = now.since(core_time(booking.booked_at.0)) >= SLOT_WAIT;
        if *free > 0 || is_late || held_back.contains(machine_type) {
            admitted.push(guest);
        }
        *free = free.saturating_sub(1);
    }
    admitted
}

/// The gate removals for a ledger. `ledger` must be the one that the API server acknowledged: a gate that is removed
/// before its booking is durable would let a deposed leader assign a slot twice.
pub fn gate_removals(ledger: &[Booking], guests: &[&SlotPod]) -> Vec<GateRemoval> {
    let booked: BTreeMap<&str, &Booking> =
        ledger.iter().map(|booking| (booking.uid.as_str(), booking)).collect();
    let removal = |guest: &&SlotPod| {
        let booking = booked.get(guest.uid.as_str())?;
        let place = guest.gates.iter().position(|gate| gate == keys::GATE)?;
        (guest.is_waiting()).then(|| GateRemoval {
            uid: guest.uid.clone(),
            namespace: guest.namespace.clone(),
            name: guest.name.clone(),
            patch: removal_patch(guest, place, booking),
        })
    };
    guests.iter().filter_map(removal).collect()
}

fn removal_patch(guest: &SlotPod, place: usize, booking: &Booking) -> Patch {
    let at = json!(booking.booked_at);
    let gate = format!("/spec/schedulingGates/{place}");
    let annotate = if guest.has_annotations {
        json!({"op": "add", "path": format!("/metadata/annotations/{}", escape(keys::BOOKED_AT)), "value": at})
    } else {
        json!({"op": "add", "path": "/metadata/annotations", "value": {keys::BOOKED_AT: at}})
    };
    read_patch(json!([
        {"op": "test", "path": "/metadata/uid", "value": guest.uid},
        {"op": "test", "path": format!("{gate}/name"), "value": keys::GATE},
        {"op": "remove", "path": gate},
        annotate,
    ]))
}

/// A guest that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingGuest {
    /// The UID of the guest.
    pub uid: String,
    /// The namespace of the guest.
    pub namespace: String,
    /// The name of the guest.
    pub name: String,
    /// The requested type.
    pub machine_type: String,
    /// The position in the queue, from 1; `None` if the type has no slots.
    pub position: Option<usize>,
    /// The time since which the guest waits.
    pub since: Timestamp,
}

impl WaitingGuest {
    /// The message of the guest's event.
    pub fn message(&self) -> String {
        match self.position {
            Some(position) => format!("waiting for slot {position} of {}", self.machine_type),
            None => {
                format!("waiting: {} has no slots; restore the type or delete the pod", self.machine_type)
            }
        }
    }
}

/// The guests that wait behind Muster's gate, in the order of the queue.
pub fn waiting(machine: &Machine, ledger: &[Booking], guests: &[&SlotPod]) -> Vec<WaitingGuest> {
    let booked: BTreeSet<&str> = ledger.iter().map(|booking| booking.uid.as_str()).collect();
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    let waits =
        |guest: &&SlotPod| guest.is_waiting() && guest.is_gated() && !booked.contains(guest.uid.as_str());
    let waiting = queue(guests.iter().copied().filter(waits));
    let with_position = |guest: &SlotPod, before: &mut usize| {
        *before += 1;
        WaitingGuest {
            uid: guest.uid.clone(),
            namespace: guest.namespace.clone(),
            name: guest.name.clone(),
            machine_type: guest.machine_type.clone(),
            position: (machine.maximum(&guest.machine_type) > 0).then_some(*before),
            since: guest.waits_since(),
        }
    };
    waiting
        .into_iter()
        .map(|guest| with_position(guest, before.entry(guest.machine_type.as_str()).or_default()))
        .collect()
}

/// The guests that were released at least `time_out` ago and have no node. They keep their slot, because a gate cannot
/// be restored, and get an event.
pub fn unplaced<'a>(
    ledger: &[Booking],
    guests: &[&'a SlotPod],
    time_out: TimeSpan,
    now: Timestamp,
) -> Vec<&'a SlotPod> {
    let booked: BTreeMap<&str, Timestamp> =
        ledger.iter().map(|booking| (booking.uid.as_str(), core_time(booking.booked_at.0))).collect();
    let overdue = |guest: &&&SlotPod| {
        guest.is_waiting()
            && !guest.is_gated()
            && booked.get(guest.uid.as_str()).is_some_and(|at| now.since(*at) >= time_out)
    };
    guests.iter().filter(overdue).copied().collect()
}

#[cfg(test)]
mod tests;

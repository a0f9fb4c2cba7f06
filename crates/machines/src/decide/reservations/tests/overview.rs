use muster_core::time::TimeSpan;

use super::fixture::{NOW, world};
use crate::decide::reservations::{GuestOverview, TypeOverview, overview};
use crate::types::{MachineStatus, Usage};

fn guests(shown: &TypeOverview) -> Vec<(String, bool, Option<usize>)> {
    let short = |guest: &GuestOverview| (guest.name.clone(), guest.has_slot, guest.position);
    shown.guests.iter().map(short).collect()
}

fn named((name, has_slot, position): (&str, bool, Option<usize>)) -> (String, bool, Option<usize>) {
    (name.to_owned(), has_slot, position)
}

#[test]
fn guests_with_a_slot_come_first_and_then_the_queue() {
    let mut world = world(2).with(&["r0@n1", "g0@n1", "g1 gated", "g2 gated", "g3 gated"]);
    let status = MachineStatus { bookings: world.ledger(), ..MachineStatus::default() };
    world.machine.status = Some(status);
    world.machine.spec.machine_types[0].spec.cpu.0 = "10000m".to_owned();
    // A user has changed the stamp.
    world.pods[3].queued_at = NOW.before(TimeSpan::from_secs(60));
    let shown = overview(&world.observed());
    assert_eq!((shown.name.as_str(), shown.machine.as_str(), shown.types.len()), ("g", "m", 1));
    let only = &shown.types[0];
    assert_eq!(only.usage, Usage { maximum: 2, reserved: 1, used: 1, waiting: 3 });
    let amounts = only.amounts.as_ref().expect("the Machine has the type");
    assert_eq!((amounts.cpu.0.as_str(), amounts.memory.0.as_str()), ("10", "10Gi"));
    let expected = [("g0", true, None), ("g1", true, None), ("g2", false, Some(1)), ("g3", false, Some(2))];
    assert_eq!(guests(only), expected.map(named));
    assert_eq!(only.guests[2].since, NOW);
}

#[test]
fn a_type_that_was_taken_away_is_shown_while_it_has_guests() {
    let mut world = world(1).with(&["g0@n1", "g1 gated"]);
    world.machine.status = Some(MachineStatus { bookings: world.ledger(), ..MachineStatus::default() });
    world.machine.spec.machine_types[0].name = "other".to_owned();
    let shown = overview(&world.observed());
    let names: Vec<&str> = shown.types.iter().map(|shown| shown.name.as_str()).collect();
    assert_eq!(names, ["other", "t"]);
    assert_eq!(guests(&shown.types[0]), []);
    assert_eq!(shown.types[1].amounts, None);
    assert_eq!(shown.types[1].usage, Usage { maximum: 0, reserved: 0, used: 1, waiting: 1 });
    // The removed type has no slots, so that `g1` has no position.
    assert_eq!(guests(&shown.types[1]), [("g0", true, None), ("g1", false, None)].map(named));
}

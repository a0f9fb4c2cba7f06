use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, from_value, to_value};

use super::*;
use crate::decide::slot_pod::{SlotPhase, SlotRole};

const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn machine(types: &[(&str, i32)], booked: &[&str]) -> Machine {
    let types: Vec<_> = types
        .iter()
        .map(|(name, available)| json!({"name": name, "available": available, "spec": {"cpu": 1, "memory": "1Gi"}}))
        .collect();
    let mut machine: Machine = from_value(json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "labels": {keys::MACHINE_GROUP: "g"}},
        "spec": {"nodePool": [], "machineTypes": types}, "status": {},
    }))
    .unwrap();
    let bookings = booked.iter().map(|uid| book(&gated(uid, 0), at(1)));
    machine.status.as_mut().unwrap().bookings = bookings.collect();
    machine
}

fn gated(uid: &str, queued: i64) -> SlotPod {
    SlotPod {
        role: SlotRole::Guest,
        group: "g".into(),
        machine_type: "t".into(),
        uid: uid.into(),
        namespace: "ns".into(),
        name: format!("pod-{uid}"),
        node: None,
        phase: SlotPhase::Pending,
        terminating: false,
        gates: vec![keys::GATE.into()],
        created_at: at(0),
        queued_at: at(queued),
        booked_at: None,
        has_annotations: true,
        requests: crate::amounts::Amounts::default(),
    }
}

fn released(uid: &str) -> SlotPod {
    SlotPod { gates: Vec::new(), ..gated(uid, 0) }
}

fn placed(uid: &str) -> SlotPod {
    SlotPod { node: Some("n".into()), ..released(uid) }
}

fn uids(ledger: &[Booking]) -> Vec<&str> {
    ledger.iter().map(|booking| booking.uid.as_str()).collect()
}

/// The UIDs in the ledger after one step; the ledger before, if nothing changes.
fn after(machine: &Machine, guests: &[SlotPod]) -> String {
    let guests: Vec<_> = guests.iter().collect();
    let next = next_ledger(machine, &guests, at(100));
    uids(next.as_deref().unwrap_or(machine.bookings())).join(" ")
}

#[rstest]
#[case::free_slots_go_in_order(2, &[], vec![gated("c", 3), gated("a", 1), gated("b", 2)], "a b")]
#[case::at_one_moment_the_uid_decides(1, &[], vec![gated("b", 1), gated("a", 1)], "a")]
#[case::no_stamp_goes_before_an_earlier_second(1, &[], vec![SlotPod { created_at: at(5), ..gated("b", 1) }, gated("a", 9)], "a")]
#[case::all_taken(1, &["x"], vec![placed("x"), gated("a", 1)], "x")]
#[case::a_booked_guest_that_is_still_gated_holds(1, &["x"], vec![gated("x", 9), gated("a", 1)], "x")]
#[case::a_terminating_one_holds(1, &["x"], vec![SlotPod { terminating: true, ..placed("x") }, gated("a", 1)], "x")]
#[case::a_finished_one_does_not(1, &["x"], vec![SlotPod { phase: SlotPhase::Finished, ..placed("x") }, gated("a", 1)], "a")]
#[case::one_that_is_gone_does_not(1, &["x"], vec![gated("a", 1)], "a")]
#[case::running_guests_of_the_published_operator_are_entered(2, &[], vec![placed("x"), gated("a", 1), gated("b", 2)], "x a")]
#[case::also_beyond_the_slots(1, &[], vec![placed("x"), placed("y"), gated("a", 1)], "x y")]
#[case::released_ones_are_entered(1, &[], vec![released("x"), gated("a", 1)], "x")]
#[case::one_that_goes_without_a_node_is_not(1, &[], vec![SlotPod { terminating: true, ..released("x") }], "")]
#[case::gates_of_others_hold_back(1, &[], vec![SlotPod { gates: vec!["kueue".into(), keys::GATE.into()], ..gated("a", 1) }, gated("b", 2)], "b")]
#[case::terminating_guests_wait_no_more(1, &[], vec![SlotPod { terminating: true, ..gated("a", 1) }, gated("b", 2)], "b")]
#[case::lowered_below_the_holders(0, &["x"], vec![placed("x"), gated("a", 1)], "x")]
#[case::nothing_to_do(1, &["x"], vec![placed("x")], "x")]
fn slots_are_booked(
    #[case] slots: i32,
    #[case] booked: &[&str],
    #[case] guests: Vec<SlotPod>,
    #[case] expected: &str,
) {
    assert_eq!(after(&machine(&[("t", slots)], booked), &guests), expected);
}

#[test]
fn a_ledger_that_is_right_is_not_written() {
    let (machine, guest) = (machine(&[("t", 1)], &["x"]), placed("x"));
    assert_eq!(next_ledger(&machine, &[&guest], at(100)), None);
}

#[test]
fn types_have_queues_of_their_own() {
    let machine = machine(&[("t", 1), ("u", 1)], &[]);
    let other = |uid: &str, queued| SlotPod { machine_type: "u".into(), ..gated(uid, queued) };
    assert_eq!(after(&machine, &[gated("a", 1), gated("b", 2), other("c", 3), other("d", 4)]), "a c");
}

#[test]
fn a_type_that_was_removed_gives_no_slots_and_gives_them_again_when_it_returns() {
    let guests = [gated("a", 1)];
    assert_eq!(after(&machine(&[("other", 1)], &[]), &guests), "");
    assert_eq!(after(&machine(&[("t", 1)], &[]), &guests), "a");
}

#[test]
fn an_adopted_guest_keeps_the_time_of_its_booking() {
    let guest = SlotPod { booked_at: Some("1970-01-01T00:00:07.000000Z".into()), ..placed("x") };
    let ledger = next_ledger(&machine(&[("t", 1)], &[]), &[&guest], at(100)).unwrap();
    assert_eq!(core_time(ledger[0].booked_at.0), at(7));
    let ledger = next_ledger(&machine(&[("t", 1)], &[]), &[&placed("y")], at(100)).unwrap();
    assert_eq!(core_time(ledger[0].booked_at.0), at(100));
}

fn reservation(uid: &str) -> SlotPod {
    SlotPod { role: SlotRole::Reservation, ..placed(uid) }
}

#[rstest]
#[case::all_slots_are_held(&["r", "s"], 2, &[], "")]
#[case::one_is_free(&["r"], 2, &[], "a")]
#[case::both_are_free(&[], 2, &[], "a b")]
#[case::reservations_are_stuck(&["r", "s"], 11, &[], "a b")]
#[case::reservations_of_the_published_operator_are_not_reduced(&["r", "s"], 2, &["t"], "a b")]
fn a_gate_stays_until_the_reservation_of_its_slot_is_gone(
    #[case] reservations: &[&str],
    #[case] now: i64,
    #[case] held_back: &[&str],
    #[case] expected: &str,
) {
    // Both were booked in second 1.
    let machine = machine(&[("t", 2)], &["a", "b"]);
    let guests = [gated("a", 1), gated("b", 2), gated("c", 3)];
    // A reservation that is being deleted holds its slot until it is gone.
    let reservations: Vec<_> =
        reservations.iter().map(|uid| SlotPod { terminating: *uid == "s", ..reservation(uid) }).collect();
    let (guests, reservations): (Vec<_>, Vec<_>) = (guests.iter().collect(), reservations.iter().collect());
    let held_back = held_back.iter().map(ToString::to_string).collect();
    let admitted = admissible(&machine, machine.bookings(), &guests, &reservations, &held_back, at(now));
    assert_eq!(admitted.iter().map(|guest| guest.uid.as_str()).collect::<Vec<_>>().join(" "), expected);
}

/// The pod in JSON after the removals, and the removals.
fn patched(guest: &SlotPod, annotations: &Value) -> (Value, Vec<GateRemoval>) {
    let machine = machine(&[("t", 1)], &["x"]);
    let removals = gate_removals(machine.bookings(), &[guest]);
    let gates: Vec<_> = guest.gates.iter().map(|name| json!({"name": name})).collect();
    let mut pod =
        json!({"metadata": {"uid": "x", "annotations": annotations}, "spec": {"schedulingGates": gates}});
    if annotations.is_null() {
        pod["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    for removal in &removals {
        json_patch::patch(&mut pod, &removal.patch).unwrap();
    }
    (pod, removals)
}

#[test]
fn a_booking_whose_gate_is_still_there_is_completed() {
    let (pod, removals) = patched(
        &SlotPod { gates: vec!["other".into(), keys::GATE.into()], ..gated("x", 1) },
        &json!({"a": "b"}),
    );
    assert_eq!(removals.len(), 1);
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": "other"}]));
    let booked_at = "1970-01-01T00:00:01.000000Z";
    assert_eq!(pod["metadata"]["annotations"], json!({"a": "b", keys::BOOKED_AT: booked_at}));
    let (pod, _) = patched(&SlotPod { has_annotations: false, ..gated("x", 1) }, &Value::Null);
    assert_eq!(pod["metadata"]["annotations"], json!({keys::BOOKED_AT: booked_at}));
}

#[rstest]
#[case::released(released("x"))]
#[case::not_booked(gated("y", 1))]
#[case::terminating(SlotPod { terminating: true, ..gated("x", 1) })]
fn other_gates_stay(#[case] guest: SlotPod) {
    assert_eq!(patched(&guest, &Value::Null).1, []);
}

#[test]
fn the_removal_of_a_gate_tests_the_pod_and_the_gate() {
    let (_, removals) = patched(&gated("x", 1), &json!({}));
    let operations = to_value(&removals[0].patch).unwrap();
    assert_eq!(operations[0], json!({"op": "test", "path": "/metadata/uid", "value": "x"}));
    assert_eq!(
        operations[1],
        json!({"op": "test", "path": "/spec/schedulingGates/0/name", "value": keys::GATE})
    );
}

#[test]
fn the_waiting_have_positions_by_type() {
    let machine = machine(&[("t", 1)], &["x"]);
    let gone = SlotPod { machine_type: "gone".into(), ..gated("d", 0) };
    let guests = [gated("x", 0), gated("b", 2), gated("a", 1), placed("p"), released("r"), gone];
    let guests: Vec<_> = guests.iter().collect();
    let waiting = waiting(&machine, machine.bookings(), &guests);
    let messages: Vec<_> = waiting.iter().map(|guest| (guest.uid.as_str(), guest.message())).collect();
    assert_eq!(
        messages,
        [
            ("d", "waiting: gone has no slots; restore the type or delete the pod".to_owned()),
            ("a", "waiting for slot 1 of t".to_owned()),
            ("b", "waiting for slot 2 of t".to_owned()),
        ]
    );
}

#[rstest]
#[case::booked(vec![gated("x", 1)], 1, 0)]
#[case::placed_without_a_booking(vec![placed("y")], 1, 0)]
#[case::released_without_a_booking(vec![released("y")], 1, 0)]
#[case::terminating(vec![SlotPod { terminating: true, ..placed("y") }], 1, 0)]
#[case::waiting(vec![gated("x", 1), gated("y", 1), gated("z", 1)], 1, 2)]
#[case::finished(vec![SlotPod { phase: SlotPhase::Finished, ..placed("x") }], 0, 0)]
#[case::of_another_type(vec![SlotPod { machine_type: "u".into(), ..placed("y") }], 0, 0)]
fn guests_hold_claim_or_wait(#[case] guests: Vec<SlotPod>, #[case] holders: usize, #[case] waiting: usize) {
    let machine = machine(&[("t", 1)], &["x"]);
    let load = type_load(machine.bookings(), &guests.iter().collect::<Vec<_>>(), "t");
    assert_eq!(load, TypeLoad { holders, waiting });
}

#[rstest]
#[case::too_long(released("x"), 61, true)]
#[case::not_yet(released("x"), 60, false)]
#[case::placed(placed("x"), 100, false)]
#[case::gated(gated("x", 0), 100, false)]
#[case::clock_set_back(released("x"), 0, false)]
fn a_released_guest_without_a_node_is_reported(
    #[case] guest: SlotPod,
    #[case] now: i64,
    #[case] reported: bool,
) {
    let machine = machine(&[("t", 1)], &["x"]);
    let unplaced = unplaced(machine.bookings(), &[&guest], TimeSpan::from_secs(60), at(now));
    assert_eq!(unplaced.len() == 1, reported);
}

proptest! {
    /// However often the leader dies: there are never more holders than slots, and guests are booked in order.
    #[test]
    fn never_more_than_the_slots_hold_one(slots in 0_i32..6, guests in 0_usize..20, events in prop::collection::vec((any::<bool>(), 0_usize..20), 0..60)) {
        let mut machine = machine(&[("t", slots)], &[]);
        let mut pods: Vec<SlotPod> = (0..guests).map(|n| gated(&format!("{n:02}"), i64::try_from(n).unwrap())).collect();
        let mut entered = Vec::new();
        for (dies, which) in events {
            let views: Vec<_> = pods.iter().collect();
            if let Some(ledger) = next_ledger(&machine, &views, at(100)) {
                entered.extend(ledger.iter().map(|booking| booking.uid.clone()).filter(|uid| !uids(machine.bookings()).contains(&uid.as_str())));
                machine.status.as_mut().unwrap().bookings = ledger;
            }
            // A leader that dies here leaves the gates to the next one.
            if !dies {
                let removals = gate_removals(machine.bookings(), &pods.iter().collect::<Vec<_>>());
                for pod in pods.iter_mut().filter(|pod| removals.iter().any(|removal| removal.uid == pod.uid)) {
                    pod.gates.clear();
                    pod.node = Some("n".into());
                }
            }
            let holders = pods.iter().filter(|pod| pod.is_released()).count();
            prop_assert!(holders <= usize::try_from(slots).unwrap());
            // Some guest ends.
            if pods.get(which).is_some_and(SlotPod::is_placed) {
                pods[which].phase = SlotPhase::Finished;
            }
        }
        let sorted = entered.iter().is_sorted();
        prop_assert!(sorted, "{entered:?}");
    }
}

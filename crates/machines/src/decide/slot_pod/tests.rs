use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;

fn pod(extra: &Value) -> SlotPod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {keys::MACHINE_GROUP: "g", keys::MACHINE_TYPE: "t", keys::POD_ROLE: "guest"}},
        "spec": {"containers": []},
        "status": {"phase": "Pending"},
    });
    json_patch::merge(&mut pod, extra);
    SlotPod::read(&from_value(pod).unwrap()).unwrap()
}

/// Decision 12, pod by pod: used, waiting.
#[rstest]
#[case::pending(json!({}), false, true)]
#[case::gated(json!({"spec": {"schedulingGates": [{"name": keys::GATE}]}}), false, true)]
#[case::bound(json!({"spec": {"nodeName": "n"}}), true, false)]
#[case::running(json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}), true, false)]
#[case::not_ready(json!({"status": {"phase": "Running", "conditions": [{"type": "ContainersReady", "status": "False"}]}}), true, false)]
#[case::unknown_phase(json!({"status": {"phase": "Unknown"}, "spec": {"nodeName": "n"}}), true, false)]
#[case::terminating(json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}, "spec": {"nodeName": "n"}}), true, false)]
#[case::terminating_unplaced(json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}}), false, false)]
#[case::succeeded(json!({"status": {"phase": "Succeeded"}, "spec": {"nodeName": "n"}}), false, false)]
#[case::failed(json!({"status": {"phase": "Failed"}, "spec": {"nodeName": "n"}}), false, false)]
fn guests_are_used_or_waiting(#[case] extra: Value, #[case] used: bool, #[case] waiting: bool) {
    let pod = pod(&extra);
    assert_eq!((pod.is_placed(), pod.is_waiting()), (used, waiting));
}

#[rstest]
#[case::stamp(Some("1700000000000007"), 1_700_000_000_000_007)]
#[case::none(None, 1_700_000_000_000_000)]
#[case::unreadable(Some("x"), 1_700_000_000_000_000)]
#[case::of_a_slow_clock(Some("1699999999000000"), 1_699_999_999_000_000)]
#[case::written_by_a_user(Some("5"), 1_699_999_940_000_000)]
fn the_place_in_the_queue_is_the_stamp(#[case] stamp: Option<&str>, #[case] micros: i64) {
    let pod = pod(&json!({"metadata": {"annotations": {keys::QUEUED_AT: stamp}}}));
    assert_eq!(pod.queued_at, Timestamp::from_micros(micros));
}

#[rstest]
#[case::stamp(Some("1700000000000007"), 1_700_000_000_000_007)]
#[case::none(None, 1_700_000_000_000_000)]
#[case::of_the_past(Some("5"), 1_700_000_000_000_000)]
#[case::of_the_future(Some("1800000000000000"), 1_700_000_001_000_000)]
fn a_guest_waits_since_the_second_of_its_creation(#[case] stamp: Option<&str>, #[case] micros: i64) {
    let pod = pod(&json!({"metadata": {"annotations": {keys::QUEUED_AT: stamp}}}));
    assert_eq!(pod.waits_since(), Timestamp::from_micros(micros));
}

#[rstest]
#[case::in_a_namespace_with_the_label("ns", json!({}), true)]
#[case::elsewhere("other", json!({}), false)]
#[case::elsewhere_with_an_annotation_of_a_user("other", json!({"annotations": {keys::BOOKED_AT: "x"}}), false)]
#[case::elsewhere_in_the_ledger("other", json!({"uid": "booked"}), true)]
#[case::of_another_group("ns", json!({"labels": {keys::MACHINE_GROUP: "h"}}), false)]
#[case::reservation("ns", json!({"labels": {keys::POD_ROLE: "reservation"}}), false)]
fn guests_count_where_they_are_served(
    #[case] namespace: &str,
    #[case] metadata: Value,
    #[case] counts: bool,
) {
    let mut pod = pod(&json!({"metadata": metadata}));
    pod.namespace = namespace.to_owned();
    let namespaces = BTreeMap::from([("ns".to_owned(), true), ("other".to_owned(), false)]);
    assert_eq!(counted_guests([&pod], "g", &namespaces, |uid| uid == "booked").len() == 1, counts);
}

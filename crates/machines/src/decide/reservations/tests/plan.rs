use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::{json, to_value};

use super::fixture::{NOW, SETTINGS, World, node, pod, tainted, world};
use crate::amounts::Amounts;
use crate::decide::pod_requests::PodDemand;
use crate::decide::reservations::{
    PodDeletion, ReservationWrite, machine_status, other_requests, plan_reservations, usage, wanted_service,
    wanted_set,
};
use crate::types::{MachineStatus, Mode};

fn status(world: &World, problems: &[&str]) -> Option<MachineStatus> {
    let problems: Vec<_> = problems.iter().map(|problem| (*problem).to_owned()).collect();
    machine_status(&world.observed(), world.ledger(), &world.capacities(), &problems, NOW)
}

fn condition(status: &MachineStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_pass_that_changes_nothing_writes_nothing() {
    let mut world = world(2);
    assert_eq!(world.carry_out(), 2);
    assert_eq!(world.carry_out(), 0);
    world.machine.status = status(&world, &[]);
    assert_eq!(status(&world, &[]), None);
}

#[test]
fn a_reservation_that_does_not_fit_makes_nothing_oscillate() {
    let mut world = world(2).with(&["r0@n1", "r1"]);
    world.carry_out();
    for _ in 0..3 {
        assert_eq!(world.carry_out(), 0);
        world.pods.retain(|pod| pod.uid != "r1");
        assert_eq!(world.carry_out(), 0);
        world.pods.push(pod("r1"));
    }
}

#[test]
fn the_set_and_the_service_are_those_of_the_seed() {
    let world = world(2);
    let machine_type = &world.machine.spec.machine_types[0];
    let set = to_value(wanted_set(&world.machine, "g", machine_type, SETTINGS, 2)).unwrap();
    assert_eq!(set["metadata"]["name"], "t-g");
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "machine-uid");
    let labels = json!({"imperator.tenzen-y.io/machine-group": "g", "imperator.tenzen-y.io/machine-type": "t",
        "imperator.tenzen-y.io/pod-role": "reservation"});
    let (spec, template) = (&set["spec"], &set["spec"]["template"]);
    assert_eq!(
        [&set["metadata"]["labels"], &spec["selector"]["matchLabels"], &template["metadata"]["labels"]],
        [&labels; 3]
    );
    assert_eq!((&spec["serviceName"], &spec["podManagementPolicy"]), (&json!("t-g"), &json!("Parallel")));
    let pod = &template["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 1);
    assert_eq!(pod.get("priorityClassName"), None);
    assert_eq!(pod["containers"][0]["name"], "sleeper");
    assert_eq!(pod["containers"][0]["resources"]["limits"], json!({"cpu": "10", "memory": "10Gi"}));
    assert_eq!(pod["tolerations"].as_array().unwrap().len(), 2);
    let service = to_value(wanted_service(&world.machine, "g", "t", "imperator-system")).unwrap();
    assert_eq!(service["spec"]["selector"], labels);
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
}

#[test]
fn what_cannot_be_changed_is_replaced() {
    let mut world = world(2);
    world.carry_out();
    world.sets[0].spec.as_mut().unwrap().pod_management_policy = Some("OrderedReady".into());
    assert!(matches!(world.writes().as_slice(), [ReservationWrite::DeleteSet { .. }]));
    world.sets[0].metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(world.writes(), []);
}

#[test]
fn sets_that_are_being_taken_over_are_not_written_yet() {
    let world = world(2);
    let writes = plan_reservations(&world.observed(), &[], SETTINGS, &BTreeSet::from(["t"]));
    assert!(matches!(writes.as_slice(), [ReservationWrite::ApplyService(_)]));
}

#[test]
fn a_removed_type_keeps_its_entry_until_its_guests_leave() {
    let mut world = world(2).with(&["g1@n1", "g2 gated"]);
    world.carry_out();
    world.machine.status = status(&world, &[]);
    world.machine.spec.machine_types.clear();
    let deleted: Vec<_> = world.writes();
    assert!(
        matches!(
            deleted.as_slice(),
            [ReservationWrite::DeleteSet { .. }, ReservationWrite::DeleteService { .. }]
        ),
        "{deleted:?}"
    );
    for (pods, left) in [(&["g1@n1", "g2 gated"][..], 1), (&["g2 gated"], 1), (&[], 0)] {
        world.pods = pods.iter().map(|words| pod(words)).collect();
        let status = status(&world, &[]).unwrap();
        assert_eq!(status.available_machines.len(), left, "{pods:?}");
        assert!(status.available_machines.iter().all(|entry| entry.usage.maximum == 0));
    }
}

#[test]
fn a_machine_that_goes_has_no_reservations() {
    let mut world = world(2).with(&["g1@n1"]);
    world.carry_out();
    world.machine.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    world.carry_out();
    assert_eq!((world.sets.len(), world.services.len()), (0, 0));
    assert_eq!(usage(&world.observed(), "t").maximum, 0);
}

#[test]
fn objects_of_others_are_left_alone() {
    let mut world = world(2);
    world.carry_out();
    world.sets[0].metadata.owner_references = None;
    world.machine.spec.machine_types.clear();
    let writes = world.writes();
    assert!(matches!(writes.as_slice(), [ReservationWrite::DeleteService { .. }]), "{writes:?}");
}

#[rstest]
#[case::ready("r0@n1", node("n1", &json!({})), None)]
#[case::not_ready("r0@n1", tainted("n1", "node.kubernetes.io/not-ready"), Some(false))]
#[case::unreachable("r0@n1", tainted("n1", "node.kubernetes.io/unreachable"), Some(true))]
#[case::gone("r0@n1", node("other", &json!({})), Some(true))]
#[case::terminating_on_a_node_that_is_not_ready(
    "r0@n1 terminating",
    tainted("n1", "node.kubernetes.io/not-ready"),
    None
)]
#[case::terminating_on_a_lost_node(
    "r0@n1 terminating",
    tainted("n1", "node.kubernetes.io/unreachable"),
    Some(true)
)]
#[case::not_placed("r0", node("other", &json!({})), None)]
#[case::taint_of_others("r0@n1", tainted("n1", "x"), None)]
fn reservations_leave_nodes_that_cannot_be_used(
    #[case] words: &str,
    #[case] node: k8s_openapi::api::core::v1::Node,
    #[case] forced: Option<bool>,
) {
    let mut world = world(1).with(&[words]);
    world.nodes = vec![node];
    let deletions: Vec<_> = world
        .writes()
        .into_iter()
        .filter_map(|write| match write {
            ReservationWrite::DeletePod(deletion) => Some(deletion),
            _ => None,
        })
        .collect();
    let expected = forced.map(|forced| PodDeletion { name: "r0".into(), uid: "r0".into(), forced });
    assert_eq!(deletions, Vec::from_iter(expected));
}

#[test]
fn reservations_leave_nodes_in_maintenance_and_are_not_counted_there() {
    let mut world = world(2).with(&["r0@n1", "r1@n2"]);
    world.machine.spec.node_pool[0].mode = Mode::Maintenance;
    assert_eq!(usage(&world.observed(), "t").reserved, 1);
    let deletion = PodDeletion { name: "r0".into(), uid: "r0".into(), forced: false };
    assert!(world.writes().contains(&ReservationWrite::DeletePod(deletion)));
}

/// Decision 12, reservation by reservation.
#[rstest]
#[case::running_without_a_node("r0 running", 1)]
#[case::pending_without_a_node("r0", 0)]
#[case::pending_with_a_node("r0@n1 creating", 1)]
#[case::running_with_a_node("r0@n1", 1)]
#[case::on_a_node_of_no_entry("r0@n9", 0)]
#[case::on_a_node_that_is_not_ready("r0@n2", 0)]
#[case::terminating("r0@n1 terminating", 0)]
#[case::finished("r0@n1 finished", 0)]
fn reservations_count_by_the_test_of_guests(#[case] words: &str, #[case] reserved: i32) {
    let mut world = world(2).with(&[words]);
    world.nodes[1] = tainted("n2", "node.kubernetes.io/not-ready");
    assert_eq!(usage(&world.observed(), "t").reserved, reserved);
}

#[test]
fn a_reservation_on_a_node_of_another_type_goes() {
    let mut world = world(2).with(&["r0@n1"]);
    world.machine.spec.node_pool[0].machine_type[0].name = "u".into();
    let deletion = PodDeletion { name: "r0".into(), uid: "r0".into(), forced: false };
    assert!(world.writes().contains(&ReservationWrite::DeletePod(deletion)));
}

fn amounts(cpu: &str) -> Amounts {
    let requests = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]});
    crate::decide::pod_requests::pod_requests(&serde_json::from_value(requests).unwrap())
}

/// Two nodes of 20 cpu and 100Gi; a slot has 10 cpu and 10Gi.
#[rstest]
#[case::all_fit(4, None, None, "False", "Enough", "the nodes have all slots")]
#[case::too_many(
    5,
    None,
    None,
    "True",
    "NotEnoughNodes",
    "t: 4 of 5 slots fit: n1 2 (cpu: (20 − 0) / 10); n2 2 (cpu: (20 − 0) / 10)"
)]
#[case::others_take_some(
    4,
    Some("500m"),
    None,
    "True",
    "NotEnoughNodes",
    "t: 3 of 4 slots fit: n1 1 (cpu: (20 − 500m) / 10); n2 2 (cpu: (20 − 0) / 10)"
)]
#[case::a_taint(
    4,
    None,
    Some("x"),
    "True",
    "NotEnoughNodes",
    "t: 2 of 4 slots fit: n1 2 (cpu: (20 − 0) / 10); n2 0 (a taint keeps reservations off)"
)]
#[case::not_ready(
    4,
    None,
    Some("node.kubernetes.io/unschedulable"),
    "True",
    "NotEnoughNodes",
    "t: 2 of 4 slots fit: n1 2 (cpu: (20 − 0) / 10)"
)]
fn capacity_is_counted_by_node(
    #[case] available: i32,
    #[case] others: Option<&str>,
    #[case] taint: Option<&str>,
    #[case] short: &str,
    #[case] reason: &str,
    #[case] message: &str,
) {
    let mut world = world(available).with(&["r0@n1", "g1@n2"]);
    world.others.extend(others.map(|cpu| ("n1".to_owned(), amounts(cpu))));
    if let Some(taint) = taint {
        world.nodes[1] = tainted("n2", taint);
    }
    let status = status(&world, &[]).unwrap();
    let expected = (short.to_owned(), reason.to_owned(), message.to_owned());
    assert_eq!(condition(&status, "CapacityShort"), expected);
    assert_eq!(condition(&status, "Ready").0, "True");
}

#[test]
fn nodes_of_another_group_or_without_the_accelerator_have_no_slots() {
    let mut world = world(4);
    world.nodes[0].metadata.annotations =
        serde_json::from_value(json!({crate::keys::MACHINE_GROUP: "other"})).unwrap();
    assert_eq!(world.capacities()[0].slots, 2, "n1 is another group's");
    let gpu = json!({"type": "nvidia.com/gpu", "num": 0, "family": "ampere"});
    world.machine.spec.machine_types[0].spec.gpu = serde_json::from_value(gpu).unwrap();
    assert_eq!(world.capacities()[0].slots, 0, "n2 has no such accelerator");
    world.nodes[1].metadata.labels =
        serde_json::from_value(json!({"nvidia.com/gpu.family": "ampere"})).unwrap();
    assert_eq!(world.capacities()[0].slots, 2);
}

#[test]
fn what_a_guest_needs_beyond_its_slot_is_taken_from_others() {
    let mut world = world(4).with(&["g1@n1"]);
    world.pods[0].requests = amounts("11");
    let capacity = &world.capacities()[0];
    assert_eq!(capacity.slots, 3, "{}", capacity.message);
}

#[test]
fn pods_that_ended_or_are_slots_need_nothing_of_their_node() {
    let pod = |uid: &str, phase: &str| -> k8s_openapi::api::core::v1::Pod {
        serde_json::from_value(json!({
            "metadata": {"uid": uid}, "status": {"phase": phase},
            "spec": {"nodeName": "n", "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        }))
        .unwrap()
    };
    let pods = [pod("a", "Running"), pod("b", "Succeeded"), pod("slot", "Running"), pod("c", "Pending")];
    let demands: Vec<PodDemand> = pods.iter().map(PodDemand::read).collect();
    let others = other_requests(&demands, &BTreeSet::from(["slot"]));
    assert_eq!(others["n"].get("cpu"), 2000);
}

#[test]
fn a_failed_write_and_the_pool_stand_in_the_conditions() {
    let mut world = world(1);
    let mut pool = crate::types::MachineNodePool::new(
        "m-node-pool",
        crate::types::MachineNodePoolSpec {
            machine_group: Some("g".into()),
            machine_group_name: None,
            node_pool: Vec::new(),
            machine_type_stock: Vec::new(),
        },
    );
    pool.status = Some(serde_json::from_value(json!({"conditions": [{"type": "Ready", "status": "False",
        "reason": "Failure", "message": "failed to find node n9 in Kubernetes Cluster", "lastTransitionTime": "2023-11-14T22:13:20Z"}]})).unwrap());
    world.pool = Some(pool);
    let status = status(&world, &["cannot apply"]).unwrap();
    assert_eq!(condition(&status, "Ready"), ("False".into(), "Failure".into(), "cannot apply".into()));
    assert_eq!(condition(&status, "NodePoolReady").2, "failed to find node n9 in Kubernetes Cluster");
    assert_eq!(status.conditions[0].observed_generation, Some(3));
}

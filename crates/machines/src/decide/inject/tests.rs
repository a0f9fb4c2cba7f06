use rstest::rstest;
use serde_json::{from_value, json};

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn machine(overflow: &str, available: i32) -> Machine {
    from_value(json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "labels": {keys::MACHINE_GROUP: "general-machine"}},
        "spec": {"overflow": overflow, "nodePool": [], "machineTypes": [
            {"name": "compute-xlarge", "available": available, "spec": {"cpu": "40000m", "memory": "128Gi",
                "gpu": {"type": "nvidia.com/gpu", "num": 2, "family": "ampere"}}},
        ]},
    }))
    .unwrap()
}

fn guest(spec: &Value) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {
            keys::MACHINE_GROUP: "general-machine", keys::MACHINE_TYPE: "compute-xlarge", keys::POD_ROLE: "guest",
        }},
        "spec": spec,
    })
}

fn plain() -> Value {
    json!({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]})
}

fn labelled(key: &str, value: &str) -> Value {
    let mut pod = guest(&plain());
    pod["metadata"]["labels"][key] = value.into();
    pod
}

fn injected(pod: &Value, machine: &Machine) -> Result<(Value, Vec<String>), InjectRefusal> {
    let request = guest_request(pod).unwrap();
    let Injected { patch, warnings } = inject(
        pod,
        "ns",
        &request,
        Some(machine),
        TypeLoad { holders: 1, waiting: 1 },
        &GuestPriority::default(),
        NOW,
    )?;
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    Ok((after, warnings))
}

fn mutated(pod: &Value) -> Value {
    injected(pod, &machine("wait", 1)).unwrap().0
}

#[test]
fn a_guest_is_changed_as_the_seed_shows() {
    let pod = mutated(&labelled(keys::INJECTING_CONTAINER, "b"));
    let amounts = json!({"cpu": "40000m", "memory": "128Gi", "nvidia.com/gpu": "2"});
    assert_eq!(pod["spec"]["containers"][1]["resources"], json!({"requests": amounts, "limits": amounts}));
    assert_eq!(pod["spec"]["containers"][0], json!({"name": "a", "image": "i"}));
    assert_eq!(
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
        json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "imperator.tenzen-y.io/compute-xlarge", "operator": "In", "values": ["general-machine"]},
            {"key": "imperator.tenzen-y.io/node-pool", "operator": "In", "values": ["ready"]},
            {"key": "nvidia.com/gpu.family", "operator": "In", "values": ["ampere"]},
        ]}]})
    );
    assert_eq!(
        pod["spec"]["tolerations"],
        json!([
            {"key": "imperator.tenzen-y.io/compute-xlarge", "operator": "Equal", "value": "general-machine", "effect": "NoSchedule"},
            {"key": "imperator.tenzen-y.io/node-pool", "operator": "Equal", "value": "ready", "effect": "NoSchedule"},
        ])
    );
    assert_eq!(pod["spec"]["schedulingGates"], json!([{"name": keys::GATE}]));
    assert_eq!(pod["metadata"]["annotations"], json!({keys::QUEUED_AT: "1700000000000000"}));
}

#[rstest]
#[case::none(&[], Ok(0))]
#[case::named(&[(keys::INJECTING_CONTAINER, "b")], Ok(1))]
#[case::alias(&[(keys::INJECT_RESOURCE, "b")], Ok(1))]
#[case::the_alias_yields(&[(keys::INJECT_RESOURCE, "b"), (keys::INJECTING_CONTAINER, "a")], Ok(0))]
#[case::empty(&[(keys::INJECTING_CONTAINER, "")], Ok(0))]
#[case::unknown(&[(keys::INJECTING_CONTAINER, "c")], Err(
    "label 'imperator.tenzen-y.io/injecting-container' names container 'c', which is not in spec.containers; the pod has a, b"
))]
fn the_container_is_named_by_a_label(#[case] labels: &[(&str, &str)], #[case] expected: Result<usize, &str>) {
    let mut pod = guest(&plain());
    for (key, value) in labels {
        pod["metadata"]["labels"][key] = (*value).into();
    }
    let target = injected(&pod, &machine("wait", 1)).map(|(pod, _)| {
        let containers = pod["spec"]["containers"].as_array().unwrap().clone();
        containers.iter().position(|container| container.get("resources").is_some()).unwrap()
    });
    assert_eq!(target.map_err(|refusal| refusal.to_string()), expected.map_err(str::to_owned));
}

#[rstest]
#[case::no_group(None, "failed to find machine-group general-machine")]
#[case::none_at_all(Some(machine("wait", 0)), "name: p, namespace: ns; there is no compute-xlarge left")]
#[case::full(Some(machine("deny", 2)), "name: p, namespace: ns; there is no compute-xlarge left")]
fn refusals_have_the_published_messages(#[case] machine: Option<Machine>, #[case] message: &str) {
    let pod = guest(&plain());
    let load = TypeLoad { holders: 1, waiting: 1 };
    let refused = inject(
        &pod,
        "ns",
        &guest_request(&pod).unwrap(),
        machine.as_ref(),
        load,
        &GuestPriority::default(),
        NOW,
    );
    assert_eq!(refused.unwrap_err().to_string(), message);
}

#[test]
fn an_unknown_type_is_refused() {
    let pod = labelled(keys::MACHINE_TYPE, "huge");
    let refused = injected(&pod, &machine("wait", 1)).unwrap_err().to_string();
    assert_eq!(refused, "machine-group, general-machine does not have machine-type, huge");
}

#[rstest]
#[case::slots_left("deny", 3, true)]
#[case::full("deny", 2, false)]
#[case::they_wait("wait", 2, true)]
#[case::no_slot_at_all("wait", 0, false)]
fn overflow_is_refused_if_the_machine_says_so(
    #[case] overflow: &str,
    #[case] available: i32,
    #[case] admitted: bool,
) {
    assert_eq!(injected(&guest(&plain()), &machine(overflow, available)).is_ok(), admitted);
}

#[test]
fn a_machine_that_goes_takes_no_guests() {
    let mut machine = machine("wait", 3);
    machine.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(matches!(injected(&guest(&plain()), &machine), Err(InjectRefusal::NoneLeft { .. })));
}

#[test]
fn a_guest_that_chooses_its_node_is_refused() {
    let mut spec = plain();
    spec["nodeName"] = "n1".into();
    let refused = injected(&guest(&spec), &machine("wait", 1)).unwrap_err();
    assert_eq!(refused, InjectRefusal::NodeName("n1".into()));
}

#[test]
fn other_resources_stay_and_ours_are_replaced() {
    let mut spec = plain();
    spec["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1", "example.com/x": "1"}, "limits": null, "claims": [{"name": "c"}]});
    let after = mutated(&guest(&spec))["spec"]["containers"][0]["resources"].clone();
    assert_eq!(after["requests"]["cpu"], "40000m");
    assert_eq!(after["requests"]["example.com/x"], "1");
    assert_eq!(after["limits"]["memory"], "128Gi");
    assert_eq!(after["claims"], json!([{"name": "c"}]));
}

#[rstest]
#[case::none(json!({}), ("muster-guest", 1, "PreemptLowerPriority"))]
#[case::defaults_of_the_server(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}), ("muster-guest", 1, "PreemptLowerPriority"))]
#[case::its_own(json!({"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}), ("high", 7, "Never"))]
fn class_priority_and_policy_are_set_together(#[case] brought: Value, #[case] expected: (&str, i32, &str)) {
    let mut spec = plain();
    spec.as_object_mut().unwrap().extend(brought.as_object().unwrap().clone());
    let spec = mutated(&guest(&spec))["spec"].clone();
    let (class, priority, policy) = expected;
    assert_eq!(
        [&spec["priorityClassName"], &spec["priority"], &spec["preemptionPolicy"]],
        [&json!(class), &json!(priority), &json!(policy)]
    );
}

#[test]
fn a_guest_has_the_priority_of_the_class_as_it_exists() {
    let pod = guest(&plain());
    let class = GuestPriority { value: 1000, preemption_policy: "Never".into() };
    let (request, machine) = (guest_request(&pod).unwrap(), machine("wait", 1));
    let injected = inject(&pod, "ns", &request, Some(&machine), TypeLoad::default(), &class, NOW).unwrap();
    let mut after = pod.clone();
    json_patch::patch(&mut after, &injected.patch).unwrap();
    assert_eq!(
        [&after["spec"]["priorityClassName"], &after["spec"]["priority"], &after["spec"]["preemptionPolicy"]],
        [&json!("muster-guest"), &json!(1000), &json!("Never")]
    );
}

#[rstest]
#[case::none(None, NOW)]
#[case::of_this_request(Some(NOW.before(TimeSpan::from_secs(5))), NOW.before(TimeSpan::from_secs(5)))]
#[case::old(Some(NOW.before(TimeSpan::from_secs(11))), NOW)]
#[case::of_the_future(Some(NOW.after(TimeSpan::from_secs(1))), NOW)]
fn a_stamp_cannot_be_brought_along(#[case] brought: Option<Timestamp>, #[case] expected: Timestamp) {
    let mut pod = guest(&plain());
    pod["metadata"]["annotations"] = json!({keys::BOOKED_AT: "x", "other": "y"});
    if let Some(brought) = brought {
        pod["metadata"]["annotations"][keys::QUEUED_AT] = brought.micros().to_string().into();
    }
    let annotations = mutated(&pod)["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({"other": "y", keys::QUEUED_AT: expected.micros().to_string()}));
}

#[test]
fn sidecars_that_need_more_give_a_warning() {
    let mut spec = plain();
    spec["containers"][1]["resources"] = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
    let (_, warnings) = injected(&guest(&spec), &machine("wait", 1)).unwrap();
    assert_eq!(
        warnings,
        [
            "the pod requests cpu 500m, memory 1Gi more than a slot of compute-xlarge has, so it may stay pending \
             although its slot is free: lower its requests"
        ]
    );
    assert_eq!(injected(&guest(&plain()), &machine("wait", 1)).unwrap().1, [""; 0]);
}

#[rstest]
#[case::reservation(labelled(keys::POD_ROLE, "reservation"))]
#[case::no_type(json!({"metadata": {"labels": {keys::POD_ROLE: "guest", keys::MACHINE_GROUP: "g"}}}))]
#[case::no_labels(json!({"metadata": {}}))]
#[case::nothing(json!(null))]
fn other_pods_are_no_guests(#[case] pod: Value) {
    assert_eq!(guest_request(&pod), None);
}

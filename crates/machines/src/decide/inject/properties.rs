use proptest::prelude::*;
use serde_json::from_value;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn machine() -> Machine {
    from_value(json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "labels": {keys::MACHINE_GROUP: "g"}},
        "spec": {"nodePool": [], "machineTypes": [
            {"name": "t", "available": 1, "spec": {"cpu": 1, "memory": "1Gi",
                "gpu": {"type": "nvidia.com/gpu", "num": 1, "product": "x"}}},
        ]},
    }))
    .unwrap()
}

/// Any JSON, with keys that the injector reads.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "spec",
        "containers",
        "name",
        "resources",
        "requests",
        "limits",
        "cpu",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "matchExpressions",
        "tolerations",
        "schedulingGates",
        "nodeName",
        "priorityClassName",
        "annotations",
        "other",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 64, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6).prop_map(|map| {
                Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// A term that a user may bring.
fn any_term() -> impl Strategy<Value = Value> {
    let expression = prop_oneof![
        Just(json!({"key": "zone", "operator": "In", "values": ["a"]})),
        Just(json!({"key": "zone", "operator": "Exists"})),
        Just(json!({"key": "imperator.tenzen-y.io/t", "operator": "In", "values": ["g"]})),
        Just(json!({"key": "imperator.tenzen-y.io/node-pool", "operator": "In", "values": ["ready", "x"]})),
    ];
    let expressions = prop::collection::vec(expression, 0..4);
    prop_oneof![
        expressions.prop_map(|all| json!({"matchExpressions": all})),
        Just(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})),
        Just(json!({"matchExpressions": null})),
        Just(json!({})),
    ]
}

fn guest(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "labels": {
        keys::MACHINE_GROUP: "g", keys::MACHINE_TYPE: "t", keys::POD_ROLE: "guest",
    }}});
    pod["spec"] = spec;
    pod
}

fn injected(pod: &Value, now: Timestamp) -> Result<Value, InjectRefusal> {
    let request = GuestRequest { group: "g".into(), machine_type: "t".into() };
    let Injected { patch, .. } =
        inject(pod, "ns", &request, Some(&machine()), TypeLoad::default(), &GuestPriority::default(), now)?;
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    Ok(after)
}

proptest! {
    #[test]
    fn no_pod_makes_it_panic(pod in any_json(), spec in any_json()) {
        let _ = guest_request(&pod);
        let _ = injected(&pod, NOW);
        let _ = injected(&guest(spec), NOW);
    }

    #[test]
    fn the_second_time_changes_nothing(spec in any_json(), terms in prop::collection::vec(any_term(), 0..4), later in 0_i64..10_000_000) {
        let mut spec = spec;
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("containers".into(), json!([{"name": "a"}]));
            spec.insert("affinity".into(), json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            }}));
        }
        if let Ok(once) = injected(&guest(spec), NOW) {
            let twice = injected(&once, Timestamp::from_micros(NOW.micros() + later)).unwrap();
            prop_assert_eq!(once, twice);
        }
    }

    #[test]
    fn every_term_requires_our_nodes_and_keeps_what_it_had(terms in prop::collection::vec(any_term(), 0..5)) {
        let pod = guest(json!({
            "containers": [{"name": "a"}],
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                "preferredDuringSchedulingIgnoredDuringExecution": [],
            }},
        }));
        let after = injected(&pod, NOW).unwrap();
        let affinity = &after["spec"]["affinity"]["nodeAffinity"];
        let after = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array().unwrap();
        prop_assert_eq!(after.len(), terms.len().max(1));
        for (place, term) in after.iter().enumerate() {
            let has_conditions = |term: &Value| {
                let of = |field: &str| term[field].as_array().is_some_and(|conditions| !conditions.is_empty());
                of("matchExpressions") || of("matchFields")
            };
            // A term that matched no node must still match none.
            if terms.get(place).is_some_and(|before| !has_conditions(before)) {
                prop_assert_eq!(term, &terms[place]);
                continue;
            }
            let expressions = term["matchExpressions"].as_array().unwrap();
            for requirement in placement::requirements("t", "g", &machine().spec.machine_types[0].spec) {
                prop_assert!(expressions.contains(&json!(requirement)), "{term}");
            }
            let before = terms.get(place).cloned().unwrap_or_default();
            for expression in before["matchExpressions"].as_array().into_iter().flatten() {
                prop_assert!(expressions.contains(expression), "{term}");
            }
            prop_assert_eq!(term.get("matchFields"), before.get("matchFields"));
        }
    }
}

use rstest::rstest;
use serde_json::to_value;

use super::*;

fn outside() -> WebhookTarget {
    WebhookTarget::Url("https://10.0.0.7:9443/".into())
}

/// All entries of both configurations.
fn entries(target: &WebhookTarget) -> Vec<Value> {
    let mutating = to_value(mutating_webhook(target, b"pem")).unwrap();
    let validating = to_value(validating_webhook(target, b"pem")).unwrap();
    [mutating, validating].iter().flat_map(|all| all["webhooks"].as_array().unwrap().clone()).collect()
}

#[test]
fn no_pod_but_guests_waits_for_us_and_only_those_of_labelled_namespaces_are_injected() {
    let entries = entries(&outside());
    let of_pods: Vec<_> =
        entries.iter().filter(|entry| entry["rules"][0]["resources"][0] == "pods").collect();
    let [first, second, update] = of_pods.as_slice() else { panic!("{of_pods:?}") };
    for (entry, label) in [first, second].into_iter().zip(keys::NAMESPACE_LABELS) {
        assert_eq!(
            entry["namespaceSelector"],
            json!({"matchExpressions": [{"key": label, "operator": "In", "values": ["enabled"]}]})
        );
    }
    // Guests stay protected while their namespace has lost its label.
    assert_eq!(update["namespaceSelector"], Value::Null);
    for entry in of_pods {
        assert_eq!(
            entry["objectSelector"],
            json!({"matchLabels": {"imperator.tenzen-y.io/pod-role": "guest"}})
        );
    }
}

#[test]
fn entries_fail_closed_without_side_effects_and_have_names_of_their_own() {
    let entries = entries(&outside());
    for entry in &entries {
        assert_eq!(
            [&entry["failurePolicy"], &entry["sideEffects"], &entry["timeoutSeconds"], &entry["matchPolicy"]],
            [&json!("Fail"), &json!("None"), &json!(5), &json!("Equivalent")]
        );
    }
    let names: std::collections::BTreeSet<_> =
        entries.iter().map(|entry| entry["name"].to_string()).collect();
    assert_eq!(names.len(), entries.len());
}

#[rstest]
#[case::outside(outside(), json!({"url": "https://10.0.0.7:9443/mutate-core-v1-pod", "caBundle": "cGVt"}))]
#[case::inside(
    WebhookTarget::Service { namespace: "ns".into(), name: "muster".into(), port: 443 },
    json!({"service": {"namespace": "ns", "name": "muster", "port": 443, "path": "/mutate-core-v1-pod"}, "caBundle": "cGVt"})
)]
fn the_webhook_is_called_by_address_or_by_service(#[case] target: WebhookTarget, #[case] client: Value) {
    assert_eq!(entries(&target)[0]["clientConfig"], client);
}

#[test]
fn updates_of_guests_by_any_user_are_reviewed_for_labels_and_gate() {
    let update = entries(&outside())[2].clone();
    assert_eq!(update["rules"][0]["resources"], json!(["pods", "pods/status", "pods/resize"]));
    let conditions = update["matchConditions"].as_array().unwrap();
    let [condition] = conditions.as_slice() else { panic!("{conditions:?}") };
    let changed = condition["expression"].as_str().unwrap();
    assert!(!changed.contains("userInfo"), "{changed}");
    for key in [keys::MACHINE_GROUP, keys::MACHINE_TYPE, keys::POD_ROLE, keys::GATE] {
        assert!(changed.contains(&format!("'{key}'")), "{changed}");
    }
    assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
}

#[test]
fn the_class_of_guests_is_one_above_the_default() {
    let class = priority_class();
    assert_eq!((class.value, class.global_default), (1, None));
    assert_eq!(class.preemption_policy.as_deref(), Some("PreemptLowerPriority"));
    assert_eq!(machines_namespace("x").metadata.name.as_deref(), Some("x"));
}

#[test]
fn reservations_are_refused_outside_our_namespace() {
    let (policy, binding) = reservation_policy("imperator-system");
    let policy = to_value(policy).unwrap();
    assert_eq!(policy["metadata"]["annotations"]["muster.dev/machines-namespace"], "imperator-system");
    let expression = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
    assert!(expression.starts_with("request.namespace == 'imperator-system' || ("), "{expression}");
    assert_eq!(
        policy["spec"]["matchConstraints"]["objectSelector"],
        json!({"matchLabels": {"imperator.tenzen-y.io/pod-role": "reservation"}})
    );
    assert_eq!(to_value(binding).unwrap()["spec"]["validationActions"], json!(["Deny"]));
}

//! Whether a change of a guest is accepted: labels and finalizers of others may change, so that its Job can complete.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::keys;

/// Why a change of a guest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateRefusal {
    /// One of the three labels of a guest was changed.
    #[error("it is forbidden to update the Pod: label {0} of a guest cannot be changed; create another pod")]
    Label(&'static str),
    /// Our gate was removed.
    #[error("it is forbidden to update the Pod: gate {} is removed when the pod has a slot", keys::GATE)]
    Gate,
}

/// Accepts or refuses a change of a pod. `by_us` says whether our own leader makes it.
pub fn check_update(before: &Pod, after: &Pod, by_us: bool) -> Result<(), UpdateRefusal> {
    let role = |pod: &Pod| pod.labels().get(keys::POD_ROLE).is_some_and(|role| role == keys::GUEST);
    if !role(before) && !role(after) {
        return Ok(());
    }
    let changed = |label: &&str| before.labels().get(*label) != after.labels().get(*label);
    if let Some(label) = keys::GUEST_LABELS.into_iter().find(changed) {
        return Err(UpdateRefusal::Label(label));
    }
    if has_gate(before) && !has_gate(after) && !by_us { Err(UpdateRefusal::Gate) } else { Ok(()) }
}

fn has_gate(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.into_iter().flatten().any(|gate| gate.name == keys::GATE)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;

    fn pod(change: &Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "p", "finalizers": ["batch.kubernetes.io/job-tracking"], "labels": {
                keys::MACHINE_GROUP: "g", keys::MACHINE_TYPE: "t", keys::POD_ROLE: "guest", "app": "a"}},
            "spec": {"containers": [], "schedulingGates": [{"name": keys::GATE}, {"name": "other"}]},
        });
        json_patch::merge(&mut pod, change);
        from_value(pod).unwrap()
    }

    #[rstest]
    #[case::nothing(json!({}), false, true)]
    #[case::finalizer(json!({"metadata": {"finalizers": []}}), false, true)]
    #[case::other_label(json!({"metadata": {"labels": {"app": "b", "new": "c"}}}), false, true)]
    #[case::annotation(json!({"metadata": {"annotations": {"x": "y"}}}), false, true)]
    #[case::group(json!({"metadata": {"labels": {keys::MACHINE_GROUP: "h"}}}), false, false)]
    #[case::type_removed(json!({"metadata": {"labels": {keys::MACHINE_TYPE: null}}}), false, false)]
    #[case::role(json!({"metadata": {"labels": {keys::POD_ROLE: "reservation"}}}), false, false)]
    #[case::labels_not_even_by_us(json!({"metadata": {"labels": {keys::MACHINE_GROUP: "h"}}}), true, false)]
    #[case::gate(json!({"spec": {"schedulingGates": [{"name": "other"}]}}), false, false)]
    #[case::gate_by_us(json!({"spec": {"schedulingGates": [{"name": "other"}]}}), true, true)]
    #[case::other_gate(json!({"spec": {"schedulingGates": [{"name": keys::GATE}]}}), false, true)]
    fn a_guest_may_change_except_for_labels_and_gate(
        #[case] change: Value,
        #[case] by_us: bool,
        #[case] accepted: bool,
    ) {
        assert_eq!(check_update(&pod(&json!({})), &pod(&change), by_us).is_ok(), accepted);
    }

    #[test]
    fn a_pod_does_not_become_a_guest_later() {
        let before = pod(&json!({"metadata": {"labels": {keys::POD_ROLE: null}}}));
        let refused = check_update(&before, &pod(&json!({})), false);
        assert_eq!(refused, Err(UpdateRefusal::Label(keys::POD_ROLE)));
    }
}

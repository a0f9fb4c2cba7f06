//! The check of an update of a guest: only the three labels of guests, their amounts and Muster's gate are protected, so
//! that a Job can complete.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use kube::ResourceExt;

use crate::keys;

/// The reason why a change of a guest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateRefusal {
    /// One of the three labels of a guest was changed.
    #[error("it is forbidden to update the Pod: label {0} of a guest cannot be changed; create another pod")]
    Label(&'static str),
    /// Muster's gate was removed.
    #[error("it is forbidden to update the Pod: gate {} is removed when the pod has a slot", keys::GATE)]
    Gate,
    /// The amounts were changed by a resize.
    #[error(
        "it is forbidden to update the Pod: a guest has the amounts of its machine type: create another pod with \
         another machine type"
    )]
    Amounts,
}

/// The effect of an accepted change on Muster's scheduling gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateChange {
    /// The gate stays, or did not exist.
    Unchanged,
    /// The gate is removed: accepted only for a guest that is in the ledger.
    Removed,
}

/// Refuses changes of a guest's labels and amounts by any user, and reports a removal of the gate.
pub fn check_update(before: &Pod, after: &Pod) -> Result<GateChange, UpdateRefusal> {
    let role = |pod: &Pod| pod.labels().get(keys::POD_ROLE).is_some_and(|role| role == keys::GUEST);
    if !role(before) && !role(after) {
        return Ok(GateChange::Unchanged);
    }
    let changed = |label: &&str| before.labels().get(*label) != after.labels().get(*label);
    if let Some(label) = keys::GUEST_LABELS.into_iter().find(changed) {
        return Err(UpdateRefusal::Label(label));
    }
    if amounts(before) != amounts(after) {
        return Err(UpdateRefusal::Amounts);
    }
    let removed = has_gate(before) && !has_gate(after);
    Ok(if removed { GateChange::Removed } else { GateChange::Unchanged })
}

/// The requests and limits of the pod as a whole and of its containers, which only a resize can change.
fn amounts(pod: &Pod) -> Vec<Option<&ResourceRequirements>> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    containers.map(|container| container.resources.as_ref()).chain([spec.resources.as_ref()]).collect()
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
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "schedulingGates": [{"name": keys::GATE}, {"name": "other"}]},
        });
        json_patch::merge(&mut pod, change);
        from_value(pod).unwrap()
    }

    const UNCHANGED: Result<GateChange, UpdateRefusal> = Ok(GateChange::Unchanged);
    const REMOVED: Result<GateChange, UpdateRefusal> = Ok(GateChange::Removed);

    fn refused(label: &'static str) -> Result<GateChange, UpdateRefusal> {
        Err(UpdateRefusal::Label(label))
    }

    #[rstest]
    #[case::nothing(json!({}), UNCHANGED)]
    #[case::finalizer(json!({"metadata": {"finalizers": []}}), UNCHANGED)]
    #[case::other_label(json!({"metadata": {"labels": {"app": "b", "new": "c"}}}), UNCHANGED)]
    #[case::annotation(json!({"metadata": {"annotations": {"x": "y"}}}), UNCHANGED)]
    #[case::group(json!({"metadata": {"labels": {keys::MACHINE_GROUP: "h"}}}), refused(keys::MACHINE_GROUP))]
    #[case::type_removed(json!({"metadata": {"labels": {keys::MACHINE_TYPE: null}}}), refused(keys::MACHINE_TYPE))]
    #[case::role(json!({"metadata": {"labels": {keys::POD_ROLE: "reservation"}}}), refused(keys::POD_ROLE))]
    #[case::role_removed(json!({"metadata": {"labels": {keys::POD_ROLE: null}}}), refused(keys::POD_ROLE))]
    #[case::gate(json!({"spec": {"schedulingGates": [{"name": "other"}]}}), REMOVED)]
    #[case::other_gate(json!({"spec": {"schedulingGates": [{"name": keys::GATE}]}}), UNCHANGED)]
    #[case::resized(
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}),
        Err(UpdateRefusal::Amounts)
    )]
    #[case::resized_as_a_whole(
        json!({"spec": {"resources": {"requests": {"cpu": "2"}}}}),
        Err(UpdateRefusal::Amounts)
    )]
    #[case::label_and_gate(
        json!({"metadata": {"labels": {keys::MACHINE_TYPE: "u"}}, "spec": {"schedulingGates": []}}),
        refused(keys::MACHINE_TYPE)
    )]
    fn a_guest_may_change_except_for_labels_amounts_and_gate(
        #[case] change: Value,
        #[case] expected: Result<GateChange, UpdateRefusal>,
    ) {
        assert_eq!(check_update(&pod(&json!({})), &pod(&change)), expected);
    }

    #[test]
    fn a_pod_does_not_become_a_guest_later() {
        let before = pod(&json!({"metadata": {"labels": {keys::POD_ROLE: null}}}));
        assert_eq!(check_update(&before, &pod(&json!({}))), refused(keys::POD_ROLE));
    }
}

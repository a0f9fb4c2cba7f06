//! The take-over from the published operator: its guests keep running, and its objects are replaced.

use std::collections::BTreeMap;

use json_patch::Patch;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use muster_core::time::{TimeSpan, Timestamp};
use serde_json::{Value, json};

use crate::amounts::core_time;
use crate::decide::patch::read_patch;
use crate::decide::registration::REGISTRATION;
use crate::keys;
use crate::types::MachineNodePool;

/// The duration of a Lease that names none: the default of the published operator's library.
const DEFAULT_LEASE_SECONDS: i32 = 15;

/// The reason why Muster does not start its machines part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "another operator manages Machines: {holder} renewed Lease {} {ago} ago; scale it to 0, and start again",
    keys::PUBLISHED_LEASE
)]
pub struct PublishedOperatorRuns {
    /// The holder of its Lease.
    pub holder: String,
    /// The time since the last renewal.
    pub ago: TimeSpan,
}

/// The reason why Muster does not start its machines part beside another Muster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "another Muster serves the Machines of this Kubernetes from namespace {namespace}: {holder} renewed Lease {} {ago} \
     ago; set machines_namespace to {namespace}, or stop that Muster and start again",
    keys::LEASE
)]
pub struct OtherMusterRuns {
    /// The namespace of the other Muster.
    pub namespace: String,
    /// The holder of the Lease.
    pub holder: String,
    /// The time since the last renewal.
    pub ago: TimeSpan,
}

/// Refuses to start while the published operator's Lease is fresh.
pub fn check_published_lease(lease: Option<&Lease>, now: Timestamp) -> Result<(), PublishedOperatorRuns> {
    match fresh_holder(lease, now) {
        Some((holder, ago)) => Err(PublishedOperatorRuns { holder, ago }),
        None => Ok(()),
    }
}

/// Refuses to start while the Lease of a Muster with another namespace is fresh.
pub fn check_other_lease(
    namespace: &str,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Result<(), OtherMusterRuns> {
    match fresh_holder(lease, now) {
        Some((holder, ago)) => Err(OtherMusterRuns { namespace: namespace.to_owned(), holder, ago }),
        None => Ok(()),
    }
}

/// The holder of a Lease that has not expired, and the whole seconds since the last renewal.
fn fresh_holder(lease: Option<&Lease>, now: Timestamp) -> Option<(String, TimeSpan)> {
    let spec = lease?.spec.as_ref()?;
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let ago = now.since(core_time(spec.renew_time.as_ref()?.0));
    let seconds = spec.lease_duration_seconds.unwrap_or(DEFAULT_LEASE_SECONDS);
    let duration = TimeSpan::from_secs(u32::try_from(seconds).unwrap_or(0));
    (ago < duration).then(|| (holder, TimeSpan::from_secs(whole_seconds(ago))))
}

/// Returns true if a webhook configuration of another operator is for guests or Machines: it names the API group of
/// Machines, or selects namespaces by the label of guests.
pub fn calls_another_operator(configuration: &Value) -> bool {
    let is_for_machines = |webhook: &Value| {
        let mut rules = list(&webhook["rules"]);
        rules.any(|rule| list(&rule["apiGroups"]).any(|group| group == keys::DOMAIN))
    };
    let is_for_guests = |webhook: &Value| {
        let selector = &webhook["namespaceSelector"];
        keys::NAMESPACE_LABELS.into_iter().any(|label| {
            list(&selector["matchExpressions"]).any(|expression| expression["key"] == label)
                || selector["matchLabels"].get(label).is_some()
        })
    };
    configuration["metadata"]["name"] != REGISTRATION
        && list(&configuration["webhooks"]).any(|webhook| is_for_machines(webhook) || is_for_guests(webhook))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn whole_seconds(span: TimeSpan) -> u32 {
    u32::try_from(span.secs()).unwrap_or(u32::MAX)
}

/// The patch that removes the published operator's finalizer from a pool; `None` if the pool does not have it.
pub fn finalizer_removal(pool: &MachineNodePool) -> Option<Patch> {
    let place = pool.finalizers().iter().position(|finalizer| finalizer == keys::PUBLISHED_FINALIZER)?;
    let path = format!("/metadata/finalizers/{place}");
    Some(read_patch(json!([
        {"op": "test", "path": path, "value": keys::PUBLISHED_FINALIZER},
        {"op": "remove", "path": path},
    ])))
}

/// Returns true if the published operator created the pool under another name than Muster's, so that the pool is
/// deleted once Muster's pool of `machine` exists.
pub fn is_published_pool(pool: &MachineNodePool, machine: &str) -> bool {
    let owned = pool.owner_references().iter().any(|owner| owner.kind == "Machine" && owner.name == machine);
    owned && pool.name_any() != keys::pool_name(machine)
}

/// A set of reservations of the published operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedSet {
    /// The name of the set, and of its Service.
    pub name: String,
    /// The UID of the set.
    pub uid: String,
}

/// The writes of a pass to the published operator's sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetReplacement<'a> {
    /// The set that is deleted now, with its pods and its Service.
    pub delete: Option<PublishedSet>,
    /// The types whose new set is not created yet.
    pub held_back: Vec<&'a str>,
}

/// Replaces the published operator's sets one type at a time: the next set is deleted when the reservations of the
/// previous type are ready again, so that at most one type is without reservations. Types whose nodes have too few
/// slots (`is_short`) do not block the next one. Sets of types that were removed from the Machine are deleted, too.
pub fn replace_sets<'a>(
    group: &str,
    types: &[&'a str],
    sets: &[&StatefulSet],
    is_short: impl Fn(&str) -> bool,
) -> SetReplacement<'a> {
    let by_name: BTreeMap<String, &StatefulSet> = sets.iter().map(|set| (set.name_any(), *set)).collect();
    let mut replacement = SetReplacement::default();
    let mut busy = false;
    for machine_type in types {
        let ours = by_name.get(&keys::reservation_name(machine_type, group));
        if published_set(group, machine_type, &by_name).is_some() {
            replacement.held_back.push(machine_type);
        } else {
            busy |= ours.is_some_and(|set| !is_in_place(set)) && !is_short(machine_type);
        }
    }
    let removed = sets.iter().filter_map(|set| set.labels().get(keys::MACHINE_TYPE)).map(String::as_str);
    let removed = removed.filter(|name| !types.contains(name));
    for set in types.iter().copied().chain(removed).filter_map(|name| published_set(group, name, &by_name)) {
        if !busy && set.metadata.deletion_timestamp.is_none() {
            replacement.delete =
                Some(PublishedSet { name: set.name_any(), uid: set.uid().unwrap_or_default() });
        }
        busy = true;
    }
    replacement
}

/// The set of a type under the published operator's name. If that name equals Muster's name, there is none to delete
/// here: the set is replaced because its other fields differ.
fn published_set<'a>(
    group: &str,
    machine_type: &str,
    by_name: &BTreeMap<String, &'a StatefulSet>,
) -> Option<&'a StatefulSet> {
    let (ours, theirs) = (keys::reservation_name(machine_type, group), format!("{group}-{machine_type}"));
    by_name.get(&theirs).copied().filter(|_| ours != theirs)
}

/// Returns true if all pods of a set are ready.
fn is_in_place(set: &StatefulSet) -> bool {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0) >= wanted
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{from_value, to_value};

    use super::*;

    #[rstest]
    #[case::none(None, None)]
    #[case::fresh(Some(json!({"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:01:30.000000Z"})), Some("another operator manages Machines: pod-1 renewed Lease c402a1f6.imperator.tenzen-y.io 10s ago; scale it to 0, and start again"))]
    #[case::stale(Some(json!({"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:01:25.000000Z"})), None)]
    #[case::released(Some(json!({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "1970-01-01T00:01:40.000000Z"})), None)]
    #[case::without_a_duration(Some(json!({"holderIdentity": "pod-1", "renewTime": "1970-01-01T00:01:30.000000Z"})), Some("another operator manages Machines: pod-1 renewed Lease c402a1f6.imperator.tenzen-y.io 10s ago; scale it to 0, and start again"))]
    #[case::never_renewed(Some(json!({"holderIdentity": "pod-1"})), None)]
    fn muster_does_not_start_while_the_published_operator_runs(
        #[case] spec: Option<Value>,
        #[case] refusal: Option<&str>,
    ) {
        let lease: Option<Lease> =
            spec.map(|spec| from_value(json!({"metadata": {}, "spec": spec})).unwrap());
        let checked = check_published_lease(lease.as_ref(), Timestamp::from_micros(100_000_000));
        assert_eq!(checked.err().map(|error| error.to_string()).as_deref(), refusal);
    }

    #[test]
    fn muster_does_not_start_while_another_one_serves_the_machines() {
        let lease = |renewed: &str| -> Lease {
            let spec = json!({"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed});
            from_value(json!({"metadata": {}, "spec": spec})).unwrap()
        };
        let now = Timestamp::from_micros(100_000_000);
        let refused = check_other_lease("a", Some(&lease("1970-01-01T00:01:30.000000Z")), now).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "another Muster serves the Machines of this Kubernetes from namespace a: one renewed Lease muster-machines \
             10s ago; set machines_namespace to a, or stop that Muster and start again"
        );
        assert_eq!(check_other_lease("a", Some(&lease("1970-01-01T00:01:25.000000Z")), now), Ok(()));
        assert_eq!(check_other_lease("a", None, now), Ok(()));
    }

    #[rstest]
    #[case::machines(json!([{"rules": [{"apiGroups": ["imperator.tenzen-y.io"]}]}]), true)]
    #[case::guests(json!([{"namespaceSelector": {"matchExpressions": [{"key": "imperator.tenzen.io/inject-resource"}]}}]), true)]
    #[case::guests_by_label(json!([{}, {"namespaceSelector": {"matchLabels": {"imperator.tenzen.io/inject-resource": "enabled"}}}]), true)]
    #[case::other_pods(json!([{"rules": [{"apiGroups": [""]}], "namespaceSelector": {"matchExpressions": [{"key": "mesh"}]}}]), false)]
    #[case::nothing(json!(null), false)]
    fn configurations_of_another_operator_are_recognised(#[case] webhooks: Value, #[case] expected: bool) {
        let named = |name: &str| json!({"metadata": {"name": name}, "webhooks": webhooks});
        assert_eq!(calls_another_operator(&named("imperator-mutating-webhook-configuration")), expected);
        assert!(!calls_another_operator(&named(REGISTRATION)));
    }

    fn pool(name: &str, finalizers: &[&str]) -> MachineNodePool {
        from_value(json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "MachineNodePool",
            "metadata": {"name": name, "finalizers": finalizers, "ownerReferences": [
                {"apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine", "name": "m", "uid": "u"}]},
            "spec": {"nodePool": [], "machineTypeStock": []},
        }))
        .unwrap()
    }

    #[test]
    fn its_finalizer_is_removed_and_ours_stays() {
        let pool = pool("p", &[keys::POOL_FINALIZER, keys::PUBLISHED_FINALIZER]);
        let mut object = to_value(&pool).unwrap();
        json_patch::patch(&mut object, &finalizer_removal(&pool).unwrap()).unwrap();
        assert_eq!(object["metadata"]["finalizers"], json!([keys::POOL_FINALIZER]));
        assert_eq!(finalizer_removal(&from_value(object).unwrap()), None);
    }

    #[test]
    fn its_pool_of_another_name_goes() {
        assert!(is_published_pool(&pool("g-node-pool", &[]), "m"));
        assert!(!is_published_pool(&pool("m-node-pool", &[]), "m"));
        assert!(!is_published_pool(&pool("g-node-pool", &[]), "other"));
    }

    /// `g-a` is a set of the published operator, `a-g` one of Muster; `+` has all its pods, `-` is being deleted.
    fn set(words: &str) -> StatefulSet {
        let name = words.trim_end_matches(['+', '-']);
        let going = words.ends_with('-').then_some("2023-11-14T22:13:20Z");
        from_value(json!({
            "metadata": {"name": name, "uid": name, "deletionTimestamp": going,
                "labels": {keys::MACHINE_TYPE: name.trim_start_matches("g-").trim_end_matches("-g")}},
            "spec": {"replicas": 2, "serviceName": "", "selector": {}, "template": {}},
            "status": {"replicas": 2, "readyReplicas": if words.ends_with('+') { 2 } else { 1 }},
        }))
        .unwrap()
    }

    #[rstest]
    #[case::the_first_goes("g-a+ g-b+", Some("g-a"), &["a", "b"])]
    #[case::a_successor_that_does_not_fit_is_not_waited_for("short-g g-b+", Some("g-b"), &["b"])]
    #[case::of_a_removed_type("a-g+ b-g+ g-old+", Some("g-old"), &[])]
    #[case::of_a_removed_type_later("a-g g-old+", None, &[])]
    #[case::it_is_going("g-a- g-b+", None, &["a", "b"])]
    #[case::its_successor_comes("a-g g-b+", None, &["b"])]
    #[case::the_second_goes("a-g+ g-b+", Some("g-b"), &["b"])]
    #[case::all_are_replaced("a-g+ b-g+", None, &[])]
    #[case::none("", None, &[])]
    fn one_type_at_a_time_is_replaced(
        #[case] sets: &str,
        #[case] deleted: Option<&str>,
        #[case] held_back: &[&str],
    ) {
        let sets: Vec<_> = sets.split_whitespace().map(set).collect();
        let replacement =
            replace_sets("g", &["a", "b", "short"], &sets.iter().collect::<Vec<_>>(), |name| name == "short");
        assert_eq!(replacement.delete.map(|set| set.name).as_deref(), deleted);
        assert_eq!(replacement.held_back, held_back);
    }
}

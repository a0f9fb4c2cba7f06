use muster_core::sample;
use serde_json::{Value, json};

use super::*;
use crate::ownership;

const UID: &str = "0190f3a2-7b1c-4d4e-8f00-000000000001";

impl PodCache {
    /// A cache whose only watch is in sync, and has listed nothing.
    pub(in crate::pods) fn synced(changes: broadcast::Sender<WorldChange>) -> Self {
        let cache = Self::new(&[None], IdentityGate::open(), changes);
        cache.mark_synced(0, None, cache.begin_list());
        cache
    }
}

fn synced() -> PodCache {
    PodCache::synced(broadcast::channel(16).0)
}

/// The last report of a pod that is deleted.
fn deleted(mut pod: Value) -> LeanPod {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    lean(pod)
}

/// A node whose pod runs.
fn node() -> Node {
    Node { physical_id: Some(format!("demo/fred-0/{UID}")), ..sample::node(0) }
}

fn pod(version: u32) -> Value {
    let metadata = json!({
        "name": "fred-0", "namespace": "demo", "uid": UID, "resourceVersion": version.to_string(),
        "labels": {ownership::NODE: node().id},
    });
    json!({"metadata": metadata, "status": {"phase": "Running"}})
}

fn lean(pod: Value) -> LeanPod {
    serde_json::from_value(pod).expect("a pod")
}

fn look_up(cache: &PodCache) -> Lookup {
    cache.look_up(&[node()], "demo").expect("the watch is in sync").remove(0)
}

fn unlisted() -> PodRef {
    PodRef { namespace: "demo".to_owned(), name: "fred-0".to_owned(), uid: UID.to_owned() }
}

#[test]
fn a_pod_that_was_being_deleted_is_gone_without_a_read() {
    let cache = synced();
    cache.apply_written(lean(pod(1)), true);
    cache.delete_pod(deleted(pod(2)));
    assert!(matches!(look_up(&cache), Lookup::Known(None)));
}

#[test]
fn a_late_answer_to_a_write_does_not_restore_a_deleted_pod() {
    let cache = synced();
    cache.delete_pod(deleted(pod(2)));
    cache.apply_written(lean(pod(1)), true);
    assert!(matches!(look_up(&cache), Lookup::Known(None)));
}

#[test]
fn a_late_answer_to_a_read_does_not_restore_a_deleted_pod() {
    let cache = synced();
    cache.confirm_gone(node().id, UID);
    cache.confirm_unlisted(node().id, lean(pod(1)));
    assert!(matches!(look_up(&cache), Lookup::Known(None)));
}

#[test]
fn a_pod_that_is_no_longer_listed_is_read_before_it_counts_as_gone() {
    let cache = synced();
    cache.apply_written(lean(pod(1)), true);
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if pod.listed));
    cache.delete_pod(lean(pod(2)));
    assert!(matches!(look_up(&cache), Lookup::Unlisted(pod) if pod == unlisted()));
    cache.confirm_gone(node().id, UID);
    assert!(matches!(look_up(&cache), Lookup::Known(None)));
}

#[test]
fn a_pod_that_a_complete_list_lacks_is_read_before_it_counts_as_gone() {
    let cache = synced();
    cache.apply_written(lean(pod(1)), true);
    cache.mark_synced(0, None, cache.begin_list());
    assert!(matches!(look_up(&cache), Lookup::Unlisted(pod) if pod == unlisted()));
}

#[test]
fn a_pod_of_a_row_that_was_never_listed_is_read_once() {
    let cache = synced();
    assert!(matches!(look_up(&cache), Lookup::Unlisted(pod) if pod == unlisted()));
    cache.confirm_unlisted(node().id, lean(pod(2)));
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if !pod.listed));
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if !pod.listed));
}

#[test]
fn a_pod_whose_label_is_back_is_listed() {
    let cache = synced();
    cache.confirm_unlisted(node().id, lean(pod(2)));
    cache.apply_written(lean(pod(3)), true);
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if pod.listed));
}

#[test]
fn a_pod_elsewhere_that_is_labelled_with_a_node_is_not_its_pod() {
    let cache = synced();
    let mut spoof = pod(1);
    spoof["metadata"]["namespace"] = json!("other");
    spoof["metadata"]["uid"] = json!("spoof");
    cache.apply_written(lean(spoof.clone()), true);
    assert!(matches!(look_up(&cache), Lookup::Unlisted(pod) if pod == unlisted()));
    cache.apply_written(lean(pod(2)), true);
    cache.apply_written(lean(spoof.clone()), true);
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if pod.node_pod.uid == UID));
    let starting = Node { physical_id: None, ..node() };
    let found = cache.look_up(&[starting], "demo").expect("the watch is in sync").remove(0);
    assert!(matches!(found, Lookup::Known(Some(pod)) if pod.node_pod.uid == UID));
    cache.delete_pod(lean(spoof.clone()));
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if pod.node_pod.uid == UID));
    cache.apply_written(deleted(pod(3)), true);
    cache.delete_pod(deleted(pod(3)));
    cache.apply_written(lean(spoof.clone()), true);
    cache.delete_pod(lean(spoof));
    assert!(
        matches!(look_up(&cache), Lookup::Known(None)),
        "a pod elsewhere that lost the label is not its pod"
    );
}

#[test]
fn the_pod_that_a_row_names_goes_before_others_of_its_namespace() {
    let cache = synced();
    let mut other = pod(1);
    other["metadata"]["name"] = json!("a");
    other["metadata"]["uid"] = json!("other");
    cache.apply_written(lean(pod(1)), true);
    cache.apply_written(lean(other), true);
    assert!(matches!(look_up(&cache), Lookup::Known(Some(pod)) if pod.node_pod.uid == UID));
}

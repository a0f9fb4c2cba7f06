use muster_core::sample;
use serde_json::{Value, json};

use super::*;
use crate::marks;

const UID: &str = "0190f3a2-7b1c-4d4e-8f00-000000000001";

/// A table whose only watch has listed everything.
fn complete() -> Table {
    let table = Table::new(&[None], Certain::yes(), broadcast::channel(16).0);
    table.complete(0, None, table.begin());
    table
}

/// A node whose pod works.
fn node() -> Node {
    Node { physical_id: Some(format!("demo/fred-0/{UID}")), ..sample::node(0) }
}

fn pod(version: u32) -> Value {
    let metadata = json!({
        "name": "fred-0", "namespace": "demo", "uid": UID, "resourceVersion": version.to_string(),
        "labels": {marks::NODE: node().id},
    });
    json!({"metadata": metadata, "status": {"phase": "Running"}})
}

fn lean(pod: Value) -> LeanPod {
    serde_json::from_value(pod).expect("a pod")
}

fn look_up(table: &Table) -> Lookup {
    table.look_up(&[node()], "demo").expect("all was listed").remove(0)
}

fn unlisted() -> PodRef {
    PodRef { namespace: "demo".to_owned(), name: "fred-0".to_owned(), uid: UID.to_owned() }
}

#[test]
fn a_pod_that_was_being_deleted_is_gone_without_a_read() {
    let table = complete();
    table.take(lean(pod(1)), true);
    let mut leaving = pod(2);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    table.drop_pod(lean(leaving));
    assert!(matches!(look_up(&table), Lookup::Known(None)));
}

#[test]
fn a_pod_that_is_not_listed_any_more_is_read_before_it_is_gone() {
    let table = complete();
    table.take(lean(pod(1)), true);
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if pod.listed));
    table.drop_pod(lean(pod(2)));
    assert!(matches!(look_up(&table), Lookup::Unlisted(pod) if pod == unlisted()));
    table.confirm_gone(node().id, UID);
    assert!(matches!(look_up(&table), Lookup::Known(None)));
}

#[test]
fn a_pod_that_a_complete_list_lacks_is_read_before_it_is_gone() {
    let table = complete();
    table.take(lean(pod(1)), true);
    table.complete(0, None, table.begin());
    assert!(matches!(look_up(&table), Lookup::Unlisted(pod) if pod == unlisted()));
}

#[test]
fn a_pod_of_a_row_that_was_never_listed_is_read_once() {
    let table = complete();
    assert!(matches!(look_up(&table), Lookup::Unlisted(pod) if pod == unlisted()));
    table.confirm_unlisted(node().id, lean(pod(2)));
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if !pod.listed));
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if !pod.listed));
}

#[test]
fn a_pod_whose_label_is_back_is_listed() {
    let table = complete();
    table.confirm_unlisted(node().id, lean(pod(2)));
    table.take(lean(pod(3)), true);
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if pod.listed));
}

#[test]
fn a_pod_elsewhere_that_is_labelled_with_a_node_is_not_its_pod() {
    let table = complete();
    let mut spoof = pod(1);
    spoof["metadata"]["namespace"] = json!("other");
    spoof["metadata"]["uid"] = json!("spoof");
    table.take(lean(spoof.clone()), true);
    assert!(matches!(look_up(&table), Lookup::Unlisted(pod) if pod == unlisted()));
    table.take(lean(pod(2)), true);
    table.take(lean(spoof.clone()), true);
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if pod.facts.uid == UID));
    let starting = Node { physical_id: None, ..node() };
    let found = table.look_up(&[starting], "demo").expect("all was listed").remove(0);
    assert!(matches!(found, Lookup::Known(Some(pod)) if pod.facts.uid == UID));
    table.drop_pod(lean(spoof.clone()));
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if pod.facts.uid == UID));
    let mut deleted = pod(3);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    table.take(lean(deleted.clone()), true);
    table.drop_pod(lean(deleted));
    table.take(lean(spoof.clone()), true);
    table.drop_pod(lean(spoof));
    assert!(matches!(look_up(&table), Lookup::Known(None)), "what lost the label elsewhere is not its pod");
}

#[test]
fn the_pod_that_a_row_names_goes_before_others_of_its_namespace() {
    let table = complete();
    let mut other = pod(1);
    other["metadata"]["name"] = json!("a");
    other["metadata"]["uid"] = json!("other");
    table.take(lean(pod(1)), true);
    table.take(lean(other), true);
    assert!(matches!(look_up(&table), Lookup::Known(Some(pod)) if pod.facts.uid == UID));
}

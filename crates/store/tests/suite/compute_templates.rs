//! Compute templates: rows that are the record, and rows that mirror `ConfigMap` objects.

use muster_core::compute_template::{ComputeTemplate, TemplateSpec};
use muster_core::ids::InstanceId;
use muster_core::time::Timestamp;
use muster_store::commands::{
    DeleteComputeTemplate, InsertComputeTemplate, MirrorComputeTemplates, TakeDuty,
};
use muster_store::reads::{ComputeTemplateQuery, ComputeTemplateSort};
use muster_store::{Direction, Store};
use muster_testkit::database_test;

use crate::harness::{self, Harness};

const DUTY: &str = "compute_templates";

fn template(namespace: &str, name: &str, uid: &str) -> ComputeTemplate {
    ComputeTemplate {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        project: "p".to_owned(),
        instance: None,
        uid: uid.to_owned(),
        spec: TemplateSpec { cpu: 1, memory: 2, ..TemplateSpec::default() },
        created_at: Timestamp::from_micros(1),
    }
}

/// A template whose record is a ConfigMap.
fn elsewhere(name: &str, uid: &str) -> ComputeTemplate {
    ComputeTemplate { instance: Some(InstanceId::new("kubernetes", "k")), ..template("n", name, uid) }
}

async fn insert(store: &Store, template: ComputeTemplate) -> bool {
    store
        .insert_compute_template(InsertComputeTemplate { template, events: Vec::new(), named: None })
        .await
        .expect("an answer")
}

async fn uid(store: &Store, name: &str) -> Option<String> {
    store.compute_template("n", name).await.expect("an answer").map(|template| template.uid)
}

#[database_test]
async fn a_name_is_taken_once_in_a_namespace(harness: Harness) {
    let store = &harness.store;
    let (one, another) =
        tokio::join!(insert(store, template("n", "a", "1")), insert(store, template("n", "a", "2")));
    assert!(one != another, "one of two that meet is stored");
    assert!(insert(store, template("m", "a", "3")).await, "in another namespace it is free");
    assert!(!insert(store, elsewhere("a", "4")).await, "a row that is the record is not replaced");
    assert!(insert(store, elsewhere("b", "5")).await);
    assert!(insert(store, elsewhere("b", "6")).await, "the record was replaced elsewhere");
    assert_eq!(uid(store, "b").await.as_deref(), Some("6"));
}

#[database_test]
async fn only_the_template_that_was_meant_is_deleted(harness: Harness) {
    let store = &harness.store;
    insert(store, template("n", "a", "new")).await;
    let delete = async |uid: &str| {
        let command =
            DeleteComputeTemplate { template: template("n", "a", uid), events: Vec::new(), named: None };
        store.delete_compute_template(command).await.unwrap()
    };
    assert!(!delete("old").await);
    assert_eq!(uid(store, "a").await.as_deref(), Some("new"));
    assert!(delete("new").await);
    assert_eq!(uid(store, "a").await, None);
}

#[database_test]
async fn rows_follow_records_elsewhere_only_by_the_engine_with_the_duty(harness: Harness) {
    let store = &harness.store;
    let engine = harness::living(store, 1).await;
    insert(store, elsewhere("gone", "1")).await;
    insert(store, template("n", "ours", "2")).await;
    let command = MirrorComputeTemplates {
        duty: DUTY.to_owned(),
        engine,
        changed: vec![elsewhere("new", "3"), elsewhere("ours", "4")],
        gone: vec![elsewhere("gone", "1")],
    };
    assert!(!store.mirror_compute_templates(command.clone()).await.unwrap(), "without the duty");
    assert_eq!(uid(store, "gone").await.as_deref(), Some("1"));
    assert!(store.take_duty(TakeDuty { name: DUTY.to_owned(), engine }).await.unwrap());
    assert!(store.mirror_compute_templates(command).await.unwrap());
    assert_eq!(uid(store, "gone").await, None);
    assert_eq!(uid(store, "new").await.as_deref(), Some("3"));
    assert_eq!(uid(store, "ours").await.as_deref(), Some("2"), "a row that is the record stays");
}

#[database_test]
async fn templates_are_listed_by_namespace_prefix_and_order(harness: Harness) {
    let store = &harness.store;
    for (namespace, name) in [("n", "b"), ("n", "a1"), ("m", "a2")] {
        insert(store, template(namespace, name, name)).await;
    }
    let names = async |query: ComputeTemplateQuery| {
        let page = store.compute_templates(&query).await.unwrap();
        page.items.into_iter().map(|template| template.name).collect::<Vec<_>>()
    };
    let by_name = ComputeTemplateQuery {
        sort: vec![(ComputeTemplateSort::Name, Direction::Ascending)],
        ..ComputeTemplateQuery::default()
    };
    assert_eq!(names(by_name.clone()).await, ["a1", "a2", "b"]);
    let of_namespace = ComputeTemplateQuery { namespace: Some("n".to_owned()), ..by_name.clone() };
    assert_eq!(names(of_namespace).await, ["a1", "b"]);
    let with_prefix = ComputeTemplateQuery { name_prefix: Some("a".to_owned()), ..by_name.clone() };
    assert_eq!(names(with_prefix).await, ["a1", "a2"]);
    let of_others = ComputeTemplateQuery { project: Some("q".to_owned()), ..by_name };
    assert_eq!(names(of_others).await, [""; 0]);
}

//! The recorded usage of clusters within a window, including deleted ones.

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::{Event, Level, ObjectKind};
use muster_core::ids::EventId;
use muster_core::principal::Door;
use muster_core::usage::{AmountsRecord, RequestedAmounts, Window};
use muster_store::Store;
use muster_store::commands::Record;
use muster_store::reads::{UsageQuery, UsedCluster};
use muster_testkit::database_test;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::harness::{self, Harness, claim, living, now, record};

fn event(number: u128, at: i64, cluster: &Cluster, data: Map<String, Value>) -> Event {
    Event {
        id: EventId::from_uuid(Uuid::from_u128(number)),
        at: now(at),
        level: Level::Info,
        object_kind: ObjectKind::Cluster,
        object_id: cluster.id.to_string(),
        object_name: cluster.name.clone(),
        cluster_id: Some(cluster.id),
        action_id: None,
        reason: "CLUSTER_RESIZE".to_owned(),
        phase: "end".to_owned(),
        message: String::new(),
        user: String::new(),
        project: cluster.project.clone(),
        door: Door::Core,
        data,
    }
}

fn amounts(nodes: u64) -> RequestedAmounts {
    RequestedAmounts { nodes, ..RequestedAmounts::default() }
}

fn resized(number: u128, at: i64, cluster: &Cluster, before: Option<u64>, after: u64) -> Event {
    let mut data = Map::new();
    AmountsRecord::write(&mut data, before.map(amounts), amounts(after));
    event(number, at, cluster, data)
}

async fn used(store: &Store, query: &UsageQuery) -> Vec<UsedCluster> {
    store.used_clusters(query).await.expect("a page").items
}

fn names(used: &[UsedCluster]) -> Vec<&str> {
    used.iter().map(|used| used.cluster.name.as_str()).collect()
}

#[database_test]
async fn clusters_of_a_window_come_with_their_recipes_and_records(harness: Harness) {
    let store = &harness.store;
    for number in 1..=3 {
        harness.create(number).await;
    }
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.expect("a claim");
    let [first, second, _] = &claimed[..] else { panic!("three actions: {claimed:?}") };
    let [one, two] = [1, 2].map(harness::cluster);
    // Events in another order than they happened, and an event that only mentions amounts in a text.
    let mut spoken = Map::new();
    spoken.insert("reason".to_owned(), json!("\"requested\":{\"nodes\":7}"));
    let events = vec![
        resized(12, 4_000, &one, None, 5),
        resized(11, 3_000, &one, Some(1), 2),
        event(13, 3_500, &one, spoken),
    ];
    store.record(Record { events, ..record(first) }).await.expect("recorded");
    let deleted = Cluster { status: ClusterStatus::Deleted, deleted_at: Some(now(5_000)), ..two.clone() };
    let events = vec![resized(14, 5_000, &two, Some(3), 3)];
    store.record(Record { cluster: Some(deleted), events, ..record(second) }).await.expect("recorded");

    let all = UsageQuery {
        project: None,
        namespace: None,
        window: Window { since: now(0), until: now(10_000) },
        after: None,
        limit: 10,
    };
    let found = used(store, &all).await;
    assert_eq!(names(&found), ["c1", "c2", "c3"]);
    let expected = [
        AmountsRecord { at: now(3_000), before: Some(amounts(1)), after: amounts(2) },
        AmountsRecord { at: now(4_000), before: None, after: amounts(5) },
    ];
    assert_eq!(found[0].records, expected);
    assert_eq!(found[0].cluster.groups.len(), 1, "with its groups");
    // An implicit profile is deleted with its cluster.
    assert_eq!((found[0].profile.is_some(), found[1].profile.is_some()), (true, false));
    assert_eq!((found[1].records.len(), found[2].records.len()), (1, 0));

    let page = UsageQuery { limit: 2, ..all.clone() };
    assert_eq!(names(&used(store, &page).await), ["c1", "c2"]);
    let next = UsageQuery { after: Some(two.id), ..page };
    assert_eq!(names(&used(store, &next).await), ["c3"]);

    let window = |since, until| Window { since: now(since), until: now(until) };
    let later = UsageQuery { window: window(5_001, 10_000), ..all.clone() };
    assert_eq!(names(&used(store, &later).await), ["c1", "c3"], "c2 was deleted before");
    let early = UsageQuery { window: window(0, 3), ..all.clone() };
    assert_eq!(names(&used(store, &early).await), ["c1", "c2"], "c3 was created at the end");

    let elsewhere = |project: Option<&str>, namespace: Option<&str>| UsageQuery {
        project: project.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
        ..all.clone()
    };
    assert_eq!(used(store, &elsewhere(Some("demo"), Some("demo"))).await.len(), 3);
    assert!(used(store, &elsewhere(Some("other"), None)).await.is_empty());
    assert!(used(store, &elsewhere(None, Some("other"))).await.is_empty());
}

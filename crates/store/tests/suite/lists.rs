//! Lists and history.

use muster_core::action::{Action, ActionKind, ActionStatus, Cause, OnConflict};
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level, ObjectKind};
use muster_core::ids::{EventId, NodeId};
use muster_core::node::{Node, NodeStatus};
use muster_core::principal::Door;
use muster_core::sample;
use muster_store::commands::{ActionEnd, Purge, Record};
use muster_store::reads::{
    ActionQuery, ActionSort, ClusterQuery, ClusterSort, Deleted, EventQuery, EventSort, NodeQuery, NodeSort,
};
use muster_store::{Direction, Store};
use muster_testkit::database_test;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::harness::{self, Harness, Kind, claim, living, record, request};

/// More clusters than any test here creates.
const MOST: usize = 100;

/// Reads a list page by page; every page but the last is full.
async fn all_pages(store: &Store, mut query: ClusterQuery, size: u32) -> Vec<String> {
    let mut names = Vec::new();
    query.limit = Some(size);
    loop {
        let page = store.clusters(&query).await.expect("a page");
        names.extend(page.items.iter().map(|cluster| cluster.name.clone()));
        assert!(names.len() <= MOST, "the pages do not end: {names:?}");
        match page.next {
            Some(next) => {
                assert_eq!(page.items.len(), usize::try_from(size).expect("a small size"));
                query.after = Some(next);
            }
            None => return names,
        }
    }
}

#[database_test]
async fn pages_hold_every_cluster_once_in_any_order(harness: Harness) {
    for number in 1..=7 {
        harness.create(number).await;
    }
    let names: Vec<String> = (1..=7).map(|number| format!("c{number}")).collect();
    let reversed: Vec<String> = names.iter().rev().cloned().collect();
    for size in [1, 2, 3, 7, 100] {
        for sort in [ClusterSort::InitAt, ClusterSort::Name, ClusterSort::CreatedAt, ClusterSort::Framework] {
            let query = ClusterQuery { sort: vec![(sort, Direction::Ascending)], ..ClusterQuery::default() };
            assert_eq!(all_pages(&harness.store, query, size).await, names, "{sort:?} by {size}");
        }
        let query = ClusterQuery {
            sort: vec![(ClusterSort::Name, Direction::Descending)],
            ..ClusterQuery::default()
        };
        assert_eq!(all_pages(&harness.store, query, size).await, reversed);
    }
}

#[database_test]
async fn names_are_compared_bytewise(harness: Harness) {
    for (number, name) in [(1, "b"), (2, "B"), (3, "a-b"), (4, "a.b"), (5, "ä")] {
        let mut accept = harness::creation(number);
        accept.cluster.as_mut().unwrap().cluster.name = name.to_owned();
        harness.store.accept(accept).await.unwrap();
    }
    let query =
        ClusterQuery { sort: vec![(ClusterSort::Name, Direction::Ascending)], ..ClusterQuery::default() };
    assert_eq!(all_pages(&harness.store, query, 2).await, ["B", "a-b", "a.b", "b", "ä"]);
    let prefix = ClusterQuery { name_prefix: Some("a".to_owned()), ..ClusterQuery::default() };
    assert_eq!(harness.store.clusters(&prefix).await.unwrap().items.len(), 2);
}

#[database_test]
async fn a_total_is_counted_only_when_asked_or_known_anyway(harness: Harness) {
    for number in 1..=3 {
        harness.create(number).await;
    }
    let total = async |limit, with_total| {
        let query = ClusterQuery { limit, with_total, ..ClusterQuery::default() };
        harness.store.clusters(&query).await.unwrap().total
    };
    assert_eq!(total(Some(2), false).await, None);
    assert_eq!(total(Some(2), true).await, Some(3));
    assert_eq!(total(Some(3), false).await, Some(3));
    assert_eq!(total(None, false).await, Some(3));
    assert_eq!(total(Some(0), true).await, Some(3));
    let first = ClusterQuery { limit: Some(2), ..ClusterQuery::default() };
    let after = harness.store.clusters(&first).await.unwrap().next;
    let last = harness.store.clusters(&ClusterQuery { after, ..first }).await.unwrap();
    assert_eq!((last.items.len(), last.total), (1, Some(3)), "the last page");
}

#[database_test]
async fn nodes_actions_and_events_are_listed_by_what_is_asked(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let node = |index: u32, status| Node {
        id: NodeId::from_uuid(Uuid::from_u128(u128::from(index))),
        cluster_id: Some(harness::cluster(1).id),
        status,
        ..sample::node(index)
    };
    let mut writes = record(&claimed);
    writes.new_nodes =
        vec![node(2, NodeStatus::Active), node(1, NodeStatus::Error), node(3, NodeStatus::Active)];
    writes.events = vec![event(1, Level::Info), event(2, Level::Error)];
    store.record(writes).await.unwrap();
    let by_index = NodeQuery {
        cluster: Some(harness::cluster(1).id),
        sort: vec![(NodeSort::Index, Direction::Descending)],
        limit: Some(2),
        ..NodeQuery::default()
    };
    let page = store.nodes(&by_index).await.unwrap();
    assert_eq!(page.items.iter().map(|node| node.index).collect::<Vec<_>>(), [3, 2]);
    let rest = store.nodes(&NodeQuery { after: page.next, ..by_index }).await.unwrap();
    assert_eq!(rest.items.iter().map(|node| node.index).collect::<Vec<_>>(), [1]);
    let bad = NodeQuery { statuses: vec![NodeStatus::Error], ..NodeQuery::default() };
    assert_eq!(store.nodes(&bad).await.unwrap().items.len(), 1);
    let errors = EventQuery {
        levels: vec![Level::Error],
        sort: vec![(EventSort::At, Direction::Ascending)],
        ..EventQuery::default()
    };
    assert_eq!(store.events(&errors).await.unwrap().items, [event(2, Level::Error)]);
    let running = ActionQuery {
        statuses: vec![ActionStatus::Running],
        kinds: vec![ActionKind::ClusterCreate],
        top_level: true,
        sort: vec![(ActionSort::CreatedAt, Direction::Descending)],
        ..ActionQuery::default()
    };
    assert_eq!(store.actions(&running).await.unwrap().items.len(), 1);
    let other = ActionQuery { project: Some("other".to_owned()), ..running };
    assert_eq!(store.actions(&other).await.unwrap().items, []);
    let namespace = |name: &str| ActionQuery { namespace: Some(name.to_owned()), ..ActionQuery::default() };
    let place = harness::cluster(1).namespace;
    assert_eq!(store.actions(&namespace(&place)).await.unwrap().items.len(), 1);
    assert_eq!(store.actions(&namespace("nowhere")).await.unwrap().items, []);
}

#[database_test]
async fn actions_are_found_and_sorted_by_the_names_that_they_show(kind: Kind) {
    let Some(harness) = Harness::open(kind).await else { return };
    let store = &harness.store;
    let mut all = Vec::new();
    for (number, kind) in (1..).zip(ActionKind::ALL) {
        // A cluster for each kind, because a deletion would conflict with the other actions.
        all.push(harness.create(number).await);
        for (offset, inputs) in [(1_000, json!({})), (2_000, json!({"operation": "reboot"}))] {
            let mut accept = request(offset + number, *kind, harness::cluster(number).id, OnConflict::Queue);
            accept.action.inputs = inputs;
            all.push(store.accept(accept).await.unwrap().action);
        }
    }
    let mut names: Vec<String> = all.iter().map(Action::name).collect();
    assert!(names.iter().any(|name| name.starts_with("cluster_reboot_")), "{names:?}");
    for name in &names {
        let named = ActionQuery { names: vec![name.clone()], ..ActionQuery::default() };
        let found = store.actions(&named).await.unwrap().items;
        assert!(!found.is_empty() && found.iter().all(|action| action.name() == *name), "{name}: {found:?}");
    }
    names.sort_unstable();
    let by_name =
        ActionQuery { sort: vec![(ActionSort::Name, Direction::Ascending)], ..ActionQuery::default() };
    let sorted = store.actions(&by_name).await.unwrap().items;
    assert_eq!(sorted.iter().map(Action::name).collect::<Vec<_>>(), names);
}

pub(crate) fn event(number: u32, level: Level) -> Event {
    Event {
        id: EventId::from_uuid(Uuid::from_u128(u128::from(number))),
        at: harness::now(i64::from(number)),
        level,
        object_kind: ObjectKind::Cluster,
        object_id: harness::cluster(1).id.to_string(),
        object_name: "c1".to_owned(),
        cluster_id: Some(harness::cluster(1).id),
        action_id: None,
        reason: "Tested".to_owned(),
        phase: String::new(),
        message: "it happened".to_owned(),
        user: "ann".to_owned(),
        project: "demo".to_owned(),
        door: Door::Core,
        data: Map::new(),
    }
}

/// Ends a cluster's creation by deleting it.
pub(crate) async fn deleted(harness: &Harness, number: u128) {
    let engine = living(&harness.store, 100 + number).await;
    let claimed = harness.store.claim(claim(engine)).await.expect("a claim").remove(0);
    let mut writes = record(&claimed);
    writes.cluster = Some(Cluster { deleted_at: Some(harness::now(2_000)), ..harness::cluster(number) });
    writes.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    writes.events = vec![event(1, Level::Info)];
    harness.store.record(writes).await.expect("the deletion");
}

#[database_test]
async fn a_deleted_cluster_is_not_purged_while_an_action_collects_what_is_left_of_it(harness: Harness) {
    harness.create(1).await;
    deleted(&harness, 1).await;
    let id = harness::cluster(1).id;
    let mut collection = request(2, ActionKind::ClusterDelete, id, OnConflict::Queue);
    collection.action.cause = Cause::Healing;
    harness.store.accept(collection).await.unwrap();
    let before = harness::now(1_000_000);
    let purge = Purge { history_before: before, requests_before: before, limit: 100 };
    harness.store.purge(purge.clone()).await.unwrap();
    assert!(harness.store.cluster(id).await.unwrap().is_some(), "the action needs the row");
    let claimed = harness.store.claim(claim(living(&harness.store, 102).await)).await.unwrap().remove(0);
    let end = ActionEnd { status: ActionStatus::Succeeded, reason: String::new() };
    harness.store.record(Record { end: Some(end), ..record(&claimed) }).await.unwrap();
    harness.store.purge(purge).await.unwrap();
    assert!(harness.store.cluster(id).await.unwrap().is_none(), "and nothing else does");
}

#[database_test]
async fn history_stays_until_it_is_purged(harness: Harness) {
    harness.create(1).await;
    deleted(&harness, 1).await;
    let only = ClusterQuery { deleted: Deleted::Only, ..ClusterQuery::default() };
    assert_eq!(harness.store.clusters(&only).await.unwrap().items.len(), 1);
    assert_eq!(harness.store.clusters(&ClusterQuery::default()).await.unwrap().items, []);
    harness.create(2).await;
    let purge = |before| Purge {
        history_before: harness::now(before),
        requests_before: harness::now(before),
        limit: 100,
    };
    assert_eq!(harness.store.purge(purge(1)).await.unwrap().rows, 0, "too young");
    let purged = harness.store.purge(purge(1_000_000)).await.unwrap();
    assert_eq!(purged.rows, 3, "a cluster, an action, an event");
    assert_eq!(harness.store.clusters(&only).await.unwrap().items, []);
    assert_eq!(
        harness.store.clusters(&ClusterQuery::default()).await.unwrap().items.len(),
        1,
        "what lives stays"
    );
}

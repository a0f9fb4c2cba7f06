//! Claiming, locks, fences, take-over.

use crate::harness::{
    self, Harness, Kind, action_id, claim, creation, engine, living, record, registration, request, ticket,
};
use std::collections::HashSet;

use muster_core::action::{ActionKind, ActionStatus, OnConflict, Target};
use muster_core::cluster::ClusterStatus;
use muster_core::ids::{ClusterId, EngineId, InstanceId, NodeId};
use muster_core::time::TimeSpan;
use muster_store::commands::{Accept, ActionEnd, Claim, CountDeaths, Deregister, Heartbeat, Record, Requeue};
use muster_store::reads::ActionQuery;
use muster_store::{Store, StoreError};
use muster_testkit::database_test;
use uuid::Uuid;

fn succeeded() -> ActionEnd {
    ActionEnd { status: ActionStatus::Succeeded, reason: "done".to_owned() }
}

/// An engine, and a cluster whose creation it has ended.
async fn created(harness: &Harness) -> (EngineId, ClusterId) {
    let store = &harness.store;
    harness.create(1).await;
    let engine = living(store, 9).await;
    let created = store.claim(claim(engine)).await.expect("a claim").remove(0);
    store.record(Record { end: Some(succeeded()), ..record(&created) }).await.expect("an end");
    (engine, harness::cluster(1).id)
}

/// A request about a node of a cluster.
fn of_node(number: u128, kind: ActionKind, cluster: ClusterId, node: u128) -> Accept {
    let mut accept = request(number, kind, cluster, OnConflict::Queue);
    accept.action.target = Target::Node(NodeId::from_uuid(Uuid::from_u128(node)));
    accept
}

async fn claimed_ids(store: &Store, command: Claim) -> Vec<u128> {
    let claimed = store.claim(command).await.expect("a claim");
    claimed.iter().map(|claimed| claimed.action.id.as_uuid().as_u128()).collect()
}

#[database_test]
async fn a_claimed_action_shows_on_its_cluster_and_has_a_fence(harness: Harness) {
    let store = &harness.store;
    let first = harness.create(1).await;
    harness.create(2).await;
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.unwrap();
    assert_eq!(claimed.len(), 2);
    assert!(claimed[0].action.fence < claimed[1].action.fence, "fences rise");
    assert_eq!(store.action(first.id).await.unwrap().unwrap(), claimed[0].action);
    let cluster = store.cluster(harness::cluster(1).id).await.unwrap().unwrap();
    assert_eq!(cluster.status, ClusterStatus::Creating);
    for claimed in claimed {
        let subject = claimed.subject.expect("what it is about");
        assert_eq!(Some(subject.cluster.id), claimed.action.cluster_id);
        assert_eq!(store.cluster(subject.cluster.id).await.unwrap().as_ref(), Some(&subject.cluster));
        assert_eq!(store.profile(subject.cluster.profile_id).await.unwrap(), Some(subject.profile));
    }
}

#[database_test]
async fn one_action_has_a_cluster_at_a_time_oldest_first_deletion_before_all(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let cluster = harness::cluster(1).id;
    store.accept(request(2, ActionKind::ClusterResize, cluster, OnConflict::Queue)).await.unwrap();
    store.accept(request(3, ActionKind::ClusterDelete, cluster, OnConflict::Queue)).await.unwrap();
    store.accept(request(4, ActionKind::ClusterDelete, cluster, OnConflict::Queue)).await.unwrap();
    let engine = living(store, 9).await;
    let first = store.claim(claim(engine)).await.unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].action.id, action_id(3));
    assert!(store.claim(claim(engine)).await.unwrap().is_empty(), "the cluster is locked");
    store.record(Record { end: Some(succeeded()), ..record(&first[0]) }).await.unwrap();
    assert_eq!(claimed_ids(store, claim(engine)).await, [4]);
}

#[database_test]
async fn actions_of_two_nodes_share_a_cluster_that_no_other_action_then_gets(harness: Harness) {
    let store = &harness.store;
    let (engine, cluster) = created(&harness).await;
    let of_node = |number, node| of_node(number, ActionKind::NodeCheck, cluster, node);
    for accept in [of_node(2, 100), of_node(3, 101), of_node(4, 100)] {
        store.accept(accept).await.unwrap();
    }
    store.accept(request(5, ActionKind::ClusterCheck, cluster, OnConflict::Queue)).await.unwrap();
    let nodes = store.claim(claim(engine)).await.unwrap();
    let ids: Vec<_> = nodes.iter().map(|claimed| claimed.action.id).collect();
    assert_eq!(ids, [action_id(2), action_id(3)], "one action a node, none of the cluster");
    for claimed in &nodes {
        store.record(Record { end: Some(succeeded()), ..record(claimed) }).await.unwrap();
    }
    let next = claimed_ids(store, claim(engine)).await;
    assert_eq!(next.len(), 1, "a node's and the cluster's action at once: {next:?}");
}

#[database_test]
async fn an_action_of_a_cluster_is_not_starved_by_later_ones_of_its_nodes(harness: Harness) {
    let store = &harness.store;
    let (engine, cluster) = created(&harness).await;
    let of_node = |number, node| of_node(number, ActionKind::NodeCheck, cluster, node);
    store.accept(of_node(2, 100)).await.unwrap();
    let first = store.claim(claim(engine)).await.unwrap().remove(0);
    // The resize waits for the node's action, and no later action of a node overtakes it meanwhile.
    store.accept(request(3, ActionKind::ClusterResize, cluster, OnConflict::Queue)).await.unwrap();
    store.accept(of_node(4, 101)).await.unwrap();
    assert_eq!(claimed_ids(store, claim(engine)).await, [0_u128; 0]);
    store.record(Record { end: Some(succeeded()), ..record(&first) }).await.unwrap();
    assert_eq!(claimed_ids(store, claim(engine)).await, [3]);
}

#[database_test]
async fn actions_that_cannot_get_their_lock_hide_no_others(harness: Harness) {
    let store = &harness.store;
    for number in [1, 2] {
        harness.create(number).await;
    }
    let engine = living(store, 9).await;
    for created in store.claim(claim(engine)).await.unwrap() {
        store.record(Record { end: Some(succeeded()), ..record(&created) }).await.unwrap();
    }
    // Each locks the first cluster alone, so that only one can run; together they fill the limit.
    for number in 3..7_u128 {
        let delete = of_node(number, ActionKind::NodeDelete, harness::cluster(1).id, 100 + number);
        store.accept(delete).await.unwrap();
    }
    store
        .accept(request(7, ActionKind::ClusterResize, harness::cluster(2).id, OnConflict::Queue))
        .await
        .unwrap();
    let claimed = claimed_ids(store, Claim { limit: 4, ..claim(engine) }).await;
    assert_eq!(claimed, [3, 7]);
}

#[database_test]
async fn one_project_does_not_take_all_slots(harness: Harness) {
    let store = &harness.store;
    for number in 1..=6 {
        harness.create(number).await;
    }
    let mut other = creation(7);
    other.action.principal.project = "other".to_owned();
    other.cluster.as_mut().unwrap().cluster.project = "other".to_owned();
    store.accept(other).await.unwrap();
    let engine = living(store, 9).await;
    let claimed = claimed_ids(store, Claim { limit: 2, ..claim(engine) }).await;
    assert_eq!(claimed.len(), 2);
    assert!(claimed.contains(&7), "{claimed:?}");
    let rest = claimed_ids(store, Claim { limit: 9, ..claim(engine) }).await;
    assert_eq!(rest.len(), 5, "what is left over goes to who has work");
}

#[database_test]
async fn a_project_whose_actions_wait_for_locks_leaves_its_share_to_others(harness: Harness) {
    let store = &harness.store;
    let of_other = |mut accept: Accept| {
        accept.action.principal.project = "other".to_owned();
        if let Some(new) = &mut accept.cluster {
            new.cluster.project = "other".to_owned();
        }
        accept
    };
    store.accept(of_other(creation(1))).await.unwrap();
    // Another engine runs the creation, so that the claiming engine runs none of that project.
    let busy = living(store, 8).await;
    assert_eq!(claimed_ids(store, claim(busy)).await, [1]);
    let queued = request(2, ActionKind::ClusterCheck, harness::cluster(1).id, OnConflict::Queue);
    store.accept(of_other(queued)).await.unwrap();
    for number in 3..=8 {
        harness.create(number).await;
    }
    let engine = living(store, 9).await;
    assert_eq!(claimed_ids(store, Claim { limit: 3, ..claim(engine) }).await.len(), 3);
    let rest = claimed_ids(store, Claim { limit: 3, ..claim(engine) }).await;
    assert_eq!(rest.len(), 3, "the other project has the fewest, and cannot use what it is given");
}

#[database_test]
async fn only_known_kinds_versions_and_instances_are_claimed(harness: Harness) {
    let store = &harness.store;
    let mut newer = creation(1);
    newer.action.version = 2;
    store.accept(newer).await.unwrap();
    let engine = living(store, 9).await;
    assert!(store.claim(claim(engine)).await.unwrap().is_empty(), "a newer version");
    let elsewhere = Claim { instances: vec![InstanceId::new("local", "other")], ..claim(engine) };
    harness.create(2).await;
    assert!(store.claim(elsewhere).await.unwrap().is_empty(), "another instance");
    let kinds = Claim { kinds: vec![(ActionKind::ClusterDelete, 1)], ..claim(engine) };
    assert!(store.claim(kinds).await.unwrap().is_empty(), "another kind");
    assert_eq!(claimed_ids(store, claim(engine)).await, [2]);
}

#[database_test]
async fn a_dead_engines_action_is_taken_over_and_the_dead_cannot_write(kind: Kind) {
    let Some(harness) = Harness::open(kind).await else { return };
    let store = &harness.store;
    harness.create(1).await;
    let dead = engine(8);
    store.register(registration(dead, TimeSpan::from_secs(3600))).await.unwrap();
    let before = store.claim(claim(dead)).await.unwrap().remove(0);
    let heir = living(store, 9).await;
    if kind == Kind::Postgres {
        assert!(store.claim(claim(heir)).await.unwrap().is_empty(), "its lease still holds");
    }
    store.deregister(Deregister { engine: dead }).await.unwrap();
    assert!(store.claim(claim(dead)).await.unwrap().is_empty(), "the dead took it over");
    // A dead engine's row is kept until its actions are taken over.
    let alive = Heartbeat { engine: heir, lease: TimeSpan::from_secs(3600) };
    assert!(store.heartbeat(alive).await.unwrap().renewed);
    let after = store.claim(claim(heir)).await.unwrap().remove(0);
    assert!(after.taken_over);
    assert!(after.action.fence > before.action.fence);
    assert_eq!(after.action.started_at, before.action.started_at);
    let late = store.record(Record { end: Some(succeeded()), ..record(&before) }).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    store.record(Record { end: Some(succeeded()), ..record(&after) }).await.unwrap();
    let again = store.record(record(&after)).await;
    assert!(matches!(again, Err(StoreError::Fenced(_))), "an ended action was written: {again:?}");
}

#[database_test]
async fn a_requeued_action_keeps_its_lock_until_it_is_due(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let cluster = harness::cluster(1).id;
    store.accept(request(2, ActionKind::ClusterDelete, cluster, OnConflict::Queue)).await.unwrap();
    let engine = living(store, 9).await;
    let kinds = vec![(ActionKind::ClusterCreate, 1)];
    let mine = store.claim(Claim { kinds, ..claim(engine) }).await;
    assert!(mine.unwrap().is_empty(), "the deletion goes first");
    let deletion = store.claim(claim(engine)).await.unwrap().remove(0);
    let others = harness::cluster(2).id;
    assert_eq!(store.held(&[cluster, others]).await.unwrap(), HashSet::from([cluster]));
    assert!(store.held(&[others]).await.unwrap().is_empty());
    let back = Requeue {
        ticket: ticket(&deletion),
        not_before: Some(harness::now(5_000)),
        suspend: false,
        count: true,
        reason: "later".to_owned(),
        above: None,
        now: harness::now(2_000),
    };
    store.requeue(back).await.unwrap();
    assert!(store.claim(claim(engine)).await.unwrap().is_empty(), "too early, and still locked");
    let later = store.claim(Claim { now: harness::now(5_000), ..claim(engine) }).await.unwrap();
    assert_eq!((later[0].action.id, later[0].action.tries), (action_id(2), 1));
}

#[tokio::test]
async fn two_replicas_never_claim_the_same_action() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    for number in 1..=40 {
        harness.create(number).await;
    }
    let (here, there) = (living(&harness.store, 90).await, living(&other, 91).await);
    let drain = async |store: &Store, engine| {
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.extend(claimed_ids(store, Claim { limit: 3, ..claim(engine) }).await);
        }
        ids
    };
    let (mine, theirs) = tokio::join!(drain(&harness.store, here), drain(&other, there));
    let mut all = [mine, theirs].concat();
    all.sort_unstable();
    assert_eq!(all, (1..=40).collect::<Vec<u128>>());
}

#[database_test]
async fn deaths_of_engines_are_counted_until_the_action_commits_something(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    for number in 1..=4 {
        let engine = living(store, number).await;
        let taken = store.claim(claim(engine)).await.unwrap().remove(0);
        assert_eq!(u128::from(taken.deaths), number - 1, "the first has no predecessor");
        if number == 4 {
            store.record(record(&taken)).await.unwrap();
        }
        store.deregister(Deregister { engine }).await.unwrap();
    }
    let taken = store.claim(claim(living(store, 5).await)).await.unwrap().remove(0);
    assert_eq!(taken.deaths, 1, "its predecessor made progress, and died");
}

#[database_test]
async fn deaths_can_be_counted_otherwise_by_the_engine_that_has_the_action(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let taken = store.claim(claim(living(store, 1).await)).await.unwrap().remove(0);
    let count = CountDeaths { ticket: ticket(&taken), deaths: 3 };
    store.count_deaths(count.clone()).await.unwrap();
    store.deregister(Deregister { engine: engine(1) }).await.unwrap();
    let next = store.claim(claim(living(store, 2).await)).await.unwrap().remove(0);
    assert_eq!(next.deaths, 4);
    assert!(store.count_deaths(count).await.is_err(), "another engine has it");
}

#[database_test]
async fn an_action_whose_row_cannot_be_read_is_deferred_and_the_others_are_claimed(harness: Harness) {
    let store = &harness.store;
    let broken = harness.create(1).await.id;
    harness.execute(&format!("UPDATE actions SET principal = 'x' WHERE id = '{broken}'")).await;
    let whole = harness.create(2).await;
    let engine = living(store, 9).await;
    assert_eq!(claimed_ids(store, claim(engine)).await, [2]);
    let listed = store.actions(&ActionQuery::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|action| action.id).collect::<Vec<_>>(), [whole.id]);
    let principal = format!("(SELECT principal FROM actions WHERE id = '{}')", whole.id);
    harness.execute(&format!("UPDATE actions SET principal = {principal} WHERE id = '{broken}'")).await;
    let row = store.action(broken).await.unwrap().unwrap();
    assert!(row.status_reason.contains("cannot be read"), "{}", row.status_reason);
    assert!(row.not_before.is_some(), "it is left alone for a while");
    assert_eq!(claimed_ids(store, claim(engine)).await, [0_u128; 0], "not before that");
}

#[database_test]
async fn a_heartbeat_is_refused_once_the_database_needs_a_newer_version(harness: Harness) {
    let store = &harness.store;
    let engine = living(store, 9).await;
    let renew = Heartbeat { engine, lease: TimeSpan::from_secs(3600) };
    assert!(store.heartbeat(renew.clone()).await.unwrap().renewed);
    harness.execute(&format!("UPDATE muster SET min_reader = {}", muster_store::SCHEMA_VERSION + 1)).await;
    let refused = store.heartbeat(renew).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { .. }), "{refused}");
    let refused =
        store.register(registration(harness::engine(10), TimeSpan::from_secs(60))).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { .. }), "{refused}");
}

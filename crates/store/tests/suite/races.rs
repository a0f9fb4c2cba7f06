//! Concurrent commands about the same object.

use muster_core::action::{ActionKind, ActionStatus, Control, OnConflict};
use muster_core::cluster::ClusterStatus;
use muster_core::node::Node;
use muster_core::sample;
use muster_store::commands::{
    Accept, Accepted, ActionEnd, DeleteProfile, InsertProfile, Record, RequestKey, Signal, SignalKind,
};
use muster_store::{Store, StoreError};
use muster_testkit::database_test;

use crate::harness::{self, Harness, Kind, claim, creation, living, record, request};

fn key(name: &str) -> RequestKey {
    RequestKey { principal: "sample/ann".into(), request_id: name.into(), digest: "x".into() }
}

#[database_test]
async fn one_request_sent_many_times_at_once_is_done_once_and_answered_alike(harness: Harness) {
    let other = harness.replica().await.unwrap_or_else(|| harness.store.clone());
    let key = key("r1");
    let send = |number: u128, store: Store| {
        let mut accept = Accept { request: Some(key.clone()), ..creation(number) };
        accept.cluster.as_mut().expect("a cluster").cluster.name = "same".to_owned();
        async move { store.accept(accept).await.expect("an answer").action.id }
    };
    let sent = (1..=12)
        .map(|number| send(number, if number % 2 == 0 { other.clone() } else { harness.store.clone() }));
    let answers = futures::future::join_all(sent).await;
    assert!(answers.iter().all(|id| *id == answers[0]), "{answers:?}");
}

#[database_test]
async fn a_deletion_joins_the_one_that_is_under_way(harness: Harness) {
    harness.create(1).await;
    let delete =
        |number| request(number, ActionKind::ClusterDelete, harness::cluster(1).id, OnConflict::Preempt);
    let first = harness.store.accept(delete(2)).await.unwrap();
    let named = || Accept { request: Some(key("again")), ..delete(3) };
    let second = harness.store.accept(named()).await.unwrap();
    assert!(second.replayed);
    assert_eq!(second.action.id, first.action.id);
    let third = harness.store.accept(named()).await.unwrap();
    assert_eq!(third.action.id, first.action.id, "the request's name stands for what it joined");
    assert_eq!(harness.store.action(first.action.id).await.unwrap().unwrap().status, ActionStatus::Ready);
}

#[tokio::test]
async fn preempting_from_another_replica_while_the_holder_writes_never_deadlocks() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    let engine = living(&harness.store, 99).await;
    for number in (1..40).step_by(2) {
        harness.create(number).await;
        let claimed = harness.store.claim(claim(engine)).await.unwrap().remove(0);
        let mut writes = record(&claimed);
        writes.cluster = Some(harness::cluster(number));
        let delete =
            request(number + 1, ActionKind::ClusterDelete, harness::cluster(number).id, OnConflict::Preempt);
        let (written, accepted) = tokio::join!(harness.store.record(writes), other.accept(delete));
        written.unwrap();
        accepted.unwrap();
    }
    assert_eq!(harness.deadlocks().await, 0);
}

/// Suspends the action like its engine, and commits once another transaction waits for the lock.
const SUSPEND: &str = "UPDATE actions SET status = 'SUSPENDED' WHERE ended_at IS NULL; \
    DO $$ BEGIN FOR i IN 1..1000 LOOP \
        EXIT WHEN EXISTS (SELECT 1 FROM pg_stat_activity \
            WHERE datname = current_database() AND wait_event_type = 'Lock'); \
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); \
    END LOOP; END $$";

#[tokio::test]
async fn a_deletion_frees_what_is_suspended_at_the_same_moment() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let store = &harness.store;
    let create = harness.create(1).await;
    let engine = living(store, 9).await;
    store.claim(claim(engine)).await.unwrap();
    let suspend =
        Signal { id: create.id, kind: SignalKind::Suspend, now: harness::now(2_000), request: None };
    store.signal(suspend).await.unwrap();
    let delete = async {
        harness.until_a_session_sleeps().await;
        let id = harness::cluster(1).id;
        store.accept(request(2, ActionKind::ClusterDelete, id, OnConflict::Preempt)).await
    };
    let (_, accepted) = futures::join!(harness.psql(SUSPEND), delete);
    accepted.unwrap();
    let row = store.action(create.id).await.unwrap().unwrap();
    assert_eq!(
        (row.status, row.control),
        (ActionStatus::Ready, Some(Control::Cancel)),
        "it is claimed again, to end"
    );
}

#[database_test]
async fn a_creation_that_is_cancelled_before_it_began_leaves_no_cluster_that_waits_for_it(harness: Harness) {
    let create = harness.create(1).await;
    let cancel = Signal { id: create.id, kind: SignalKind::Cancel, now: harness::now(2_000), request: None };
    let cancelled = harness.store.signal(cancel).await.unwrap();
    assert_eq!(cancelled.status, ActionStatus::Cancelled);
    let cluster = harness.store.cluster(harness::cluster(1).id).await.unwrap().unwrap();
    assert_eq!(
        (cluster.status, cluster.status_reason.as_str()),
        (ClusterStatus::Error, "its creation was cancelled before it began: recover or delete it")
    );
}

#[database_test]
async fn what_a_workload_prints_can_always_be_stored(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let mut writes = record(&claimed);
    let cluster_id = Some(harness::cluster(1).id);
    writes.new_nodes = vec![Node { cluster_id, status_reason: "a\0b".to_owned(), ..sample::node(1) }];
    store.record(writes).await.unwrap();
    let stored = store.members(harness::cluster(1).id).await.unwrap();
    assert_eq!(stored[0].status_reason, "a\u{fffd}b");
    let end = Some(ActionEnd { status: ActionStatus::Failed, reason: "c\0d".to_owned() });
    store.record(Record { end, ..record(&claimed) }).await.unwrap();
    let ended = store.action(claimed.action.id).await.unwrap().unwrap();
    assert_eq!((ended.status, ended.status_reason.as_str()), (ActionStatus::Failed, "c\u{fffd}d"));
}

/// The creation of a cluster from a profile that is stored already.
async fn creation_from_a_profile(store: &Store, number: u128) -> (Accept, DeleteProfile) {
    let mut accept = creation(number);
    let new = accept.cluster.as_mut().expect("a cluster");
    let profile = new.profile.take().expect("a profile");
    let id = profile.id;
    store.insert_profile(InsertProfile { profile, events: Vec::new() }).await.expect("a profile is stored");
    (accept, DeleteProfile { id, events: Vec::new() })
}

/// Checks that exactly one of the two succeeded: a cluster without its profile could not even be deleted.
async fn assert_one_won(
    store: &Store,
    number: u128,
    accepted: Result<Accepted, StoreError>,
    deleted: Result<bool, StoreError>,
) {
    let profile = store.profile(harness::cluster(number).profile_id).await.expect("an answer");
    let cluster = store.cluster(harness::cluster(number).id).await.expect("an answer");
    match (accepted, deleted) {
        (Ok(_), Ok(false)) => assert!(cluster.is_some() && profile.is_some()),
        (Err(StoreError::NotFound { kind: "profile", .. }), Ok(true)) => {
            assert!(cluster.is_none() && profile.is_none());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_profile_is_deleted_or_used_but_never_both() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    for number in 1..=20 {
        let (accept, delete) = creation_from_a_profile(&harness.store, number).await;
        let (accepted, deleted) = futures::join!(harness.store.accept(accept), other.delete_profile(delete));
        assert_one_won(&other, number, accepted, deleted).await;
    }
    assert_eq!(harness.deadlocks().await, 0);
}

#[tokio::test]
async fn a_profile_of_which_a_cluster_is_being_accepted_stays() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    let (accept, delete) = creation_from_a_profile(&harness.store, 1).await;
    let held = harness.hold("INSERT ON clusters", "true").await;
    let delete = async {
        harness.until_a_session_waits("advisory").await;
        other.delete_profile(delete).await
    };
    let release = harness.release_once_another_waits(held);
    let (accepted, deleted, ()) = futures::join!(harness.store.accept(accept), delete, release);
    assert!(accepted.is_ok(), "{accepted:?}");
    assert_one_won(&other, 1, accepted, deleted).await;
}

#[tokio::test]
async fn a_profile_that_is_being_deleted_makes_no_cluster() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    let (accept, delete) = creation_from_a_profile(&harness.store, 1).await;
    let held = harness.hold("DELETE ON profiles", "true").await;
    let accept = async {
        harness.until_a_session_waits("advisory").await;
        harness.store.accept(accept).await
    };
    let release = harness.release_once_another_waits(held);
    let (deleted, accepted, ()) = futures::join!(other.delete_profile(delete), accept, release);
    assert!(matches!(deleted, Ok(true)), "{deleted:?}");
    assert_one_won(&other, 1, accepted, deleted).await;
}

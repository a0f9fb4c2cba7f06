//! Clusters with limits: reads, the recorded expiry states, and the deletion of clusters that are still unused.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, EngineId, InstanceId};
use muster_core::limits::{ExpiryState, Limits};
use muster_core::sample;
use muster_core::time::TimeSpan;
use muster_store::commands::{ActionEnd, Expire, Expired, NewCluster, RecordExpiryState, TakeDuty};
use muster_testkit::database_test;

use crate::harness::{self, Harness, claim, creation, living, now, record, request};

const DUTY: &str = "limits";

fn limits() -> Limits {
    Limits { idle_timeout: Some(TimeSpan::from_secs(5)), max_lifetime: None }
}

/// Stores a cluster with these limits that the engine created and that last changed at 2000.
async fn created(harness: &Harness, engine: EngineId, number: u128, limits: Limits) -> Cluster {
    let mut accept = creation(number);
    let new = accept.cluster.take().expect("a cluster");
    accept.cluster = Some(NewCluster { cluster: Cluster { limits, ..new.cluster.clone() }, ..new });
    Box::pin(harness.store.accept(accept)).await.expect("a new cluster");
    let claimed = harness.store.claim(claim(engine)).await.expect("a claim").remove(0);
    let mut end = record(&claimed);
    let cluster = stored(harness, number).await;
    end.cluster = Some(Cluster { updated_at: Some(now(2_000)), ..cluster });
    end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    Box::pin(harness.store.record(end)).await.expect("an end");
    stored(harness, number).await
}

async fn stored(harness: &Harness, number: u128) -> Cluster {
    let found = harness.store.cluster(harness::cluster(number).id).await;
    found.expect("the store answers").expect("a cluster")
}

async fn take_duty(harness: &Harness, engine: EngineId) {
    let taken = harness.store.take_duty(TakeDuty { name: DUTY.into(), engine }).await;
    assert!(taken.expect("the store answers"));
}

fn expire(cluster: &Cluster, number: u128, engine: EngineId) -> Expire {
    Expire {
        duty: DUTY.into(),
        engine,
        cluster: cluster.id,
        limits: cluster.limits,
        unused: Some(cluster.updated_at),
        accept: request(number, ActionKind::ClusterDelete, cluster.id, OnConflict::Preempt),
    }
}

#[database_test]
async fn those_with_a_limit_are_found_with_their_recipes(harness: Harness) {
    let engine = living(&harness.store, 9).await;
    let lifetime = Limits { idle_timeout: None, max_lifetime: Some(TimeSpan::from_secs(7)) };
    for (number, limits) in [(1, limits()), (2, Limits::default()), (3, lifetime)] {
        let stored = created(&harness, engine, number, limits).await;
        assert_eq!(stored.limits, limits, "they are kept");
    }
    let ids = [1, 2, 3].map(|number| harness::cluster(number).id);
    let found = harness.store.limited(&sample::instance()).await.unwrap();
    assert_eq!(found, [ids[0], ids[2]]);
    let among = harness.store.limited_among(&sample::instance(), &ids[..2]).await.unwrap();
    let among: Vec<(ClusterId, bool)> =
        among.iter().map(|(cluster, profile)| (cluster.id, profile.id == cluster.profile_id)).collect();
    assert_eq!(among, [(ids[0], true)]);
    let elsewhere = InstanceId::new("elsewhere", "1");
    assert!(harness.store.limited(&elsewhere).await.unwrap().is_empty());
    assert!(harness.store.limited_among(&elsewhere, &ids).await.unwrap().is_empty());
}

#[database_test]
async fn what_is_noted_is_not_lost_by_a_change_of_the_cluster(harness: Harness) {
    let engine = living(&harness.store, 9).await;
    let cluster = created(&harness, engine, 1, limits()).await;
    let expiry_state = ExpiryState {
        idle_since: Some(now(5)),
        idle_warned_at: Some(now(6)),
        lifetime_warned_at: Some(now(7)),
    };
    let note = |engine| RecordExpiryState {
        duty: DUTY.into(),
        engine,
        states: vec![(cluster.id, expiry_state)],
        events: Vec::new(),
    };
    assert!(!harness.store.record_expiry_state(note(engine)).await.unwrap(), "no engine has the duty yet");
    take_duty(&harness, engine).await;
    assert!(harness.store.record_expiry_state(note(engine)).await.unwrap());
    harness.store.accept(request(5, ActionKind::ClusterUpdate, cluster.id, OnConflict::Queue)).await.unwrap();
    let claimed = harness.store.claim(claim(engine)).await.unwrap().remove(0);
    let mut update = record(&claimed);
    update.cluster = Some(Cluster { limits: Limits::default(), ..cluster.clone() });
    harness.store.record(update).await.unwrap();
    let row = harness.store.cluster(cluster.id).await.unwrap().unwrap();
    assert_eq!((row.expiry_state, row.limits), (expiry_state, Limits::default()));
}

#[database_test]
async fn one_is_ended_only_if_it_was_left_alone_since_it_was_looked_at(harness: Harness) {
    let engine = living(&harness.store, 9).await;
    let cluster = created(&harness, engine, 1, limits()).await;
    let store = &harness.store;
    let not_ours = store.expire(expire(&cluster, 20, engine)).await.unwrap();
    assert!(matches!(not_ours, Expired::NotOurs), "{not_ours:?}");
    take_duty(&harness, engine).await;
    let spared = async |looked_at: &Cluster, why: &str| {
        let expired = store.expire(expire(looked_at, 21, engine)).await.unwrap();
        assert!(matches!(expired, Expired::Spared), "{why}: {expired:?}");
    };
    spared(&Cluster { updated_at: Some(now(1)), ..cluster.clone() }, "it has changed since").await;
    spared(&Cluster { limits: Limits::default(), ..cluster.clone() }, "its limits are others").await;
    let update = request(22, ActionKind::ClusterUpdate, cluster.id, OnConflict::Queue);
    store.accept(update).await.unwrap();
    spared(&cluster, "an action is about to change it").await;
    let lifetime = Expire { unused: None, ..expire(&cluster, 23, engine) };
    let Expired::Deleting(action) = store.expire(lifetime).await.unwrap() else { panic!("it is ended") };
    assert_eq!(action.id, harness::action_id(23));
    let waiting = store.action(harness::action_id(22)).await.unwrap().unwrap();
    assert_eq!(waiting.status, ActionStatus::Cancelled, "it would have found nothing");
    let again = Expire { unused: None, ..expire(&cluster, 24, engine) };
    let Expired::Deleting(joined) = store.expire(again).await.unwrap() else { panic!("it is being ended") };
    assert_eq!(joined.id, action.id, "once");
}

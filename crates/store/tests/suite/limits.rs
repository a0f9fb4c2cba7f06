//! Clusters with limits: they are found, what is noted of them stays, and only what is still unused is ended.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, EngineId, InstanceId};
use muster_core::limits::{Limits, Watched};
use muster_core::sample;
use muster_core::time::Span;
use muster_store::commands::{End, Expire, Expired, NewCluster, NoteWatched, TakeDuty};
use rstest::rstest;

use crate::fixture::{self, Fixture, Kind, claim, creation, living, now, record, request};

const DUTY: &str = "limits";

fn limits() -> Limits {
    Limits { idle_timeout: Some(Span::from_secs(5)), max_lifetime: None }
}

/// Stores a cluster with limits, or without, that this engine created and that last changed at 2000.
async fn created(world: &Fixture, engine: EngineId, number: u128, limits: Limits) -> Cluster {
    let mut accept = creation(number);
    let new = accept.cluster.take().expect("a cluster");
    accept.cluster = Some(NewCluster { cluster: Cluster { limits, ..new.cluster.clone() }, ..new });
    Box::pin(world.store.accept(accept)).await.expect("a new cluster");
    let claimed = world.store.claim(claim(engine)).await.expect("a claim").remove(0);
    let mut end = record(&claimed);
    let cluster = stored(world, number).await;
    end.cluster = Some(Cluster { updated_at: Some(now(2_000)), ..cluster });
    end.end = Some(End { status: ActionStatus::Succeeded, reason: String::new() });
    Box::pin(world.store.record(end)).await.expect("an end");
    stored(world, number).await
}

async fn stored(world: &Fixture, number: u128) -> Cluster {
    let found = world.store.cluster(fixture::cluster(number).id).await;
    found.expect("the store answers").expect("a cluster")
}

async fn take_duty(world: &Fixture, engine: EngineId) {
    let taken = world.store.take_duty(TakeDuty { name: DUTY.into(), engine }).await;
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

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn those_with_a_limit_are_found_with_their_recipes(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let engine = living(&world.store, 9).await;
    let lifetime = Limits { idle_timeout: None, max_lifetime: Some(Span::from_secs(7)) };
    for (number, limits) in [(1, limits()), (2, Limits::default()), (3, lifetime)] {
        let stored = created(&world, engine, number, limits).await;
        assert_eq!(stored.limits, limits, "they are kept");
    }
    let ids = [1, 2, 3].map(|number| fixture::cluster(number).id);
    let found = world.store.limited(&sample::instance()).await.unwrap();
    assert_eq!(found, [ids[0], ids[2]]);
    let among = world.store.limited_among(&sample::instance(), &ids[..2]).await.unwrap();
    let among: Vec<(ClusterId, bool)> =
        among.iter().map(|(cluster, profile)| (cluster.id, profile.id == cluster.profile_id)).collect();
    assert_eq!(among, [(ids[0], true)]);
    let elsewhere = InstanceId::new("elsewhere", "1");
    assert!(world.store.limited(&elsewhere).await.unwrap().is_empty());
    assert!(world.store.limited_among(&elsewhere, &ids).await.unwrap().is_empty());
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_is_noted_is_not_lost_by_a_change_of_the_cluster(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let engine = living(&world.store, 9).await;
    let cluster = created(&world, engine, 1, limits()).await;
    let watched =
        Watched { idle_since: Some(now(5)), idle_warned_at: Some(now(6)), lifetime_warned_at: Some(now(7)) };
    let note = |engine| NoteWatched {
        duty: DUTY.into(),
        engine,
        notes: vec![(cluster.id, watched)],
        events: Vec::new(),
    };
    assert!(!world.store.note_watched(note(engine)).await.unwrap(), "the duty is nobody's yet");
    take_duty(&world, engine).await;
    assert!(world.store.note_watched(note(engine)).await.unwrap());
    world.store.accept(request(5, ActionKind::ClusterUpdate, cluster.id, OnConflict::Queue)).await.unwrap();
    let claimed = world.store.claim(claim(engine)).await.unwrap().remove(0);
    let mut update = record(&claimed);
    update.cluster = Some(Cluster { limits: Limits::default(), ..cluster.clone() });
    world.store.record(update).await.unwrap();
    let row = world.store.cluster(cluster.id).await.unwrap().unwrap();
    assert_eq!((row.watched, row.limits), (watched, Limits::default()));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn one_is_ended_only_if_it_was_left_alone_since_it_was_looked_at(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let engine = living(&world.store, 9).await;
    let cluster = created(&world, engine, 1, limits()).await;
    let store = &world.store;
    let not_ours = store.expire(expire(&cluster, 20, engine)).await.unwrap();
    assert!(matches!(not_ours, Expired::NotOurs), "{not_ours:?}");
    take_duty(&world, engine).await;
    let spared = async |looked_at: &Cluster, why: &str| {
        let expired = store.expire(expire(looked_at, 21, engine)).await.unwrap();
        assert!(matches!(expired, Expired::Spared), "{why}: {expired:?}");
    };
    spared(&Cluster { updated_at: Some(now(1)), ..cluster.clone() }, "it has changed since").await;
    spared(&Cluster { limits: Limits::default(), ..cluster.clone() }, "its limits are others").await;
    let update = request(22, ActionKind::ClusterUpdate, cluster.id, OnConflict::Queue);
    store.accept(update).await.unwrap();
    spared(&cluster, "somebody is about to change it").await;
    let lifetime = Expire { unused: None, ..expire(&cluster, 23, engine) };
    let Expired::Deleting(action) = store.expire(lifetime).await.unwrap() else { panic!("it is ended") };
    assert_eq!(action.id, fixture::action_id(23));
    let waiting = store.action(fixture::action_id(22)).await.unwrap().unwrap();
    assert_eq!(waiting.status, ActionStatus::Cancelled, "it would have found nothing");
    let again = Expire { unused: None, ..expire(&cluster, 24, engine) };
    let Expired::Deleting(joined) = store.expire(again).await.unwrap() else { panic!("it is being ended") };
    assert_eq!(joined.id, action.id, "once");
}

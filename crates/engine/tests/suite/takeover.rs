//! Engines that stop, die, or sleep too long.

use std::collections::BTreeSet;

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::time::Span;
use muster_engine::Config;
use muster_testkit::eventually;
use muster_testkit::fake::Verb;
use rstest::rstest;

use crate::fixture::{self, Fixture, Kind, exactly};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_that_stops_hands_its_action_over(#[case] kind: Kind) {
    let Some(mut world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    world.applied(resize).await;
    let first = world.engine.clone();
    first.stop().await;
    assert_eq!(world.action(resize).await.status, ActionStatus::Ready);
    world.world.release();
    world.engine = fixture::engine(world.store().clone(), &world.world).await;
    assert_ne!(world.engine.id(), first.id());
    assert_eq!(world.ended(resize).await.status, ActionStatus::Succeeded);
    world.assert_agreement(cluster.id).await;
    assert_eq!(world.world.running().len(), 5);
    assert_eq!(world.cluster(cluster.id).await.desired(), 5);
}

#[tokio::test]
async fn a_dead_replicas_action_is_finished_by_another_once_its_lease_is_over() {
    let Some(mut world) = Fixture::open(Kind::Postgres).await else { return };
    world.engine.stop().await;
    // Its heartbeat never comes: to the others it is dead after a second.
    let config = Config { lease: Span::from_secs(1), heartbeat: Span::from_secs(3600), ..Config::default() };
    let dying = fixture::engine_with(world.fresh.replica().await.unwrap(), &world.world, config).await;
    world.engine = dying.clone();
    let cluster = fixture::cluster(muster_testkit::fake::FAKE_NODE, 4);
    world.world.hold(Verb::Start);
    let create = world.create(&cluster).await;
    world.world.begun(Verb::Start, 4).await;
    let config = Config { safety_period: Span::from_millis(100), ..Config::default() };
    world.engine = fixture::engine_with(world.store().clone(), &world.world, config).await;
    world.world.begun(Verb::Start, 8).await;
    world.world.release();
    let action = world.ended(create).await;
    assert_eq!((action.status, action.owner), (ActionStatus::Succeeded, Some(world.engine.id())));
    assert_eq!(world.world.running().len(), 4, "a node was made twice");
    world.assert_agreement(cluster.id).await;
    let fences: BTreeSet<_> = world.world.log().iter().map(|entry| entry.fence).collect();
    assert!(fences.contains(&action.fence) && fences.len() == 2, "{fences:?}");
}

#[tokio::test]
async fn two_replicas_execute_every_action_once() {
    let one_slot = Config { parallel_actions: 1, ..Config::default() };
    let Some(world) = Fixture::open_config(Kind::Postgres, one_slot.clone()).await else { return };
    let other = fixture::engine_with(world.fresh.replica().await.unwrap(), &world.world, one_slot).await;
    world.world.hold(Verb::Create);
    let clusters: Vec<_> = (0..20).map(|_| fixture::cluster(muster_testkit::fake::FAKE_NODE, 3)).collect();
    let actions = futures::future::join_all(clusters.iter().map(|cluster| world.create(cluster))).await;
    // Each has one slot, so two calls at the same time are those of two engines.
    world.world.begun(Verb::Create, 2).await;
    world.world.release();
    let mut owners = BTreeSet::new();
    for action in actions {
        let action = world.ended(action).await;
        assert_eq!(action.status, ActionStatus::Succeeded);
        owners.extend(action.owner);
    }
    assert_eq!(owners, BTreeSet::from([world.engine.id(), other.id()]), "both took part");
    assert_eq!(world.world.count(Verb::Create), 20);
    assert_eq!(world.world.count(Verb::Start), 60);
    assert_eq!(world.world.running().len(), 60);
    other.stop().await;
}

#[tokio::test]
async fn an_engine_that_slept_too_long_begins_again_under_another_name() {
    let Some(world) = Fixture::open(Kind::Postgres).await else { return };
    let config =
        Config { lease: Span::from_millis(200), heartbeat: Span::from_millis(700), ..Config::default() };
    let sleepy = fixture::engine_with(world.fresh.replica().await.unwrap(), &world.world, config).await;
    let before = sleepy.id();
    eventually("another id of the engine", fixture::PATIENCE, async || {
        if sleepy.id() == before { Err(before) } else { Ok(()) }
    })
    .await;
    sleepy.stop().await;
}

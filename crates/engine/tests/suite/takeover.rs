//! Engines that stop, die, or are paused longer than their lease.

use std::collections::BTreeSet;

use muster_core::action::{ActionKind, ActionStatus, Fence};
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_engine::policy::Policies;
use muster_store::StoreError;
use muster_store::commands::{ForgetChecks, SignalKind, Ticket};
use muster_testkit::fake::Verb;
use muster_testkit::{database_test, eventually};
use serde_json::json;

use crate::harness::{self, Harness, Kind, exactly, setup};
use crate::scripted_policy::ScriptedPolicy;

#[database_test]
async fn an_engine_that_stops_hands_its_action_over(mut harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    harness.applied(resize).await;
    let first = harness.engine.clone();
    first.stop().await;
    assert_eq!(harness.action(resize).await.status, ActionStatus::Ready);
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    assert_ne!(harness.engine.id(), first.id());
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    harness.assert_agreement(cluster.id).await;
    assert_eq!(harness.provider.running().len(), 5);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 5);
}

#[database_test]
async fn an_engine_that_lost_a_check_deletes_no_earlier_checks(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let earlier = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    harness.ended(earlier).await;
    harness.provider.hold(Verb::Observe);
    let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    harness.until(check, ActionStatus::Running).await;
    let action = harness.action(check).await;
    let engine = action.owner.expect("an engine runs it");
    let forget =
        |fence| ForgetChecks { ticket: Ticket { action: check, engine, fence }, cluster: cluster.id };
    let refused = harness.store().forget_checks(forget(Fence(action.fence.0 - 1))).await;
    assert!(matches!(refused, Err(StoreError::Fenced(id)) if id == check), "{refused:?}");
    assert!(harness.store().action(earlier).await.expect("the store answers").is_some());
    let forgotten = harness.store().forget_checks(forget(action.fence)).await.expect("its own engine may");
    assert_eq!(forgotten.rows, 2, "the check of the cluster and that of its node");
    assert_eq!(harness.store().action(earlier).await.expect("the store answers"), None);
    harness.provider.release();
    harness.ended(check).await;
}

#[tokio::test]
async fn a_dead_replicas_action_is_finished_by_another_once_its_lease_is_over() {
    let Some(mut harness) = Harness::open(Kind::Postgres).await else { return };
    harness.engine.stop().await;
    // Its heartbeat never renews the lease: for other engines it is dead after a second.
    let config =
        Config { lease: TimeSpan::from_secs(1), heartbeat: TimeSpan::from_secs(3600), ..Config::default() };
    let dying = setup().config(config).start(harness.fresh.replica().await.unwrap(), &harness).await;
    harness.engine = dying.clone();
    let cluster = harness::cluster(muster_testkit::fake::FAKE_NODE, 4);
    harness.provider.hold(Verb::Start);
    let create = harness.create(&cluster).await;
    harness.provider.begun(Verb::Start, 4).await;
    let config = Config { safety_period: TimeSpan::from_millis(100), ..Config::default() };
    harness.engine = setup().config(config).start(harness.store().clone(), &harness).await;
    harness.provider.begun(Verb::Start, 8).await;
    harness.provider.release();
    let action = harness.ended(create).await;
    assert_eq!((action.status, action.owner), (ActionStatus::Succeeded, Some(harness.engine.id())));
    assert_eq!(harness.provider.running().len(), 4, "a node was made twice");
    harness.assert_agreement(cluster.id).await;
    let fences: BTreeSet<_> = harness.provider.log().iter().map(|entry| entry.fence).collect();
    assert!(fences.contains(&action.fence) && fences.len() == 2, "{fences:?}");
}

#[tokio::test]
async fn two_replicas_execute_every_action_once() {
    let one_slot = Config { parallel_actions: 1, ..Config::default() };
    let Some(harness) = setup().config(one_slot.clone()).open(Kind::Postgres).await else { return };
    let other = setup().config(one_slot).start(harness.fresh.replica().await.unwrap(), &harness).await;
    harness.provider.hold(Verb::Create);
    let clusters: Vec<_> = (0..20).map(|_| harness::cluster(muster_testkit::fake::FAKE_NODE, 3)).collect();
    let actions = futures::future::join_all(clusters.iter().map(|cluster| harness.create(cluster))).await;
    // Each has one slot, so two calls at the same time are those of two engines.
    harness.provider.begun(Verb::Create, 2).await;
    harness.provider.release();
    let mut owners = BTreeSet::new();
    for action in actions {
        let action = harness.ended(action).await;
        assert_eq!(action.status, ActionStatus::Succeeded);
        owners.extend(action.owner);
    }
    assert_eq!(owners, BTreeSet::from([harness.engine.id(), other.id()]), "both took part");
    assert_eq!(harness.provider.count(Verb::Create), 20);
    assert_eq!(harness.provider.count(Verb::Start), 60);
    assert_eq!(harness.provider.running().len(), 60);
    other.stop().await;
}

#[tokio::test]
async fn an_engine_that_slept_too_long_begins_again_under_another_name() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let config = Config {
        lease: TimeSpan::from_millis(200),
        heartbeat: TimeSpan::from_millis(700),
        ..Config::default()
    };
    let sleepy = setup().config(config).start(harness.fresh.replica().await.unwrap(), &harness).await;
    let before = sleepy.id();
    eventually("another id of the engine", harness::PATIENCE, async || {
        if sleepy.id() == before { Err(before) } else { Ok(()) }
    })
    .await;
    sleepy.stop().await;
}

#[tokio::test]
async fn an_engine_that_dies_while_an_action_waits_is_not_counted_against_it() {
    let saying = ScriptedPolicy::default();
    let policies = || Policies::default().with(saying.clone());
    let Some(mut harness) = setup().policies(policies()).open(Kind::Postgres).await else { return };
    let (cluster, _) = harness.created(3).await;
    saying.bind(&harness, cluster.id).await;
    saying.say(&json!({"deletion": {"grace_period": 3600}}));
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(1)).await;
    harness.applied(resize).await;
    harness.engine.stop().await;
    let died = format!(
        "UPDATE actions SET status = 'RUNNING', owner = '{}', deaths = 3 WHERE id = '{resize}'",
        harness.engine.id()
    );
    harness.fresh.execute(&died).await;
    harness.engine = setup().policies(policies()).start(harness.store().clone(), &harness).await;
    let read = format!("SELECT owner, deaths FROM actions WHERE id = '{resize}'");
    let waiting = format!("{}|3", harness.engine.id());
    eventually("an action that waits", harness::PATIENCE, async || {
        let row = harness.fresh.psql(&read).await.unwrap_or_default();
        if row.trim() == waiting { Ok(()) } else { Err(row) }
    })
    .await;
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Cancelled);
}

#[database_test]
async fn an_action_that_kills_its_engines_is_ended(mut harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    harness.applied(resize).await;
    harness.engine.stop().await;
    let running = format!(
        "UPDATE actions SET status = 'RUNNING', owner = '{}', deaths = 4 WHERE id = '{resize}'",
        harness.engine.id()
    );
    harness.fresh.execute(&running).await;
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    let ended = harness.ended(resize).await;
    assert_eq!(ended.status, ActionStatus::Failed);
    assert!(ended.status_reason.starts_with("5 engines died in a row while they ran it"), "{ended:?}");
    let again = harness.resized(&cluster, 2).await;
    assert_eq!(again.status, ActionStatus::Succeeded, "its cluster is free: {}", again.status_reason);
}

//! The record of observations, and changes between an observation and its record.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict, Target};
use muster_core::cluster::{Cluster, ClusterStatus, ObservedSummary};
use muster_core::event::Level;
use muster_core::ids::EngineId;
use muster_core::node::{Node, NodeStatus};
use muster_core::sample;
use muster_core::time::TimeSpan;
use muster_store::Store;
use muster_store::commands::{Accept, ActionEnd, Adopt, Mirrored, Observe, ObservedCluster, TakeDuty};
use muster_store::reads::EventQuery;
use muster_testkit::database_test;

use crate::harness::{self, Harness, Kind, claim, living, record, registration, request};
use crate::lists::event;

const DUTY: &str = "observer";

async fn take_duty(store: &Store, engine: EngineId) -> bool {
    store.take_duty(TakeDuty { name: DUTY.to_owned(), engine }).await.expect("an answer")
}

/// An observation of nothing.
fn observation(engine: EngineId) -> Observe {
    Observe {
        duty: DUTY.to_owned(),
        engine,
        clusters: Vec::new(),
        orphans: Vec::new(),
        events: Vec::new(),
        healing: Vec::new(),
        now: harness::now(4_000),
    }
}

/// The loss of a node of a cluster, as both were read.
fn loss(engine: EngineId, cluster: &Cluster, node: &Node) -> Observe {
    let seen = ObservedCluster {
        id: cluster.id,
        read_at: cluster.updated_at,
        observed: ObservedSummary::default(),
        status: Some((ClusterStatus::Warning, "late".into())),
        nodes: vec![Node { status: NodeStatus::Error, ..node.clone() }],
    };
    Observe { clusters: vec![seen], events: vec![event(7, Level::Warn)], ..observation(engine) }
}

/// A cluster that was created with one node, as both are stored, and the engine that observes them.
async fn created(harness: &Harness) -> (EngineId, Cluster, Node) {
    let store = &harness.store;
    harness.create(1).await;
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.expect("a claim").remove(0);
    let cluster_id = Some(harness::cluster(1).id);
    let mut end = record(&claimed);
    end.new_nodes = vec![Node { cluster_id, status: NodeStatus::Active, ..sample::node(1) }];
    end.cluster = Some(Cluster { updated_at: Some(harness::now(2_000)), ..harness::cluster(1) });
    end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    store.record(end).await.expect("the creation ends");
    assert!(take_duty(store, engine).await);
    let cluster = store.cluster(harness::cluster(1).id).await.expect("an answer").expect("the cluster");
    let node = store.members(cluster.id).await.expect("an answer").remove(0);
    (engine, cluster, node)
}

/// Runs an action of the cluster that ends at once and writes this state of the cluster.
async fn overtake(store: &Store, engine: EngineId, kind: ActionKind, after: Cluster) {
    store.accept(request(2, kind, after.id, OnConflict::Queue)).await.expect("an action");
    let claimed = store.claim(claim(engine)).await.expect("a claim").remove(0);
    let mut end = record(&claimed);
    end.cluster = Some(after);
    end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    store.record(end).await.expect("the action ends");
}

#[database_test]
async fn what_was_lost_is_recorded(harness: Harness) {
    let (engine, cluster, node) = created(&harness).await;
    assert_eq!(harness.store.observe(loss(engine, &cluster, &node)).await.unwrap(), Mirrored::Written);
    let stored = harness.store.cluster(cluster.id).await.unwrap().unwrap();
    assert_eq!(stored.status, ClusterStatus::Warning);
    assert_eq!(harness.store.members(cluster.id).await.unwrap()[0].status, NodeStatus::Error);
}

#[database_test]
async fn what_was_seen_too_late_brings_nothing_back(harness: Harness) {
    let store = &harness.store;
    let (engine, cluster, node) = created(&harness).await;
    let deleted_at = Some(harness::now(3_000));
    let deleted = Cluster { deleted_at, status: ClusterStatus::Deleted, ..cluster.clone() };
    overtake(store, engine, ActionKind::ClusterDelete, deleted).await;
    assert_eq!(store.observe(loss(engine, &cluster, &node)).await.unwrap(), Mirrored::Busy);
    assert_eq!(store.members(cluster.id).await.unwrap(), []);
    assert_eq!(store.cluster(cluster.id).await.unwrap().unwrap().status, ClusterStatus::Deleted);
}

#[database_test]
async fn an_observation_that_an_action_has_overtaken_is_not_recorded(harness: Harness) {
    let store = &harness.store;
    let (engine, cluster, node) = created(&harness).await;
    let after = Cluster { updated_at: Some(harness::now(3_000)), ..cluster.clone() };
    overtake(store, engine, ActionKind::ClusterCheck, after).await;
    assert_eq!(store.observe(loss(engine, &cluster, &node)).await.unwrap(), Mirrored::Busy);
    assert_eq!(store.cluster(cluster.id).await.unwrap().unwrap().status, cluster.status);
    let events = store.events(&EventQuery::default()).await.unwrap().items;
    assert!(events.iter().all(|stored| stored.id != event(7, Level::Warn).id), "a loss is reported");
}

#[tokio::test]
async fn a_node_that_is_being_claimed_is_left_to_its_action() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let store = &harness.store;
    let engine = living(store, 9).await;
    assert!(take_duty(store, engine).await);
    let node = Node { cluster_id: None, status: NodeStatus::Active, ..sample::node(1) };
    let profile = muster_core::profile::Profile { id: node.profile_id, ..sample::profile() };
    store.adopt(Adopt { profile, node: node.clone(), event: event(1, Level::Info) }).await.unwrap();
    let of_node = Action {
        target: Target::Node(node.id),
        cluster_id: None,
        ..sample::action(2, ActionKind::NodeCheck, harness::cluster(1).id)
    };
    store.accept(Accept::new(of_node, OnConflict::Queue)).await.unwrap();
    let held = harness.hold("INSERT ON locks", "true").await;
    let lost = Node { status: NodeStatus::Error, ..node.clone() };
    let observe = async {
        harness.until_a_session_waits("advisory").await;
        store.observe(Observe { orphans: vec![lost], ..observation(engine) }).await
    };
    let release = harness.release_once_another_waits(held);
    let (claimed, observed, ()) = futures::join!(store.claim(claim(engine)), observe, release);
    assert_eq!(claimed.unwrap().len(), 1);
    assert_eq!(observed.unwrap(), Mirrored::Busy);
    assert_eq!(store.node(node.id).await.unwrap().unwrap().status, NodeStatus::Active);
}

#[tokio::test]
async fn a_duty_is_not_taken_from_an_engine_in_the_middle_of_a_record() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let (store, other) = (&harness.store, harness.replica().await.expect("PostgreSQL has replicas"));
    let (dead, next) = (harness::engine(1), living(&other, 2).await);
    store.register(registration(dead, TimeSpan::from_micros(1))).await.unwrap();
    harness.create(1).await;
    assert!(take_duty(store, dead).await);
    let held = harness.hold("UPDATE ON clusters", "true").await;
    let cluster = store.cluster(harness::cluster(1).id).await.unwrap().unwrap();
    let take = async {
        harness.until_a_session_waits("advisory").await;
        take_duty(&other, next).await
    };
    let release = harness.release_once_another_waits(held);
    let observe = store.observe(loss(dead, &cluster, &sample::node(1)));
    let (observed, taken, ()) = futures::join!(observe, take, release);
    assert_eq!(observed.unwrap(), Mirrored::Written);
    assert!(taken, "it is free afterwards");
    assert_eq!(store.observe(observation(dead)).await.unwrap(), Mirrored::NotOurs);
}

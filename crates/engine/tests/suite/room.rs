//! What is asked of a machine has to fit it: one node in any case, all of them preferably.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::Shape;
use muster_store::reads::{ClusterQuery, EventQuery};
use muster_testkit::fake::FAKE_NODE;
use rstest::rstest;
use serde_json::json;

use crate::fixture::{self, Fixture, Kind};

/// A world with two cores.
async fn laptop(kind: Kind) -> Option<Fixture> {
    let world = Fixture::open(kind).await?;
    let capacity = Capacity { cpu: Cpu::from_millis(2_000), memory: Memory::from_bytes(1 << 30), gpu: 0 };
    world.world.has(capacity);
    Some(world)
}

fn cluster(workers: u32, cpu: &str) -> Cluster {
    let mut cluster = fixture::cluster(FAKE_NODE, workers);
    cluster.groups[0].shape = Shape { cpu: cpu.parse().ok(), ..Shape::default() };
    cluster
}

async fn told(world: &Fixture, cluster: &Cluster) -> Vec<String> {
    let query = EventQuery { cluster: Some(cluster.id), ..EventQuery::default() };
    let events = world.store().events(&query).await.expect("the store answers").items;
    let told = events.into_iter().filter(|event| event.reason == "Overcommitted");
    told.map(|event| event.message).collect()
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_the_machine_cannot_hold_is_refused_and_nothing_is_stored(#[case] kind: Kind) {
    let Some(world) = laptop(kind).await else { return };
    let refused = world.try_create(&cluster(1, "64")).await.unwrap_err();
    assert_eq!(refused.to_string(), "a worker asks for 64 cpu; this machine has 2: ask for less");
    assert!(world.store().clusters(&ClusterQuery::default()).await.unwrap().items.is_empty());
    let fits = cluster(1, "2");
    let created = world.create(&fits).await;
    world.ended(created).await;
    let mut group = fits.groups[0].clone();
    group.shape.cpu = Some(Cpu::from_millis(3_000));
    let refused = world.refused(ActionKind::ClusterUpdate, &fits, json!({"groups": [group]})).await;
    assert_eq!(refused.to_string(), "a worker asks for 3 cpu; this machine has 2: ask for less");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn nodes_that_it_cannot_hold_together_are_made_and_told_of(#[case] kind: Kind) {
    let Some(world) = laptop(kind).await else { return };
    let cluster = cluster(2, "1");
    let created = world.create(&cluster).await;
    assert_eq!(world.ended(created).await.status, ActionStatus::Succeeded);
    assert!(told(&world, &cluster).await.is_empty(), "they just fit");
    let resized = async |workers| {
        let row = world.cluster(cluster.id).await;
        assert_eq!(world.resized(&row, workers).await.status, ActionStatus::Succeeded);
    };
    resized(4).await;
    let sentence = "its nodes together ask for 4 × 1 = 4 cpu, and this machine has 2: they have to share it";
    assert_eq!(told(&world, &cluster).await, [sentence]);
    resized(3).await;
    assert_eq!(told(&world, &cluster).await.len(), 1, "who asks for less is not told again");
    let large = self::cluster(3, "2");
    let created = world.create(&large).await;
    world.ended(created).await;
    let sentence = "its nodes together ask for 3 × 2 = 6 cpu, and this machine has 2: they have to share it";
    assert_eq!(told(&world, &large).await, [sentence]);
}

//! Clusters on a machine: a node that cannot fit is refused, and nodes that do not fit together cause a warning.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::capacity::Capacity;
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::Shape;
use muster_store::reads::{ClusterQuery, EventQuery};
use muster_testkit::database_test;
use muster_testkit::fake::FAKE_NODE;
use serde_json::json;

use crate::harness::{self, Harness, Kind};

/// A world with two cores.
async fn laptop(kind: Kind) -> Option<Harness> {
    let harness = Harness::open(kind).await?;
    let capacity = Capacity { cpu: Cpu::from_millis(2_000), memory: Memory::from_bytes(1 << 30), gpu: 0 };
    harness.provider.has(capacity);
    Some(harness)
}

fn cluster(workers: u32, cpu: &str) -> Cluster {
    let mut cluster = harness::cluster(FAKE_NODE, workers);
    cluster.groups[0].shape = Shape { cpu: cpu.parse().ok(), ..Shape::default() };
    cluster
}

async fn recorded_events(harness: &Harness, cluster: &Cluster) -> Vec<String> {
    let query = EventQuery { cluster: Some(cluster.id), ..EventQuery::default() };
    let events = harness.store().events(&query).await.expect("the store answers").items;
    let recorded = events.into_iter().filter(|event| event.reason == "Overcommitted");
    recorded.map(|event| event.message).collect()
}

#[database_test(laptop)]
async fn a_node_that_the_machine_cannot_hold_is_refused_and_nothing_is_stored(harness: Harness) {
    let refused = harness.try_create(&cluster(1, "64")).await.unwrap_err();
    assert_eq!(refused.to_string(), "a worker requests 64 cpu; this machine has 2: request less");
    assert!(harness.store().clusters(&ClusterQuery::default()).await.unwrap().items.is_empty());
    let fits = cluster(1, "2");
    let created = harness.create(&fits).await;
    harness.ended(created).await;
    let mut group = fits.groups[0].clone();
    group.shape.cpu = Some(Cpu::from_millis(3_000));
    let refused = harness.refused(ActionKind::ClusterUpdate, &fits, json!({"groups": [group]})).await;
    assert_eq!(refused.to_string(), "a worker requests 3 cpu; this machine has 2: request less");
}

#[database_test(laptop)]
async fn nodes_that_exceed_the_machine_together_are_created_with_a_warning(harness: Harness) {
    let cluster = cluster(2, "1");
    let created = harness.create(&cluster).await;
    assert_eq!(harness.ended(created).await.status, ActionStatus::Succeeded);
    assert!(recorded_events(&harness, &cluster).await.is_empty(), "they just fit");
    let resized = async |workers| {
        let row = harness.cluster(cluster.id).await;
        assert_eq!(harness.resized(&row, workers).await.status, ActionStatus::Succeeded);
    };
    resized(4).await;
    let sentence = "its nodes together request 4 × 1 = 4 cpu, and this machine has 2: it is overcommitted";
    assert_eq!(recorded_events(&harness, &cluster).await, [sentence]);
    resized(3).await;
    assert_eq!(recorded_events(&harness, &cluster).await.len(), 1, "a smaller request is not warned again");
    let large = self::cluster(3, "2");
    let created = harness.create(&large).await;
    harness.ended(created).await;
    let sentence = "its nodes together request 3 × 2 = 6 cpu, other clusters request 3, and this machine has 2: it is \
                    overcommitted";
    assert_eq!(recorded_events(&harness, &large).await, [sentence]);
}

#[database_test]
async fn gpus_are_not_shared_within_a_cluster_and_awaited_from_others(harness: Harness) {
    let machine = Capacity { cpu: Cpu::from_millis(8_000), memory: Memory::from_bytes(1 << 30), gpu: 2 };
    harness.provider.has(machine);
    let gpus = |workers| {
        let mut cluster = harness::cluster(FAKE_NODE, workers);
        cluster.groups[0].shape = Shape { gpu: Some(1), ..Shape::default() };
        cluster
    };
    let refused = harness.try_create(&gpus(3)).await.unwrap_err();
    let sentence = "its nodes together request 3 × 1 = 3 gpu; this machine has 2: request less";
    assert_eq!(refused.to_string(), sentence);
    let fits = gpus(2);
    let created = harness.create(&fits).await;
    harness.ended(created).await;
    assert!(recorded_events(&harness, &fits).await.is_empty());
    let row = harness.cluster(fits.id).await;
    let more = json!({"number": 1, "adjustment_type": "CHANGE_IN_CAPACITY"});
    assert_eq!(harness.refused(ActionKind::ClusterResize, &row, more).await.to_string(), sentence);
    let waits = gpus(1);
    let created = harness.create(&waits).await;
    harness.ended(created).await;
    let sentence = "its nodes together request 1 = 1 gpu, other clusters request 2, and this machine has 2: it is \
                    overcommitted; nodes wait until enough gpus are free";
    assert_eq!(recorded_events(&harness, &waits).await, [sentence]);
}

#[database_test]
async fn only_what_grows_is_refused_where_a_node_is_too_large_already(harness: Harness) {
    let machine =
        |cpu, memory| Capacity { cpu: Cpu::from_millis(cpu), memory: Memory::from_bytes(memory), gpu: 0 };
    harness.provider.has(machine(8_000, 4 << 30));
    let mut cluster = cluster(1, "4");
    let small = Shape { cpu: "1".parse().ok(), memory: "2Gi".parse().ok(), ..Shape::default() };
    cluster.groups.push(WorkerGroup { name: "small".to_owned(), shape: small, ..cluster.groups[0].clone() });
    let created = harness.create(&cluster).await;
    harness.ended(created).await;
    harness.provider.has(machine(2_000, 1 << 30));
    let shape = |group: usize, shape: serde_json::Value| json!({"groups": [{"name": cluster.groups[group].name, "shape": shape}]});
    let updated = async |inputs| {
        let row = harness.cluster(cluster.id).await;
        let update = harness.submit(ActionKind::ClusterUpdate, &row, inputs).await;
        harness.ended(update).await;
    };
    updated(shape(0, json!({"cpu": "3"}))).await;
    updated(shape(1, json!({"memory": "1536Mi"}))).await;
    let row = harness.cluster(cluster.id).await;
    let refused = harness.refused(ActionKind::ClusterUpdate, &row, shape(1, json!({"cpu": "4"}))).await;
    let sentence = "a worker of group 'small' requests 4 cpu; this machine has 2: request less";
    assert_eq!(refused.to_string(), sentence);
    let more = json!({"number": 1, "adjustment_type": "CHANGE_IN_CAPACITY"});
    let refused = harness.refused(ActionKind::ClusterResize, &row, more).await;
    let sentence = format!(
        "a worker of group '{}' requests 3 cpu; this machine has 2: request less",
        cluster.groups[0].name
    );
    assert_eq!(refused.to_string(), sentence, "none of the new nodes could run");
    let overcommitted = recorded_events(&harness, &cluster).await;
    assert!(overcommitted.is_empty(), "a smaller request is not warned of: {overcommitted:?}");
}

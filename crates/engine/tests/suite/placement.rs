//! Placement is decided once, when nodes are created, and respected when they are removed.

mod affinity;
mod nodes;
mod spread;

use std::collections::BTreeMap;

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_core::placement::Placement;
use muster_testkit::fake::FAKE_PLACED;
use serde_json::{Value, json};

use crate::harness::{self, Harness};
use crate::policies::{attach, ended, policy};

const AFFINITY: &str = "senlin.policy.affinity-1.0";
const REGION: &str = "senlin.policy.region_placement-1.0";
const ZONE: &str = "senlin.policy.zone_placement-1.0";
const DELETION: &str = "senlin.policy.deletion-1.1";

/// A cluster whose provider supports placement.
async fn placed(harness: &Harness, workers: u32) -> Cluster {
    let cluster = harness::cluster(FAKE_PLACED, workers);
    let action = harness.create(&cluster).await;
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
    cluster
}

async fn attached(harness: &Harness, cluster: &Cluster, kind: &str, properties: Value) {
    let policy = policy(harness, kind, properties).await;
    let action = attach(harness, cluster, &policy).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
}

/// Zones of equal weight.
async fn zoned(harness: &Harness, cluster: &Cluster, names: &[&str]) {
    let zones: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    attached(harness, cluster, ZONE, json!({"zones": zones})).await;
}

async fn scaled(harness: &Harness, kind: ActionKind, cluster: &Cluster, count: u32) -> Action {
    let action = ended(harness, kind, cluster, json!({"count": count})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    action
}

/// Counts nodes by `region/zone`, where `-` stands for undecided. Also checks that rows and world are in sync.
async fn spread(harness: &Harness, cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut spread = BTreeMap::new();
    for node in harness.nodes(cluster.id).await {
        assert_eq!(
            harness.provider.place(node.id),
            Some(Placement::from_node(&node)),
            "it was placed elsewhere"
        );
        *spread.entry(at(&node)).or_default() += 1;
    }
    harness.assert_agreement(cluster.id).await;
    spread
}

fn at(node: &Node) -> String {
    let Placement { zone, region_name, .. } = Placement::from_node(node);
    let word = |name: Option<String>| name.unwrap_or_else(|| "-".to_owned());
    format!("{}/{}", word(region_name), word(zone))
}

/// `[("-/az1", 2)]` as a map.
fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.into_iter().map(|(at, count)| (at.to_owned(), count)).collect()
}

//! Placement of single nodes, and after a take-over.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::node::{Node, NodeStatus};
use muster_core::placement::Placement;
use muster_engine::policy::Policies;
use muster_engine::{Config, NewNode};
use muster_testkit::database_test;
use muster_testkit::fake::{Fake, Verb};
use serde_json::{Map, json};

use super::{DELETION, REGION, attached, counts, placed, scaled, spread, zoned};
use crate::harness::{Harness, caller, setup};
use crate::nodes::{changed, row};
use crate::policies::{ended, with_policies};

/// A node that is requested as a member.
async fn asked(harness: &Harness, cluster: &Cluster) -> (Action, Node) {
    let profile = harness.store().profile(cluster.profile_id).await.expect("an answer").expect("a recipe");
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: Some(cluster.clone()),
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let (accepted, node) = harness.engine.create_node(new, caller()).await.expect("accepted");
    (harness.ended(accepted.action.id).await, row(harness, &node).await)
}

#[database_test(with_policies)]
async fn a_recreated_node_keeps_its_zone(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 4).await;
    let spread_before = spread(&harness, &cluster).await;
    let node = harness.nodes(cluster.id).await.remove(1);
    let before = harness.provider.physical_id(node.id);
    let recovered = changed(&harness, ActionKind::NodeRecover, &node, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    assert_ne!(harness.provider.physical_id(node.id), before, "it is another one");
    assert_eq!(harness.provider.place(node.id), Some(Placement::from_node(&node)));
    for node in harness.nodes(cluster.id).await {
        harness.provider.kill(node.id, "for the test");
    }
    let recovered = ended(&harness, ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    assert_eq!(spread(&harness, &cluster).await, spread_before);
}

#[database_test(with_policies)]
async fn what_a_recovery_adds_is_placed_too(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    attached(&harness, &cluster, DELETION, json!({"reduce_desired_capacity": false})).await;
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 2).await;
    let node = harness.nodes(cluster.id).await.remove(0);
    changed(&harness, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az2", 1)]));
    ended(&harness, ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 1), ("-/az2", 1)]));
}

#[database_test(with_policies)]
async fn a_member_that_is_asked_for_is_placed_or_stays_outside(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    attached(&harness, &cluster, REGION, json!({"regions": [{"name": "r1", "cap": 1}]})).await;
    let (created, node) = asked(&harness, &cluster).await;
    assert_eq!(created.status, ActionStatus::Succeeded, "{}", created.status_reason);
    assert_eq!(harness.provider.place(node.id), Some(Placement::from_node(&node)));
    assert_eq!(spread(&harness, &cluster).await, counts([("r1/-", 1)]));
    let (refused, outside) = asked(&harness, &cluster).await;
    assert_eq!(refused.status, ActionStatus::Failed);
    assert!(refused.status_reason.ends_with("There is no feasible plan to handle all nodes."));
    assert_eq!((outside.cluster_id, outside.status), (None, NodeStatus::Error), "{outside:?}");
    assert_eq!(outside.status_reason, refused.status_reason);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 1);
    harness.assert_agreement(cluster.id).await;
}

#[database_test(with_policies)]
async fn an_engine_that_takes_over_decides_nothing_again(mut harness: Harness) {
    let cluster = placed(&harness, 0).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    harness.provider.hold(Verb::Start);
    let out = harness.submit(ActionKind::ClusterScaleOut, &cluster, json!({"count": 5})).await;
    harness.provider.begun(Verb::Start, 5).await;
    let (decided, rows) = (harness.action(out).await.data, harness.nodes(cluster.id).await);
    harness.engine.stop().await;
    harness.provider.release();
    let (store, config) = (harness.store().clone(), Config::default());
    harness.engine = setup().config(config).policies(Policies::standard()).start(store, &harness).await;
    let action = harness.ended(out).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(action.data["placement"], decided["placement"]);
    let places =
        |nodes: &[Node]| nodes.iter().map(|node| (node.id, Placement::from_node(node))).collect::<Vec<_>>();
    assert_eq!(places(&harness.nodes(cluster.id).await), places(&rows));
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 3), ("-/az2", 2)]));
}

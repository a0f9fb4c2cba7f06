//! Single nodes, and engines that go on where others stopped.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::node::{Node, NodeStatus};
use muster_core::placement::Place;
use muster_engine::policy::Policies;
use muster_engine::{Config, NewNode};
use muster_testkit::fake::{Fake, Verb};
use rstest::rstest;
use serde_json::{Map, json};

use super::{DELETION, REGION, attached, counts, placed, scaled, spread, zoned};
use crate::fixture::{self, Fixture, Kind, caller};
use crate::nodes::{changed, row};
use crate::policies::{ended, world};

/// A node that somebody asks for as a member.
async fn asked(world: &Fixture, cluster: &Cluster) -> (Action, Node) {
    let profile = world.store().profile(cluster.profile_id).await.expect("an answer").expect("a recipe");
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: Some(cluster.clone()),
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let (accepted, node) = world.engine.create_node(new, caller()).await.expect("accepted");
    (world.ended(accepted.action.id).await, row(world, &node).await)
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_is_made_anew_keeps_its_zone(#[case] kind: Kind) {
    let Some(world) = world(kind).await else { return };
    let cluster = placed(&world, 0).await;
    zoned(&world, &cluster, &["az1", "az2"]).await;
    scaled(&world, ActionKind::ClusterScaleOut, &cluster, 4).await;
    let spread_before = spread(&world, &cluster).await;
    let node = world.nodes(cluster.id).await.remove(1);
    let before = world.world.physical_id(node.id);
    let recovered = changed(&world, ActionKind::NodeRecover, &node, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    assert_ne!(world.world.physical_id(node.id), before, "it is another one");
    assert_eq!(world.world.place(node.id), Some(Place::of(&node)));
    for node in world.nodes(cluster.id).await {
        world.world.kill(node.id, "for the test");
    }
    let recovered = ended(&world, ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    assert_eq!(spread(&world, &cluster).await, spread_before);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_a_recovery_adds_is_placed_too(#[case] kind: Kind) {
    let Some(world) = world(kind).await else { return };
    let cluster = placed(&world, 0).await;
    zoned(&world, &cluster, &["az1", "az2"]).await;
    attached(&world, &cluster, DELETION, json!({"reduce_desired_capacity": false})).await;
    scaled(&world, ActionKind::ClusterScaleOut, &cluster, 2).await;
    let node = world.nodes(cluster.id).await.remove(0);
    changed(&world, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(spread(&world, &cluster).await, counts([("-/az2", 1)]));
    ended(&world, ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(spread(&world, &cluster).await, counts([("-/az1", 1), ("-/az2", 1)]));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_member_that_is_asked_for_is_placed_or_stays_outside(#[case] kind: Kind) {
    let Some(world) = world(kind).await else { return };
    let cluster = placed(&world, 0).await;
    attached(&world, &cluster, REGION, json!({"regions": [{"name": "r1", "cap": 1}]})).await;
    let (created, node) = asked(&world, &cluster).await;
    assert_eq!(created.status, ActionStatus::Succeeded, "{}", created.status_reason);
    assert_eq!(world.world.place(node.id), Some(Place::of(&node)));
    assert_eq!(spread(&world, &cluster).await, counts([("r1/-", 1)]));
    let (refused, outside) = asked(&world, &cluster).await;
    assert_eq!(refused.status, ActionStatus::Failed);
    assert!(refused.status_reason.ends_with("There is no feasible plan to handle all nodes."));
    assert_eq!((outside.cluster_id, outside.status), (None, NodeStatus::Error), "{outside:?}");
    assert_eq!(outside.status_reason, refused.status_reason);
    assert_eq!(world.cluster(cluster.id).await.desired(), 1);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_that_takes_over_decides_nothing_again(#[case] kind: Kind) {
    let Some(mut world) = world(kind).await else { return };
    let cluster = placed(&world, 0).await;
    zoned(&world, &cluster, &["az1", "az2"]).await;
    world.world.hold(Verb::Start);
    let out = world.submit(ActionKind::ClusterScaleOut, &cluster, json!({"count": 5})).await;
    world.world.begun(Verb::Start, 5).await;
    let (decided, rows) = (world.action(out).await.data, world.nodes(cluster.id).await);
    world.engine.stop().await;
    world.world.release();
    let (store, config) = (world.store().clone(), Config::default());
    world.engine = fixture::start(store, &world.world, &world.operators, config, Policies::standard()).await;
    let action = world.ended(out).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(action.data["placement"], decided["placement"]);
    let places = |nodes: &[Node]| nodes.iter().map(|node| (node.id, Place::of(node))).collect::<Vec<_>>();
    assert_eq!(places(&world.nodes(cluster.id).await), places(&rows));
    assert_eq!(spread(&world, &cluster).await, counts([("-/az1", 3), ("-/az2", 2)]));
}

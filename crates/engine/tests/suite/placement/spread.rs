//! Distribution of nodes over regions and zones, when clusters grow and shrink.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::ids::NodeId;
use muster_core::placement::Placement;
use muster_testkit::database_test;
use serde_json::json;

use super::{AFFINITY, DELETION, REGION, ZONE, attached, counts, placed, scaled, spread, zoned};
use crate::harness::{Harness, exactly};
use crate::policies::{attach, ended, policy, with_policies};

#[database_test(with_policies)]
async fn new_nodes_are_spread_over_zones_and_stay_spread(harness: Harness) {
    let cluster = placed(&harness, 1).await;
    attached(&harness, &cluster, ZONE, json!({"zones": [{"name": "az1", "weight": 200}, {"name": "az2"}]}))
        .await;
    let out = scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 6).await;
    assert_eq!(
        spread(&harness, &cluster).await,
        counts([("-/-", 1), ("-/az1", 4), ("-/az2", 2)]),
        "who was there before stays where it is"
    );
    assert_eq!(out.data["creation"]["zones"], json!({"az1": 4, "az2": 2}), "what was decided is kept");
    assert_eq!(out.data["placement"]["count"], 6);
    let inwards = scaled(&harness, ActionKind::ClusterScaleIn, &cluster, 1).await;
    assert_eq!(inwards.data["deletion"]["zones"], json!({"az1": 0, "az2": 0}));
    assert_eq!(
        spread(&harness, &cluster).await,
        counts([("-/az1", 4), ("-/az2", 2)]),
        "who is in none of the zones goes first"
    );
    scaled(&harness, ActionKind::ClusterScaleIn, &cluster, 3).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 2), ("-/az2", 1)]));
    assert_eq!(harness.resized(&cluster, 2).await.status, ActionStatus::Succeeded);
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 1), ("-/az2", 1)]));
    assert_eq!(harness.resized(&cluster, 5).await.status, ActionStatus::Succeeded);
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 3), ("-/az2", 2)]));
}

#[database_test(with_policies)]
async fn an_update_of_sizes_and_a_scaling_policy_are_spread_alike(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    let by_four = json!({"event": "CLUSTER_SCALE_OUT", "adjustment": {"number": 4}});
    attached(&harness, &cluster, "senlin.policy.scaling-1.0", by_four).await;
    ended(&harness, ActionKind::ClusterScaleOut, &cluster, json!({})).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 2), ("-/az2", 2)]));
    let resize = |size| json!({"resize": exactly(size)});
    for (size, each) in [(6, 3), (2, 1)] {
        let updated = ended(&harness, ActionKind::ClusterUpdate, &cluster, resize(size)).await;
        assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
        assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", each), ("-/az2", each)]));
    }
}

#[database_test(with_policies)]
async fn a_cap_holds_and_what_does_not_fit_does_not_come(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    let regions = json!({"regions": [{"name": "r1", "weight": 300, "cap": 2}, {"name": "r2", "cap": 3}]});
    let policy = policy(&harness, REGION, regions).await;
    attach(&harness, &cluster, &policy).await;
    let refused = ended(&harness, ActionKind::ClusterScaleOut, &cluster, json!({"count": 6})).await;
    let why = format!(
        "Policy check failure: Failed policy '{}': There is no feasible plan to handle all nodes.",
        policy.name
    );
    assert_eq!((refused.status, refused.status_reason), (ActionStatus::Failed, why));
    assert_eq!((harness.cluster(cluster.id).await.desired(), harness.nodes(cluster.id).await.len()), (0, 0));
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 4).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("r1/-", 2), ("r2/-", 2)]));
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 1).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("r1/-", 2), ("r2/-", 3)]));
}

#[database_test(with_policies)]
async fn every_region_has_nodes_in_all_zones(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    attached(&harness, &cluster, REGION, json!({"regions": [{"name": "r1"}, {"name": "r2"}]})).await;
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 8).await;
    let each = |count| counts([("r1/az1", count), ("r1/az2", count), ("r2/az1", count), ("r2/az2", count)]);
    assert_eq!(spread(&harness, &cluster).await, each(2));
    let inwards = scaled(&harness, ActionKind::ClusterScaleIn, &cluster, 2).await;
    assert_eq!(inwards.data["deletion"]["regions"], json!({"r1": 1, "r2": 1}));
    assert_eq!(inwards.data["deletion"]["zones"], json!({"az1": 1, "az2": 1}));
    let left = harness.nodes(cluster.id).await;
    let of = |name: &str| {
        let is = |place: &Placement| {
            [&place.region_name, &place.zone].iter().any(|at| at.as_deref() == Some(name))
        };
        left.iter().map(Placement::from_node).filter(is).count()
    };
    assert_eq!(["r1", "r2", "az1", "az2"].map(of), [3; 4]);
}

/// Ids of a zone's members, oldest first.
async fn in_zone(harness: &Harness, cluster: &muster_core::cluster::Cluster, zone: &str) -> Vec<NodeId> {
    let mut nodes = harness.nodes(cluster.id).await;
    nodes.retain(|node| Placement::from_node(node).zone.as_deref() == Some(zone));
    nodes.sort_by_key(|node| (node.created_at, node.index));
    nodes.iter().map(|node| node.id).collect()
}

#[database_test(with_policies)]
async fn a_deletion_policy_chooses_within_each_zone(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    // All of the first zone are older than those of the second.
    attached(&harness, &cluster, AFFINITY, json!({"availability_zone": "az1"})).await;
    for size in 1..=6 {
        if size == 4 {
            zoned(&harness, &cluster, &["az1", "az2"]).await;
        }
        scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 1).await;
    }
    attached(&harness, &cluster, DELETION, json!({"criteria": "OLDEST_FIRST"})).await;
    let (one, two) = (in_zone(&harness, &cluster, "az1").await, in_zone(&harness, &cluster, "az2").await);
    assert_eq!((one.len(), two.len()), (3, 3));
    scaled(&harness, ActionKind::ClusterScaleIn, &cluster, 2).await;
    assert_eq!(in_zone(&harness, &cluster, "az1").await, one[1..]);
    assert_eq!(in_zone(&harness, &cluster, "az2").await, two[1..]);
}

#[database_test(with_policies)]
async fn a_named_candidate_is_removed_from_any_zone(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 4).await;
    let named = json!({"count": 2, "candidates": in_zone(&harness, &cluster, "az1").await});
    let inwards = ended(&harness, ActionKind::ClusterScaleIn, &cluster, named).await;
    assert_eq!(inwards.status, ActionStatus::Succeeded, "{}", inwards.status_reason);
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az2", 2)]));
}

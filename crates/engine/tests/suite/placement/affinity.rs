//! Placement of nodes by affinity to server groups and zones.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::placement::{Affinity, Placement, ServerGroup};
use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use super::{AFFINITY, attached, counts, placed, scaled, spread, zoned};
use crate::harness::{Harness, Kind};
use crate::policies::{attach, policy, with_policies};

#[rstest]
#[case::sqlite(Kind::Sqlite, json!({}), Affinity::Apart)]
#[case::postgres(Kind::Postgres, json!({}), Affinity::Apart)]
#[case::together(Kind::Sqlite, json!({"servergroup": {"policies": "affinity"}}), Affinity::Together)]
#[tokio::test]
async fn the_new_nodes_of_a_cluster_are_a_group(
    #[case] kind: Kind,
    #[case] properties: Value,
    #[case] rule: Affinity,
) {
    let Some(harness) = with_policies(kind).await else { return };
    let policy = policy(&harness, AFFINITY, properties).await;
    let mut groups = Vec::new();
    for _ in 0..2 {
        let cluster = placed(&harness, 0).await;
        assert_eq!(attach(&harness, &cluster, &policy).await.status, ActionStatus::Succeeded);
        scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 2).await;
        let binding = harness.store().binding(cluster.id, policy.id).await.unwrap().unwrap();
        let group = ServerGroup { policy: rule, id: binding.id.to_string() };
        for node in harness.nodes(cluster.id).await {
            let place = Placement { servergroup: Some(group.clone()), ..Placement::default() };
            assert_eq!(harness.provider.place(node.id), Some(place));
        }
        groups.push(group);
    }
    assert_ne!(groups[0], groups[1], "another cluster is another group");
}

#[database_test(with_policies)]
async fn its_zone_counts_unless_a_placement_policy_has_others(harness: Harness) {
    let cluster = placed(&harness, 0).await;
    attached(&harness, &cluster, AFFINITY, json!({"availability_zone": "az9"})).await;
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 1).await;
    zoned(&harness, &cluster, &["az1", "az2"]).await;
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, 2).await;
    assert_eq!(spread(&harness, &cluster).await, counts([("-/az1", 1), ("-/az2", 1), ("-/az9", 1)]));
    let grouped =
        harness.nodes(cluster.id).await.iter().all(|node| Placement::from_node(node).servergroup.is_some());
    assert!(grouped, "one of them is in no group");
}

#[rstest]
#[case(json!({"servergroup": {"policies": "soft-anti-affinity"}}), "'policies' of 'servergroup' is 'soft-anti-affinity': must be 'affinity' or 'anti-affinity'")]
#[case(json!({"enable_drs_extension": true}), "'enable_drs_extension' is not supported: leave it out")]
#[tokio::test]
async fn what_cannot_be_acted_on_is_refused(#[case] properties: Value, #[case] why: &str) {
    let Some(harness) = with_policies(Kind::Sqlite).await else { return };
    let cluster = placed(&harness, 0).await;
    let policy = policy(&harness, AFFINITY, properties).await;
    let refused = attach(&harness, &cluster, &policy).await;
    assert_eq!((refused.status, refused.status_reason.as_str()), (ActionStatus::Failed, why));
}

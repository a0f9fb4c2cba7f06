//! Actions follow the decisions of policies.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use super::{attach, ended, policy, with_policies};
use crate::harness::{Harness, Kind, exactly};

/// Ids of members, oldest first.
async fn ages(harness: &Harness, cluster: muster_core::ids::ClusterId) -> Vec<NodeId> {
    let mut nodes = harness.nodes(cluster).await;
    nodes.sort_by_key(|node: &Node| (node.created_at, node.index));
    nodes.iter().map(|node| node.id).collect()
}

#[rstest]
#[case::sqlite(Kind::Sqlite, "OLDEST_FIRST")]
#[case::postgres(Kind::Postgres, "OLDEST_FIRST")]
#[case::youngest(Kind::Sqlite, "YOUNGEST_FIRST")]
#[tokio::test]
async fn a_deletion_policy_chooses_the_victims(#[case] kind: Kind, #[case] criteria: &str) {
    let Some(harness) = with_policies(kind).await else { return };
    let (cluster, _) = harness.created(1).await;
    for size in 2..=4 {
        harness.resized(&cluster, size).await;
    }
    let deletion = policy(&harness, "senlin.policy.deletion-1.1", json!({"criteria": criteria})).await;
    attach(&harness, &cluster, &deletion).await;
    let before = ages(&harness, cluster.id).await;
    let action = harness.resized(&cluster, 2).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let kept = if criteria == "OLDEST_FIRST" { &before[2..] } else { &before[..2] };
    assert_eq!(ages(&harness, cluster.id).await, kept);
    let said = &action.data["deletion"];
    assert_eq!((&said["count"], &said["grace_period"]), (&json!(2), &json!(0)));
    assert_eq!(said["reduce_desired_capacity"], json!(true));
    assert_eq!(said.get("destroy_after_deletion"), None, "the policy says nothing of it");
    let grown = harness.resized(&cluster, 3).await;
    assert_eq!(grown.data.get("deletion"), None, "no node is removed");
}

#[database_test(with_policies)]
async fn a_shrinking_update_is_checked_by_the_policies_of_a_resize(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.resized(&cluster, 2).await;
    harness.resized(&cluster, 3).await;
    let deletion = policy(&harness, "senlin.policy.deletion-1.1", json!({"criteria": "OLDEST_FIRST"})).await;
    attach(&harness, &cluster, &deletion).await;
    let before = ages(&harness, cluster.id).await;
    let mut group = serde_json::to_value(&harness.cluster(cluster.id).await.groups[0]).unwrap();
    group["desired"] = json!(1);
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"groups": [group]})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(ages(&harness, cluster.id).await, &before[2..]);
}

#[database_test(with_policies)]
async fn a_policy_that_is_disabled_does_not_act(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let deletion = policy(&harness, "senlin.policy.deletion-1.1", json!({"grace_period": 3600})).await;
    let inputs = json!({"policy_id": deletion.id, "enabled": false});
    ended(&harness, ActionKind::ClusterAttachPolicy, &cluster, inputs).await;
    let action = harness.resized(&cluster, 1).await;
    assert_eq!(action.status, ActionStatus::Succeeded);
    assert_eq!(action.data["deletion"].get("grace_period"), None);
}

#[database_test(with_policies)]
async fn hooks_and_batches_are_left_with_the_action(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let batch = json!({"min_in_service": 1, "max_batch_size": 1, "pause_time": 0});
    let batch = policy(&harness, "senlin.policy.batch-1.0", batch).await;
    attach(&harness, &cluster, &batch).await;
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"metadata": {"a": 1}})).await;
    let plan: Vec<Vec<NodeId>> = serde_json::from_value(action.data["update"]["plan"].clone()).unwrap();
    assert_eq!(plan.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(action.data["update"]["pause_time"], json!(0));
}

/// Runs a scaling, and returns the final status of its action.
async fn scaled(
    harness: &Harness,
    cluster: &muster_core::cluster::Cluster,
    event: ActionKind,
    inputs: Value,
) -> (ActionStatus, String) {
    let action = ended(harness, event, cluster, inputs).await;
    (action.status, action.status_reason)
}

#[database_test(with_policies)]
async fn a_scaling_policy_sets_the_count_and_starts_its_cooldown(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let adjustment = json!({"number": 2, "cooldown": 3600});
    let properties = json!({"event": "CLUSTER_SCALE_OUT", "adjustment": adjustment});
    let scaling = policy(&harness, "senlin.policy.scaling-1.0", properties).await;
    attach(&harness, &cluster, &scaling).await;
    let resting = || harness.engine.cooling(cluster.id, ActionKind::ClusterScaleOut);
    assert_eq!(resting().await.unwrap(), None);
    let (status, reason) = scaled(&harness, &cluster, ActionKind::ClusterScaleOut, json!({})).await;
    assert_eq!((status, reason.as_str()), (ActionStatus::Succeeded, "Cluster scaling succeeded."));
    assert_eq!(harness.nodes(cluster.id).await.len(), 4);
    assert_eq!(resting().await.unwrap().map(|policy| policy.id), Some(scaling.id));
    let (status, reason) = scaled(&harness, &cluster, ActionKind::ClusterScaleOut, json!({"count": 1})).await;
    let expected = format!(
        "Policy check failure: Failed policy '{}': Policy {} cooldown is still in progress.",
        scaling.name, scaling.id
    );
    assert_eq!((status, reason), (ActionStatus::Failed, expected));
    let (status, _) = scaled(&harness, &cluster, ActionKind::ClusterScaleIn, json!({"count": 1})).await;
    assert_eq!(status, ActionStatus::Succeeded, "the other direction does not rest");
    assert_eq!(harness.nodes(cluster.id).await.len(), 3);
}

#[database_test(with_policies)]
async fn a_best_effort_without_effect_starts_no_cooldown(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let bound = json!({"max_size": 3});
    ended(&harness, ActionKind::ClusterResize, &cluster, bound).await;
    let adjustment = json!({"number": 5, "cooldown": 3600, "best_effort": true});
    let properties = json!({"event": "CLUSTER_SCALE_OUT", "adjustment": adjustment});
    let scaling = policy(&harness, "senlin.policy.scaling-1.0", properties).await;
    attach(&harness, &cluster, &scaling).await;
    harness.resized(&cluster, 3).await;
    let (status, reason) = scaled(&harness, &cluster, ActionKind::ClusterScaleOut, json!({})).await;
    assert_eq!(status, ActionStatus::Succeeded, "{reason}");
    assert_eq!(harness.nodes(cluster.id).await.len(), 3, "it was full");
    assert_eq!(harness.engine.cooling(cluster.id, ActionKind::ClusterScaleOut).await.unwrap(), None);
    harness.resized(&cluster, 2).await;
    scaled(&harness, &cluster, ActionKind::ClusterScaleOut, json!({})).await;
    assert_eq!(harness.nodes(cluster.id).await.len(), 3, "as far as there was room");
    assert!(harness.engine.cooling(cluster.id, ActionKind::ClusterScaleOut).await.unwrap().is_some());
}

#[database_test(with_policies)]
async fn a_scaling_beyond_the_bounds_is_refused_in_words(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    ended(&harness, ActionKind::ClusterResize, &cluster, json!({"max_size": 3})).await;
    let properties = json!({"event": "CLUSTER_SCALE_OUT", "adjustment": {"number": 2}});
    let scaling = policy(&harness, "senlin.policy.scaling-1.0", properties).await;
    attach(&harness, &cluster, &scaling).await;
    let (status, reason) = scaled(&harness, &cluster, ActionKind::ClusterScaleOut, json!({})).await;
    let why = "The target capacity (4) is greater than the cluster's max_size (3).";
    assert_eq!(
        (status, reason),
        (ActionStatus::Failed, format!("Policy check failure: Failed policy '{}': {why}", scaling.name))
    );
    let resized = ended(&harness, ActionKind::ClusterResize, &cluster, exactly(3)).await;
    assert_eq!(resized.status, ActionStatus::Succeeded, "a resize does not ask it");
}

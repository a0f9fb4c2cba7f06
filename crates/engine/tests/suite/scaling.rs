//! Scaling out and in, and the removal of members.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::ids::NodeId;
use muster_core::node::NodeStatus;
use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_store::commands::SignalKind;
use muster_testkit::fake::{FAKE_NODE, Verb};
use muster_testkit::{ManualClock, database_test};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{self, Harness, Kind, setup};
use crate::scripted_policy::ScriptedPolicy;

async fn scaled(harness: &Harness, kind: ActionKind, cluster: &Cluster, inputs: Value) -> Action {
    let action = harness.submit(kind, cluster, inputs).await;
    harness.ended(action).await
}

/// A cluster with the given size, between two and five.
async fn bounded(harness: &Harness, workers: u32) -> Cluster {
    let mut cluster = harness::cluster(FAKE_NODE, workers);
    (cluster.groups[0].min, cluster.groups[0].max) = (2, Some(5));
    let action = harness.create(&cluster).await;
    harness.ended(action).await;
    cluster
}

#[database_test]
async fn a_node_that_is_being_removed_says_so(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    harness.provider.hold(Verb::Stop);
    let action = harness.submit(ActionKind::ClusterScaleIn, &cluster, json!({"count": 1})).await;
    harness.provider.begun(Verb::Stop, 1).await;
    let nodes = harness.nodes(cluster.id).await;
    let leaving = nodes.iter().find(|node| node.status == NodeStatus::Deleting).expect("one leaves");
    assert_eq!(leaving.status_reason, "being removed; running tasks may finish first");
    harness.provider.release();
    harness.ended(action).await;
}

#[database_test]
async fn a_cluster_is_scaled_out_and_in_by_a_count(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let out = scaled(&harness, ActionKind::ClusterScaleOut, &cluster, json!({"count": 2})).await;
    assert_eq!((out.status, &*out.status_reason), (ActionStatus::Succeeded, "Cluster scaling succeeded."));
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.desired()), (ClusterStatus::Active, 4));
    assert_eq!(
        row.status_reason,
        "CLUSTER_SCALE_OUT: number of active nodes is equal or above desired_capacity (4)."
    );
    assert_eq!(out.data["creation"]["nodes"].as_array().map(Vec::len), Some(2), "who came is kept");
    let before: Vec<NodeId> = harness.nodes(cluster.id).await.iter().map(|node| node.id).collect();
    let inwards = scaled(&harness, ActionKind::ClusterScaleIn, &cluster, json!({})).await;
    assert_eq!(inwards.status_reason, "Cluster scaling succeeded.");
    assert_eq!(harness.cluster(cluster.id).await.desired(), 3);
    let after: Vec<NodeId> = harness.nodes(cluster.id).await.iter().map(|node| node.id).collect();
    let gone: Vec<NodeId> = before.into_iter().filter(|id| !after.contains(id)).collect();
    assert_eq!(inwards.data["deletion"]["candidates"], json!(gone), "who went is kept");
    assert_eq!(harness.children(inwards.id).await[0].kind, ActionKind::NodeDelete);
    harness.assert_agreement(cluster.id).await;
}

#[rstest]
#[case(
    ActionKind::ClusterScaleOut,
    json!({"count": 3}),
    "The target capacity (6) is greater than the cluster's max_size (5)."
)]
#[case(
    ActionKind::ClusterScaleIn,
    json!({"count": 2}),
    "The target capacity (1) is less than the cluster's min_size (2)."
)]
#[case(
    ActionKind::ClusterScaleIn,
    json!({"count": 7}),
    "The target capacity (0) is less than the cluster's min_size (2)."
)]
#[tokio::test]
async fn what_does_not_fit_is_refused_and_changes_nothing(
    #[case] kind: ActionKind,
    #[case] inputs: Value,
    #[case] words: &str,
) {
    let harness = Harness::open(Kind::Sqlite).await.expect("a file");
    let cluster = bounded(&harness, 3).await;
    let action = scaled(&harness, kind, &cluster, inputs).await;
    assert_eq!((action.status, &*action.status_reason), (ActionStatus::Failed, words));
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.desired()), (ClusterStatus::Active, 3));
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_policys_count_goes_before_the_request(kind: Kind) {
    let saying = ScriptedPolicy::default();
    let Some(harness) = setup().policies(Policies::default().with(saying.clone())).open(kind).await else {
        return;
    };
    let cluster = bounded(&harness, 3).await;
    saying.bind(&harness, cluster.id).await;
    saying.say(&json!({"creation": {"count": 2}}));
    scaled(&harness, ActionKind::ClusterScaleOut, &cluster, json!({"count": 1})).await;
    assert_eq!(harness.cluster(cluster.id).await.desired(), 5);
    saying.say(&json!({"creation": {"count": 0}}));
    let nothing = scaled(&harness, ActionKind::ClusterScaleOut, &cluster, json!({})).await;
    assert_eq!(nothing.status, ActionStatus::Succeeded, "{}", nothing.status_reason);
    assert_eq!(harness.nodes(cluster.id).await.len(), 5, "best effort came to nothing");
    let victim = harness.nodes(cluster.id).await[3].id;
    saying.say(&json!({"deletion": {"count": 1, "candidates": [victim]}}));
    scaled(&harness, ActionKind::ClusterScaleIn, &cluster, json!({"count": 3})).await;
    let left = harness.nodes(cluster.id).await;
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|node| node.id != victim), "another one went");
}

#[database_test]
async fn members_are_left_alone_for_the_grace_period(kind: Kind) {
    let (clock, saying) = (ManualClock::default(), ScriptedPolicy::default());
    let policies = Policies::default().with(saying.clone());
    let Some(mut harness) = setup().clock(&clock).policies(policies).open(kind).await else { return };
    let (cluster, _) = harness.created(3).await;
    saying.bind(&harness, cluster.id).await;
    saying.say(&json!({"deletion": {"grace_period": 60}}));
    let action = harness.submit(ActionKind::ClusterScaleIn, &cluster, json!({})).await;
    harness.applied(action).await;
    clock.a_task_sleeps().await;
    assert_eq!(harness.cluster(cluster.id).await.desired(), 2, "the intent is committed first");
    assert_eq!(harness.provider.count(Verb::Stop), 0);
    // Another engine continues the grace period, and does not restart it.
    harness.engine.stop().await;
    clock.advance(TimeSpan::from_secs(59));
    harness.engine = setup().clock(&clock).start(harness.store().clone(), &harness).await;
    clock.a_task_sleeps().await;
    assert_eq!(harness.provider.count(Verb::Stop), 0, "stopped before its time");
    clock.advance(TimeSpan::from_secs(2));
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_grace_period_can_be_cancelled(kind: Kind) {
    let saying = ScriptedPolicy::default();
    let Some(harness) = setup().policies(Policies::default().with(saying.clone())).open(kind).await else {
        return;
    };
    let (cluster, _) = harness.created(3).await;
    saying.bind(&harness, cluster.id).await;
    saying.say(&json!({"deletion": {"grace_period": 3600}}));
    let action = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(1)).await;
    harness.applied(action).await;
    harness.engine.signal(action, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(action).await.status, ActionStatus::Cancelled);
    assert_eq!(harness.provider.running().len(), 3, "no node was stopped");
}

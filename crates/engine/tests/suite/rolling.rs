//! Members are updated to another recipe of their cluster.

use std::collections::HashSet;

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::sample;
use muster_engine::policy::Policies;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::InsertProfile;
use muster_testkit::database_test;
use muster_testkit::fake::Verb;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Harness, setup};
use crate::policies::{attach, ended, policy};

/// Another recipe for nodes of a cluster.
pub(crate) async fn recipe(harness: &Harness, cluster: &Cluster) -> ProfileId {
    let id = ProfileId::from_uuid(Uuid::now_v7());
    let profile =
        muster_core::profile::Profile { id, kind: cluster.profile_type.clone(), ..sample::profile() };
    harness
        .store()
        .insert_profile(InsertProfile { profile, events: Vec::new() })
        .await
        .expect("a new profile");
    id
}

/// The nodes, each with the incarnation that runs.
fn makings(nodes: &[Node]) -> HashSet<(NodeId, Option<String>)> {
    nodes.iter().map(|node| (node.id, node.physical_id.clone())).collect()
}

async fn batches_of_one(harness: &Harness, cluster: &Cluster) {
    let batch = json!({"min_in_service": 1, "max_batch_size": 1, "pause_time": 0});
    let batch = policy(harness, "senlin.policy.batch-1.0", batch).await;
    attach(harness, cluster, &batch).await;
}

/// The maximum of nodes that were stopped at the same time.
fn most_down(harness: &Harness, since: usize) -> usize {
    let mut down = HashSet::new();
    let mut most = 0;
    for entry in harness.provider.log().into_iter().skip(since) {
        match entry.verb {
            Verb::Stop => drop(down.insert(entry.node)),
            Verb::Start => drop(down.remove(&entry.node)),
            _ => {}
        }
        most = most.max(down.len());
    }
    most
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn members_are_recreated_batch_by_batch(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    batches_of_one(&harness, &cluster).await;
    let (before, since) = (makings(&harness.nodes(cluster.id).await), harness.provider.log().len());
    let profile = recipe(&harness, &cluster).await;
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"profile_id": profile})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(action.status_reason, "Cluster update completed.");
    let nodes = harness.nodes(cluster.id).await;
    assert_eq!(nodes.len(), 3);
    for node in &nodes {
        assert_eq!((node.profile_id, node.status), (profile, NodeStatus::Active));
        assert_eq!(node.status_reason, "Update succeeded");
    }
    assert!(makings(&nodes).is_disjoint(&before), "each is another one in the world");
    assert_eq!(most_down(&harness, since), 1);
    assert_eq!(harness.cluster(cluster.id).await.profile_id, profile);
    let children = harness.children(action.id).await;
    assert_eq!(children.len(), 3);
    for child in children {
        assert_eq!((child.kind, child.status), (ActionKind::NodeUpdate, ActionStatus::Succeeded));
        assert_eq!(child.inputs, json!({"new_profile_id": profile}));
    }
    harness.assert_agreement(cluster.id).await;
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn without_a_batch_policy_all_follow_at_once(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let since = harness.provider.log().len();
    let profile = recipe(&harness, &cluster).await;
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"profile_id": profile})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(most_down(&harness, since), 3);
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn only_the_clusters_recipe_changes_where_that_is_asked(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let before = makings(&harness.nodes(cluster.id).await);
    let profile = recipe(&harness, &cluster).await;
    let inputs = json!({"profile_id": profile, "profile_only": true});
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let nodes = harness.nodes(cluster.id).await;
    assert_eq!(makings(&nodes), before);
    assert!(nodes.iter().all(|node| node.profile_id == cluster.profile_id), "nodes keep theirs");
    assert_eq!(harness.cluster(cluster.id).await.profile_id, profile);
    harness.resized(&cluster, 3).await;
    let new = harness.nodes(cluster.id).await.into_iter().filter(|node| node.profile_id == profile).count();
    assert_eq!(new, 1, "what comes is made from the new one");
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn an_engine_that_takes_over_recreates_no_member_twice(mut harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    batches_of_one(&harness, &cluster).await;
    let since = harness.provider.log().len();
    let profile = recipe(&harness, &cluster).await;
    harness.provider.hold_after(Verb::Start, 3 + 1);
    let action = harness.submit(ActionKind::ClusterUpdate, &cluster, json!({"profile_id": profile})).await;
    harness.provider.begun(Verb::Start, 3 + 2).await;
    harness.engine.stop().await;
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let stops = harness.provider.log().into_iter().skip(since).filter(|entry| entry.verb == Verb::Stop);
    let stops: Vec<_> = stops.map(|entry| entry.node).collect();
    assert_eq!((stops.len(), stops.into_iter().collect::<HashSet<_>>().len()), (3, 3), "each once");
    assert!(harness.nodes(cluster.id).await.iter().all(|node| node.profile_id == profile));
    harness.assert_agreement(cluster.id).await;
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn the_first_batch_that_fails_is_the_last(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"env": {"keys": {"A": "1"}}})).await;
    let given = harness.cluster(cluster.id).await.spec;
    batches_of_one(&harness, &cluster).await;
    let profile = recipe(&harness, &cluster).await;
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it cannot start"));
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"profile_id": profile})).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.starts_with("Failed in updating nodes. "), "{}", action.status_reason);
    assert!(action.status_reason.contains("it cannot start"), "{}", action.status_reason);
    let nodes = harness.nodes(cluster.id).await;
    let old = nodes.iter().filter(|node| node.profile_id == cluster.profile_id);
    assert_eq!(
        old.filter(|node| node.status == NodeStatus::Active).count(),
        2,
        "the others are as they were"
    );
    assert_eq!(nodes.iter().filter(|node| node.status == NodeStatus::Error).count(), 1);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.profile_id, &row.spec), (cluster.profile_id, &given), "and so is the cluster");
    assert!(!given.is_empty(), "something could be lost");
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn a_head_is_replaced_first_with_the_workers_that_cannot_outlive_it(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let (before, since) = (makings(&harness.nodes(cluster.id).await), harness.provider.log().len());
    let profile = recipe(&harness, &cluster).await;
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"profile_id": profile})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let nodes = harness.nodes(cluster.id).await;
    assert!(makings(&nodes).is_disjoint(&before));
    assert!(nodes.iter().all(|node| node.profile_id == profile && node.status == NodeStatus::Active));
    assert!(nodes.iter().any(|node| node.role == NodeRole::Head));
    let starts =
        harness.provider.log().into_iter().skip(since).filter(|entry| entry.verb == Verb::Start).count();
    assert_eq!(starts, 3, "each once");
    assert_eq!(harness.cluster(cluster.id).await.incarnation, cluster.incarnation + 1);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_cluster_that_could_not_follow_a_profile_keeps_its_own_and_can_be_deleted(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let other = muster_core::profile::Profile {
        id: ProfileId::from_uuid(Uuid::now_v7()),
        kind: "fake.other-1.0".parse().unwrap(),
        ..sample::profile()
    };
    harness
        .store()
        .insert_profile(InsertProfile { profile: other.clone(), events: Vec::new() })
        .await
        .unwrap();
    for only in [false, true] {
        let inputs = json!({"profile_id": other.id, "profile_only": only});
        let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
        let update = harness.ended(update).await;
        assert_eq!(update.status, ActionStatus::Failed, "{}", update.status_reason);
        assert_eq!(harness.cluster(cluster.id).await.profile_id, cluster.profile_id);
    }
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
}

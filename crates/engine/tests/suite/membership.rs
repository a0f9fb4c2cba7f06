//! Nodes join clusters and leave them.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict};
use muster_core::change::{Change, Check};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{Node, NodeStatus};
use muster_engine::NodeChangeRequest;
use muster_engine::policy::Policies;
use muster_testkit::database_test;
use muster_testkit::fake::{FAKE_NODE, Verb};
use serde_json::{Value, json};

use crate::harness::{self, Harness, Kind, caller, setup};
use crate::nodes::{orphan, row};
use crate::scripted_policy::ScriptedPolicy;

async fn done(harness: &Harness, kind: ActionKind, cluster: &Cluster, inputs: Value) -> Action {
    let action = harness.submit(kind, cluster, inputs).await;
    harness.ended(action).await
}

async fn kinds(harness: &Harness, action: &Action) -> Vec<(ActionKind, ActionStatus)> {
    let children = harness.children(action.id).await;
    let mut kinds: Vec<_> = children.iter().map(|child| (child.kind, child.status)).collect();
    kinds.sort_unstable_by_key(|(kind, _)| kind.as_str());
    kinds
}

#[database_test]
async fn orphans_are_added_and_members_leave_without_anything_being_restarted(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let (one, two) = (orphan(&harness).await, orphan(&harness).await);
    let starts = harness.provider.count(Verb::Start);
    let added =
        done(&harness, ActionKind::ClusterAddNodes, &cluster, json!({"nodes": [one.id, two.id]})).await;
    assert_eq!((added.status, &*added.status_reason), (ActionStatus::Succeeded, "Completed adding nodes."));
    assert_eq!(kinds(&harness, &added).await, [(ActionKind::NodeJoin, ActionStatus::Succeeded); 2]);
    let after = harness.cluster(cluster.id).await;
    assert_eq!((after.desired(), after.status), (3, ClusterStatus::Active));
    let joined = row(&harness, &one).await;
    assert_eq!((joined.cluster_id, &joined.name), (Some(cluster.id), &one.name));
    assert!(joined.index > 1, "index {} was used before", joined.index);
    harness.assert_agreement(cluster.id).await;
    let left = done(&harness, ActionKind::ClusterDelNodes, &cluster, json!({"nodes": [one.id]})).await;
    assert_eq!(left.status_reason, "Completed deleting nodes.");
    assert_eq!(kinds(&harness, &left).await, [(ActionKind::NodeLeave, ActionStatus::Succeeded)]);
    let alone = row(&harness, &one).await;
    assert_eq!((alone.cluster_id, alone.index, alone.status), (None, -1, NodeStatus::Active));
    assert_eq!(harness.cluster(cluster.id).await.desired(), 2);
    assert_eq!((harness.provider.count(Verb::Start), harness.provider.count(Verb::Stop)), (starts, 0));
    let inputs = json!({"nodes": [two.id], "destroy_after_deletion": true});
    let gone = done(&harness, ActionKind::ClusterDelNodes, &cluster, inputs).await;
    assert_eq!(kinds(&harness, &gone).await, [(ActionKind::NodeDelete, ActionStatus::Succeeded)]);
    assert_eq!(harness.store().node(two.id).await.unwrap(), None);
    let deleted = done(&harness, ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running(), [one.id], "who had left went with the cluster");
}

#[database_test]
async fn members_are_replaced_by_orphans(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let (new, old) = (orphan(&harness).await, harness.nodes(cluster.id).await.remove(0));
    let inputs = json!({"nodes": {old.id.to_string(): new.id}});
    let replaced = done(&harness, ActionKind::ClusterReplaceNodes, &cluster, inputs).await;
    assert_eq!(replaced.status_reason, "Completed replacing nodes.");
    let succeeded = ActionStatus::Succeeded;
    assert_eq!(
        kinds(&harness, &replaced).await,
        [(ActionKind::NodeJoin, succeeded), (ActionKind::NodeLeave, succeeded)]
    );
    assert_eq!(row(&harness, &old).await.cluster_id, None);
    assert_eq!(row(&harness, &new).await.cluster_id, Some(cluster.id));
    assert_eq!((harness.cluster(cluster.id).await.desired(), harness.provider.count(Verb::Stop)), (2, 0));
}

#[database_test]
async fn nodes_that_cannot_join_are_named_and_none_joins(harness: Harness) {
    let mut full = harness::cluster(FAKE_NODE, 1);
    full.groups[0].max = Some(1);
    let created = harness.create(&full).await;
    harness.ended(created).await;
    let (free, member) = (orphan(&harness).await, harness.nodes(full.id).await.remove(0));
    let refused =
        done(&harness, ActionKind::ClusterAddNodes, &full, json!({"nodes": [member.id, free.id]})).await;
    assert_eq!(refused.status, ActionStatus::Failed);
    assert_eq!(refused.status_reason, format!("Nodes ['{}'] already owned by some cluster.", member.id));
    let refused = done(&harness, ActionKind::ClusterAddNodes, &full, json!({"nodes": [free.id]})).await;
    let words = "The target capacity (2) is greater than the cluster's max_size (1).";
    assert_eq!(refused.status_reason, words);
    assert_eq!(row(&harness, &free).await.cluster_id, None);
    let after = harness.cluster(full.id).await;
    assert_eq!((after.desired(), after.status), (1, ClusterStatus::Active));
}

#[database_test]
async fn a_node_that_is_busy_is_waited_for(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let (busy, old) = (orphan(&harness).await, harness.nodes(cluster.id).await.remove(0));
    harness.provider.hold(Verb::Observe);
    let check = NodeChangeRequest {
        change: Change::CheckNode(Check::default()),
        node: busy.clone(),

        on_conflict: OnConflict::Reject,
        timeout: None,
    };
    let check = harness.engine.submit_node(check, caller()).await.unwrap().action.id;
    harness.until(check, ActionStatus::Running).await;
    let pairs = json!({"nodes": {old.id.to_string(): busy.id}});
    let replace = harness.submit(ActionKind::ClusterReplaceNodes, &cluster, pairs).await;
    harness.applied(replace).await;
    assert_eq!(row(&harness, &busy).await.cluster_id, None, "it was taken from another action");
    assert_eq!(row(&harness, &old).await.cluster_id, Some(cluster.id), "who is not replaced yet stays");
    harness.provider.release();
    assert_eq!(harness.ended(check).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.ended(replace).await.status, ActionStatus::Succeeded);
    assert_eq!(row(&harness, &busy).await.cluster_id, Some(cluster.id));
}

#[database_test]
async fn policies_say_whether_members_end_and_whether_there_shall_be_fewer(kind: Kind) {
    let saying = ScriptedPolicy::default();
    let Some(harness) = setup().policies(Policies::default().with(saying.clone())).open(kind).await else {
        return;
    };
    let (cluster, _) = harness.created(4).await;
    saying.bind(&harness, cluster.id).await;
    let members = harness.nodes(cluster.id).await;
    saying.say(&json!({"deletion": {"destroy_after_deletion": false}}));
    let scaled = done(&harness, ActionKind::ClusterScaleIn, &cluster, json!({"count": 1})).await;
    assert_eq!(kinds(&harness, &scaled).await, [(ActionKind::NodeLeave, ActionStatus::Succeeded)]);
    assert_eq!((harness.provider.count(Verb::Stop), harness.nodes(cluster.id).await.len()), (0, 3));
    saying.say(&json!({"deletion": {"destroy_after_deletion": true, "reduce_desired_capacity": false}}));
    let left: Vec<Node> = harness.nodes(cluster.id).await;
    let removed = done(&harness, ActionKind::ClusterDelNodes, &cluster, json!({"nodes": [left[0].id]})).await;
    assert_eq!(kinds(&harness, &removed).await, [(ActionKind::NodeDelete, ActionStatus::Succeeded)]);
    let after = harness.cluster(cluster.id).await;
    assert_eq!((after.desired(), after.status), (3, ClusterStatus::Warning), "{}", after.status_reason);
    assert_eq!(members.len(), 4);
}

#[database_test]
async fn workers_that_need_their_head_only_end(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let nodes = harness.nodes(cluster.id).await;
    let (head, worker) = (nodes[0].id, nodes[1].id);
    let refused = done(&harness, ActionKind::ClusterDelNodes, &cluster, json!({"nodes": [worker]})).await;
    let words = "workers of fake.cluster-1.0 cannot leave; pass destroy_after_deletion";
    assert_eq!(refused.status_reason, words);
    let inputs = json!({"nodes": [head], "destroy_after_deletion": true});
    let refused = done(&harness, ActionKind::ClusterDelNodes, &cluster, inputs).await;
    assert_eq!(
        refused.status_reason,
        "the head cannot be removed from its cluster: delete the cluster instead"
    );
    let inputs = json!({"nodes": [worker], "destroy_after_deletion": true});
    let gone = done(&harness, ActionKind::ClusterDelNodes, &cluster, inputs).await;
    assert_eq!(gone.status, ActionStatus::Succeeded, "{}", gone.status_reason);
    harness.assert_agreement(cluster.id).await;
}

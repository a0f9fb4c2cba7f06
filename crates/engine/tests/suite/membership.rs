//! Nodes come into clusters and leave them.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{Node, NodeStatus};
use muster_engine::NodeChange;
use muster_engine::policy::Policies;
use muster_testkit::fake::{FAKE_NODE, Verb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::{self, Fixture, Kind, caller};
use crate::nodes::{orphan, row};
use crate::saying::Saying;

async fn done(world: &Fixture, kind: ActionKind, cluster: &Cluster, inputs: Value) -> Action {
    let action = world.submit(kind, cluster, inputs).await;
    world.ended(action).await
}

async fn kinds(world: &Fixture, action: &Action) -> Vec<(ActionKind, ActionStatus)> {
    let children = world.children(action.id).await;
    let mut kinds: Vec<_> = children.iter().map(|child| (child.kind, child.status)).collect();
    kinds.sort_unstable_by_key(|(kind, _)| kind.as_str());
    kinds
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn orphans_are_added_and_members_leave_without_anything_being_restarted(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    let (one, two) = (orphan(&world).await, orphan(&world).await);
    let starts = world.world.count(Verb::Start);
    let added = done(&world, ActionKind::ClusterAddNodes, &cluster, json!({"nodes": [one.id, two.id]})).await;
    assert_eq!((added.status, &*added.status_reason), (ActionStatus::Succeeded, "Completed adding nodes."));
    assert_eq!(kinds(&world, &added).await, [(ActionKind::NodeJoin, ActionStatus::Succeeded); 2]);
    let after = world.cluster(cluster.id).await;
    assert_eq!((after.desired(), after.status), (3, ClusterStatus::Active));
    let joined = row(&world, &one).await;
    assert_eq!((joined.cluster_id, &joined.name), (Some(cluster.id), &one.name));
    assert!(joined.index > 1, "index {} was used before", joined.index);
    world.assert_agreement(cluster.id).await;
    let left = done(&world, ActionKind::ClusterDelNodes, &cluster, json!({"nodes": [one.id]})).await;
    assert_eq!(left.status_reason, "Completed deleting nodes.");
    assert_eq!(kinds(&world, &left).await, [(ActionKind::NodeLeave, ActionStatus::Succeeded)]);
    let alone = row(&world, &one).await;
    assert_eq!((alone.cluster_id, alone.index, alone.status), (None, -1, NodeStatus::Active));
    assert_eq!(world.cluster(cluster.id).await.desired(), 2);
    assert_eq!((world.world.count(Verb::Start), world.world.count(Verb::Stop)), (starts, 0));
    let inputs = json!({"nodes": [two.id], "destroy_after_deletion": true});
    let gone = done(&world, ActionKind::ClusterDelNodes, &cluster, inputs).await;
    assert_eq!(kinds(&world, &gone).await, [(ActionKind::NodeDelete, ActionStatus::Succeeded)]);
    assert_eq!(world.store().node(two.id).await.unwrap(), None);
    let deleted = done(&world, ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running(), [one.id], "who had left went with the cluster");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn members_are_replaced_by_orphans(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(2).await;
    let (new, old) = (orphan(&world).await, world.nodes(cluster.id).await.remove(0));
    let inputs = json!({"nodes": {old.id.to_string(): new.id}});
    let replaced = done(&world, ActionKind::ClusterReplaceNodes, &cluster, inputs).await;
    assert_eq!(replaced.status_reason, "Completed replacing nodes.");
    let succeeded = ActionStatus::Succeeded;
    assert_eq!(
        kinds(&world, &replaced).await,
        [(ActionKind::NodeJoin, succeeded), (ActionKind::NodeLeave, succeeded)]
    );
    assert_eq!(row(&world, &old).await.cluster_id, None);
    assert_eq!(row(&world, &new).await.cluster_id, Some(cluster.id));
    assert_eq!((world.cluster(cluster.id).await.desired(), world.world.count(Verb::Stop)), (2, 0));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn who_cannot_come_is_named_and_nobody_comes(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let mut full = fixture::cluster(FAKE_NODE, 1);
    full.groups[0].max = Some(1);
    let created = world.create(&full).await;
    world.ended(created).await;
    let (free, member) = (orphan(&world).await, world.nodes(full.id).await.remove(0));
    let refused =
        done(&world, ActionKind::ClusterAddNodes, &full, json!({"nodes": [member.id, free.id]})).await;
    assert_eq!(refused.status, ActionStatus::Failed);
    assert_eq!(refused.status_reason, format!("Nodes ['{}'] already owned by some cluster.", member.id));
    let refused = done(&world, ActionKind::ClusterAddNodes, &full, json!({"nodes": [free.id]})).await;
    let words = "The target capacity (2) is greater than the cluster's max_size (1).";
    assert_eq!(refused.status_reason, words);
    assert_eq!(row(&world, &free).await.cluster_id, None);
    let after = world.cluster(full.id).await;
    assert_eq!((after.desired(), after.status), (1, ClusterStatus::Active));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_is_busy_is_waited_for(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    let (busy, old) = (orphan(&world).await, world.nodes(cluster.id).await.remove(0));
    world.world.hold(Verb::Observe);
    let check = NodeChange {
        kind: ActionKind::NodeCheck,
        node: busy.clone(),
        inputs: json!({}),
        on_conflict: OnConflict::Reject,
        timeout: None,
    };
    let check = world.engine.submit_node(check, caller()).await.unwrap().action.id;
    world.until(check, ActionStatus::Running).await;
    let pairs = json!({"nodes": {old.id.to_string(): busy.id}});
    let replace = world.submit(ActionKind::ClusterReplaceNodes, &cluster, pairs).await;
    world.applied(replace).await;
    assert_eq!(row(&world, &busy).await.cluster_id, None, "it was taken from another action");
    assert_eq!(row(&world, &old).await.cluster_id, Some(cluster.id), "who is not replaced yet stays");
    world.world.release();
    assert_eq!(world.ended(check).await.status, ActionStatus::Succeeded);
    assert_eq!(world.ended(replace).await.status, ActionStatus::Succeeded);
    assert_eq!(row(&world, &busy).await.cluster_id, Some(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn policies_say_whether_members_end_and_whether_there_shall_be_fewer(#[case] kind: Kind) {
    let saying = Saying::default();
    let Some(world) = Fixture::open_with(kind, Policies::default().with(saying.clone())).await else {
        return;
    };
    let (cluster, _) = world.created(4).await;
    saying.bind(&world, cluster.id).await;
    let members = world.nodes(cluster.id).await;
    saying.say(&json!({"deletion": {"destroy_after_deletion": false}}));
    let scaled = done(&world, ActionKind::ClusterScaleIn, &cluster, json!({"count": 1})).await;
    assert_eq!(kinds(&world, &scaled).await, [(ActionKind::NodeLeave, ActionStatus::Succeeded)]);
    assert_eq!((world.world.count(Verb::Stop), world.nodes(cluster.id).await.len()), (0, 3));
    saying.say(&json!({"deletion": {"destroy_after_deletion": true, "reduce_desired_capacity": false}}));
    let left: Vec<Node> = world.nodes(cluster.id).await;
    let removed = done(&world, ActionKind::ClusterDelNodes, &cluster, json!({"nodes": [left[0].id]})).await;
    assert_eq!(kinds(&world, &removed).await, [(ActionKind::NodeDelete, ActionStatus::Succeeded)]);
    let after = world.cluster(cluster.id).await;
    assert_eq!((after.desired(), after.status), (3, ClusterStatus::Warning), "{}", after.status_reason);
    assert_eq!(members.len(), 4);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn workers_that_need_their_head_only_end(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(2).await;
    let nodes = world.nodes(cluster.id).await;
    let (head, worker) = (nodes[0].id, nodes[1].id);
    let refused = done(&world, ActionKind::ClusterDelNodes, &cluster, json!({"nodes": [worker]})).await;
    let words = "workers of fake.cluster-1.0 cannot leave; pass destroy_after_deletion";
    assert_eq!(refused.status_reason, words);
    let inputs = json!({"nodes": [head], "destroy_after_deletion": true});
    let refused = done(&world, ActionKind::ClusterDelNodes, &cluster, inputs).await;
    assert_eq!(refused.status_reason, "the head goes only with its cluster: delete that instead");
    let inputs = json!({"nodes": [worker], "destroy_after_deletion": true});
    let gone = done(&world, ActionKind::ClusterDelNodes, &cluster, inputs).await;
    assert_eq!(gone.status, ActionStatus::Succeeded, "{}", gone.status_reason);
    world.assert_agreement(cluster.id).await;
}

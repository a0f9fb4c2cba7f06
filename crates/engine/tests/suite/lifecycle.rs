//! The lifecycle of a cluster: create, grow, shrink, delete; and its failures.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::ClusterStatus;
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::profile::Profile;
use muster_core::sample;
use muster_engine::SubmitError;
use muster_engine::ports::provider::ProviderError;
use muster_store::reads::{ActionQuery, ClusterQuery};
use muster_testkit::database_test;
use muster_testkit::fake::{FAKE_NODE, Verb};
use serde_json::json;

use crate::harness::{self, Harness, exactly};

#[database_test]
async fn a_cluster_is_created_in_at_most_six_commits_whatever_its_size(harness: Harness) {
    for workers in [1, 200] {
        let before = harness.store().commits();
        let (cluster, action) = harness.created(workers).await;
        assert_eq!(
            (action.status, action.status_reason.as_str()),
            (ActionStatus::Succeeded, "Cluster creation succeeded.")
        );
        let commits = harness.store().commits() - before;
        assert!(commits <= 6, "{commits} commits");
        let row = harness.cluster(cluster.id).await;
        assert_eq!(row.status, ClusterStatus::Active);
        assert_eq!(
            row.status_reason,
            format!("CLUSTER_CREATE: number of active nodes is equal or above desired_capacity ({workers}).")
        );
        assert!(row.created_at.is_some());
        let nodes = harness.nodes(cluster.id).await;
        assert_eq!(nodes.len(), usize::try_from(workers).unwrap());
        assert!(nodes.iter().all(|node| node.status == NodeStatus::Active && node.physical_id.is_some()));
        let children =
            harness.store().actions(&ActionQuery { parent: Some(action.id), ..ActionQuery::default() }).await;
        let children = children.unwrap().items;
        assert_eq!(children.len(), nodes.len());
        assert!(children.iter().all(|child| child.status == ActionStatus::Succeeded));
        assert!(children.iter().all(|child| child.kind == ActionKind::NodeCreate));
    }
}

#[database_test]
async fn it_grows_shrinks_and_is_deleted_without_a_trace_in_the_world(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    assert_eq!(harness.resized(&cluster, 5).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running().len(), 5);
    assert_eq!(harness.resized(&cluster, 1).await.status, ActionStatus::Succeeded);
    harness.assert_agreement(cluster.id).await;
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.desired(), row.generation), (ClusterStatus::Active, 1, 3));
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running(), []);
    assert_eq!(harness.nodes(cluster.id).await, []);
    let gone = harness.cluster(cluster.id).await;
    assert!(gone.deleted_at.is_some(), "it stays as history");
    assert_eq!(gone.status, ClusterStatus::Deleted);
}

#[database_test]
async fn a_head_is_up_before_its_workers_and_is_not_counted(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let nodes = harness.nodes(cluster.id).await;
    let head = nodes.iter().find(|node| node.role == NodeRole::Head).expect("a head");
    assert_eq!((head.index, nodes.len()), (0, 3));
    let started: Vec<_> =
        harness.provider.log().iter().filter(|entry| entry.verb == Verb::Start).map(|e| e.node).collect();
    assert_eq!(started[0], Some(head.id));
    assert_eq!(harness.cluster(cluster.id).await.desired(), 2);
}

#[database_test]
async fn a_node_that_cannot_start_fails_the_action_and_says_why(harness: Harness) {
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("NoImage", "there is no image 'x'"));
    let (cluster, action) = harness.created(3).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("there is no image 'x'"), "{}", action.status_reason);
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Warning);
    assert!(row.status_reason.contains("there is no image 'x'"), "{}", row.status_reason);
    let nodes = harness.nodes(cluster.id).await;
    let failed: Vec<_> = nodes.iter().filter(|node| node.status == NodeStatus::Error).collect();
    assert_eq!((failed.len(), failed[0].status_reason.as_str()), (1, "there is no image 'x'"));
    assert_eq!(harness.provider.running().len(), 2, "the others continue");
    assert_eq!(harness.provider.count(Verb::Start), 3, "it was tried again");
}

#[database_test]
async fn a_failure_for_the_moment_is_tried_again(harness: Harness) {
    harness.provider.fail_next(Verb::Start, ProviderError::transient("Busy", "busy"));
    harness.provider.fail_next(Verb::Observe, ProviderError::transient("Blind", "cannot see"));
    let (cluster, action) = harness.created(1).await;
    assert_eq!(action.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.count(Verb::Start), 2);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_resize_beyond_the_bounds_fails_in_the_action_too(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let inputs = json!({"adjustment_type": "EXACT_CAPACITY", "number": 5, "max_size": 3});
    let action = harness.submit(ActionKind::ClusterResize, &cluster, inputs).await;
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "The target capacity (5) is greater than the specified max_size (3).");
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.max_size(), row.status), (1, None, ClusterStatus::Active));
}

#[database_test]
async fn bad_nodes_go_first_when_it_shrinks(harness: Harness) {
    let (cluster, _) = harness.created(4).await;
    let victim = harness.nodes(cluster.id).await[2].id;
    harness.provider.kill(victim, "exit status 1");
    let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    harness.ended(check).await;
    harness.resized(&cluster, 3).await;
    assert!(harness.nodes(cluster.id).await.iter().all(|node| node.id != victim), "the bad node stayed");
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn actions_on_one_cluster_run_one_after_the_other(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let first = harness.submit(ActionKind::ClusterResize, &cluster, exactly(2)).await;
    let second = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    harness.applied(first).await;
    assert_eq!(harness.action(second).await.status, ActionStatus::Ready);
    harness.provider.release();
    let (first, second) = (harness.ended(first).await, harness.ended(second).await);
    let fences: Vec<_> = harness.provider.log().iter().map(|entry| entry.fence).collect();
    assert!(fences.is_sorted(), "they ran at once: {fences:?}");
    assert!(fences.contains(&first.fence) && fences.contains(&second.fence));
    assert_eq!(harness.cluster(cluster.id).await.desired(), 4);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_delete_that_preempts_ends_the_resize_and_leaves_nothing(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(6)).await;
    harness.applied(resize).await;
    let delete = harness.submit_or(ActionKind::ClusterDelete, &cluster, json!({}), OnConflict::Preempt).await;
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Cancelled);
    harness.provider.release();
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running(), []);
}

#[database_test]
async fn a_cluster_whose_head_never_worked_is_an_error(harness: Harness) {
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("NodeExited", "it exited with code 3"));
    let cluster = harness.created_with_head(2).await;
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Error);
    assert!(row.status_reason.starts_with("CLUSTER_CREATE: the head did not start. "), "{row:?}");
    assert!(
        row.status_reason.contains("it exited with code 3. Creation did not succeed"),
        "{}",
        row.status_reason
    );
    assert_eq!(harness.provider.count(Verb::Start), 1, "workers have nothing to work for");
}

#[database_test]
async fn of_many_failures_the_first_few_are_named(harness: Harness) {
    for _ in 0..5 {
        harness.provider.fail_next(Verb::Start, ProviderError::permanent("NoImage", "there is no image 'x'"));
    }
    let (_, action) = harness.created(5).await;
    assert_eq!(action.status_reason.matches("there is no image 'x'").count(), 3, "{}", action.status_reason);
    assert!(action.status_reason.ends_with("; and 2 more"), "{}", action.status_reason);
}

#[database_test]
async fn permanent_gaps_are_refused_before_anything_is_stored(harness: Harness) {
    let create = async |error: ProviderError| {
        harness.provider.fail_next(Verb::Admit, error);
        let cluster = harness::cluster(FAKE_NODE, 1);
        let profile =
            Profile { id: cluster.profile_id, kind: cluster.profile_type.clone(), ..sample::profile() };
        harness
            .engine
            .create_cluster(cluster, muster_engine::Recipe::New(profile), true, harness::caller())
            .await
    };
    let refused = create(ProviderError::permanent("FrameworkMissing", "dask is not installed")).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    assert_eq!(missing.reason, "FrameworkMissing");
    let stored = harness.store().clusters(&ClusterQuery::default()).await.unwrap().items;
    assert!(stored.is_empty(), "{stored:?}");
    create(ProviderError::transient("Busy", "unknown for now")).await.unwrap();
}

#[database_test]
async fn a_cluster_whose_profile_is_gone_can_be_deleted(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    harness.fresh.execute(&format!("DELETE FROM profiles WHERE id = '{}'", cluster.profile_id)).await;
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    let deleted = harness.ended(delete).await;
    assert_eq!(
        (deleted.status, deleted.status_reason.as_str()),
        (ActionStatus::Succeeded, "Cluster deletion succeeded.")
    );
    assert!(harness.provider.running().is_empty(), "its nodes are gone");
}

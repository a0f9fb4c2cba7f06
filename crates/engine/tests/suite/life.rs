//! A whole life: create, grow, shrink, delete; and what goes wrong on the way.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::ClusterStatus;
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::profile::Profile;
use muster_core::sample;
use muster_engine::SubmitError;
use muster_engine::ports::provider::ProviderError;
use muster_store::reads::{ActionQuery, ClusterQuery};
use muster_testkit::fake::{FAKE_NODE, Verb};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{self, Fixture, Kind, exactly};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_is_created_in_at_most_six_commits_whatever_its_size(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    for workers in [1, 200] {
        let before = world.store().commits();
        let (cluster, action) = world.created(workers).await;
        assert_eq!(
            (action.status, action.status_reason.as_str()),
            (ActionStatus::Succeeded, "Cluster creation succeeded.")
        );
        let commits = world.store().commits() - before;
        assert!(commits <= 6, "{commits} commits");
        let row = world.cluster(cluster.id).await;
        assert_eq!(row.status, ClusterStatus::Active);
        assert_eq!(
            row.status_reason,
            format!("CLUSTER_CREATE: number of active nodes is equal or above desired_capacity ({workers}).")
        );
        assert!(row.created_at.is_some());
        let nodes = world.nodes(cluster.id).await;
        assert_eq!(nodes.len(), usize::try_from(workers).unwrap());
        assert!(nodes.iter().all(|node| node.status == NodeStatus::Active && node.physical_id.is_some()));
        let children =
            world.store().actions(&ActionQuery { parent: Some(action.id), ..ActionQuery::default() }).await;
        let children = children.unwrap().items;
        assert_eq!(children.len(), nodes.len());
        assert!(children.iter().all(|child| child.status == ActionStatus::Succeeded));
        assert!(children.iter().all(|child| child.kind == ActionKind::NodeCreate));
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn it_grows_shrinks_and_is_deleted_without_a_trace_in_the_world(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(2).await;
    assert_eq!(world.resized(&cluster, 5).await.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running().len(), 5);
    assert_eq!(world.resized(&cluster, 1).await.status, ActionStatus::Succeeded);
    world.assert_agreement(cluster.id).await;
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.status, row.desired(), row.generation), (ClusterStatus::Active, 1, 3));
    let delete = world.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(world.ended(delete).await.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running(), []);
    assert_eq!(world.nodes(cluster.id).await, []);
    let gone = world.cluster(cluster.id).await;
    assert!(gone.deleted_at.is_some(), "it stays as history");
    assert_eq!(gone.status, ClusterStatus::Deleted);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_head_is_up_before_its_workers_and_is_not_counted(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(2).await;
    let nodes = world.nodes(cluster.id).await;
    let head = nodes.iter().find(|node| node.role == NodeRole::Head).expect("a head");
    assert_eq!((head.index, nodes.len()), (0, 3));
    let started: Vec<_> =
        world.world.log().iter().filter(|entry| entry.verb == Verb::Start).map(|e| e.node).collect();
    assert_eq!(started[0], Some(head.id));
    assert_eq!(world.cluster(cluster.id).await.desired(), 2);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_cannot_start_fails_the_action_and_says_why(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    world.world.fail_next(Verb::Start, ProviderError::permanent("NoImage", "there is no image 'x'"));
    let (cluster, action) = world.created(3).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("there is no image 'x'"), "{}", action.status_reason);
    let row = world.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Warning);
    assert!(row.status_reason.contains("there is no image 'x'"), "{}", row.status_reason);
    let nodes = world.nodes(cluster.id).await;
    let failed: Vec<_> = nodes.iter().filter(|node| node.status == NodeStatus::Error).collect();
    assert_eq!((failed.len(), failed[0].status_reason.as_str()), (1, "there is no image 'x'"));
    assert_eq!(world.world.running().len(), 2, "the others go on");
    assert_eq!(world.world.count(Verb::Start), 3, "it was tried again");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_failure_for_the_moment_is_tried_again(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    world.world.fail_next(Verb::Start, ProviderError::transient("Busy", "busy"));
    world.world.fail_next(Verb::Observe, ProviderError::transient("Blind", "cannot see"));
    let (cluster, action) = world.created(1).await;
    assert_eq!(action.status, ActionStatus::Succeeded);
    assert_eq!(world.world.count(Verb::Start), 2);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_resize_beyond_the_bounds_fails_in_the_action_too(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    let inputs = json!({"adjustment_type": "EXACT_CAPACITY", "number": 5, "max_size": 3});
    let action = world.submit(ActionKind::ClusterResize, &cluster, inputs).await;
    let action = world.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "The target capacity (5) is greater than the specified max_size (3).");
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.max_size(), row.status), (1, None, ClusterStatus::Active));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn bad_nodes_go_first_when_it_shrinks(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(4).await;
    let victim = world.nodes(cluster.id).await[2].id;
    world.world.kill(victim, "exit status 1");
    let check = world.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    world.ended(check).await;
    world.resized(&cluster, 3).await;
    assert!(world.nodes(cluster.id).await.iter().all(|node| node.id != victim), "the bad node stayed");
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn actions_on_one_cluster_run_one_after_the_other(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let first = world.submit(ActionKind::ClusterResize, &cluster, exactly(2)).await;
    let second = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    world.applied(first).await;
    assert_eq!(world.action(second).await.status, ActionStatus::Ready);
    world.world.release();
    let (first, second) = (world.ended(first).await, world.ended(second).await);
    let fences: Vec<_> = world.world.log().iter().map(|entry| entry.fence).collect();
    assert!(fences.is_sorted(), "they ran at once: {fences:?}");
    assert!(fences.contains(&first.fence) && fences.contains(&second.fence));
    assert_eq!(world.cluster(cluster.id).await.desired(), 4);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_delete_that_preempts_ends_the_resize_and_leaves_nothing(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(6)).await;
    world.applied(resize).await;
    let delete = world.submit_or(ActionKind::ClusterDelete, &cluster, json!({}), OnConflict::Preempt).await;
    assert_eq!(world.ended(resize).await.status, ActionStatus::Cancelled);
    world.world.release();
    assert_eq!(world.ended(delete).await.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running(), []);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_whose_head_never_worked_is_an_error(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    world.world.fail_next(Verb::Start, ProviderError::permanent("NodeExited", "it exited with code 3"));
    let cluster = world.created_with_head(2).await;
    let row = world.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Error);
    assert!(row.status_reason.starts_with("CLUSTER_CREATE: the head did not start. "), "{row:?}");
    assert!(
        row.status_reason.contains("it exited with code 3. Nothing is brought back"),
        "{}",
        row.status_reason
    );
    assert_eq!(world.world.count(Verb::Start), 1, "workers have nothing to work for");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn of_many_failures_the_first_few_are_told(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    for _ in 0..5 {
        world.world.fail_next(Verb::Start, ProviderError::permanent("NoImage", "there is no image 'x'"));
    }
    let (_, action) = world.created(5).await;
    assert_eq!(action.status_reason.matches("there is no image 'x'").count(), 3, "{}", action.status_reason);
    assert!(action.status_reason.ends_with("; and 2 more"), "{}", action.status_reason);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_is_missing_for_good_is_said_before_anything_is_stored(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let create = async |error: ProviderError| {
        world.world.fail_next(Verb::Admit, error);
        let cluster = fixture::cluster(FAKE_NODE, 1);
        let profile =
            Profile { id: cluster.profile_id, kind: cluster.profile_type.clone(), ..sample::profile() };
        world
            .engine
            .create_cluster(cluster, muster_engine::Recipe::New(profile), true, fixture::caller())
            .await
    };
    let refused = create(ProviderError::permanent("FrameworkMissing", "dask is not installed")).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    assert_eq!(missing.reason, "FrameworkMissing");
    let stored = world.store().clusters(&ClusterQuery::default()).await.unwrap().items;
    assert!(stored.is_empty(), "{stored:?}");
    create(ProviderError::transient("Busy", "nobody can tell now")).await.unwrap();
}

//! What dies is seen, told, and brought back.

use muster_core::action::{ActionKind, ActionStatus, Cause, OnConflict};
use muster_core::cluster::ClusterStatus;
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_engine::Change;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::SignalKind;
use muster_store::reads::{ActionQuery, EventQuery};
use muster_testkit::fake::{FAKE_CLUSTER, Verb};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{self, Fixture, Kind, caller};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_lost_worker_is_told_and_brought_back(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(2).await;
    let worker =
        world.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Worker).unwrap();
    world.world.kill(worker.id, "killed by signal 9");
    world.until_healed(cluster.id).await;
    let events =
        world.store().events(&EventQuery { cluster: Some(cluster.id), ..EventQuery::default() }).await;
    let told: Vec<_> = events.unwrap().items.into_iter().filter(|event| event.reason == "NodeLost").collect();
    assert_eq!((told.len(), told[0].message.as_str()), (1, "killed by signal 9"));
    let node = world.store().node(worker.id).await.unwrap().unwrap();
    assert_eq!((node.status, node.starts.len()), (NodeStatus::Active, 1), "its creation does not count");
    assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Active);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_lost_head_comes_back_and_takes_the_workers_along_that_cannot_rejoin(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(2).await;
    let head = world.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Head).unwrap();
    let started = world.world.count(Verb::Start);
    world.world.kill(head.id, "killed by signal 9");
    world.until_healed(cluster.id).await;
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.status, row.incarnation), (ClusterStatus::Active, 2));
    let nodes = world.nodes(cluster.id).await;
    assert!(nodes.iter().all(|node| node.incarnation == 2 && node.status == NodeStatus::Active), "{nodes:?}");
    assert_eq!(world.world.count(Verb::Start) - started, 3, "the head and both workers");
    let starts = |role| nodes.iter().find(|node| node.role == role).map(|node| node.starts.len());
    assert_eq!(starts(NodeRole::Head), Some(1), "its crash counts");
    assert_eq!(starts(NodeRole::Worker), Some(1), "theirs was none");
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_worker_that_died_while_no_engine_ran_is_found_and_brought_back(#[case] kind: Kind) {
    let Some(mut world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(2).await;
    let worker =
        world.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Worker).unwrap();
    world.engine.stop().await;
    world.world.kill(worker.id, "killed by signal 9");
    world.engine = fixture::engine(world.store().clone(), &world.world).await;
    world.until_healed(cluster.id).await;
    assert_eq!(world.world.running().len(), 3);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_type_without_default_healing_only_tells(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(2).await;
    let worker = world.nodes(cluster.id).await[0].id;
    world.world.kill(worker, "killed by signal 9");
    world.until_status(cluster.id, ClusterStatus::Warning).await;
    let actions =
        world.store().actions(&ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() }).await;
    assert!(actions.unwrap().items.iter().all(|action| action.cause != Cause::Healing));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn restarting_the_head_replaces_the_workers_that_cannot_outlive_it(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(2).await;
    let before = world.nodes(cluster.id).await;
    let head = before.iter().find(|node| node.role == NodeRole::Head).unwrap();
    let started = world.world.count(Verb::Start);
    let change = Change {
        kind: ActionKind::NodeRecover,
        cluster: world.cluster(cluster.id).await,
        node: Some(head.id),
        inputs: json!({}),
        on_conflict: OnConflict::Queue,
        timeout: None,
    };
    world.world.hold(Verb::Start);
    let action = world.engine.submit(change, caller()).await.unwrap().action.id;
    world.world.begun(Verb::Start, started + 1).await;
    let recovering = world.nodes(cluster.id).await;
    let recovers = |node: &Node| node.status == NodeStatus::Recovering;
    assert!(recovering.iter().all(recovers), "one that was stopped on request would be taken for lost");
    world.world.release();
    assert_eq!(world.ended(action).await.status, ActionStatus::Succeeded);
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.incarnation, row.status), (2, ClusterStatus::Active));
    let after = world.nodes(cluster.id).await;
    assert!(after.iter().all(|node| node.incarnation == 2 && node.status == NodeStatus::Active));
    assert!(after.iter().all(|node| node.starts.len() == 1), "it counts as a crash");
    assert_eq!(world.world.count(Verb::Start) - started, 3, "the head and both workers");
    assert_eq!(
        before.iter().map(|node| node.id).collect::<Vec<_>>(),
        after.iter().map(|node| node.id).collect::<Vec<_>>()
    );
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_a_cancelled_action_leaves_is_shown_as_it_is(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(3).await;
    world.world.hold(Verb::Stop);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, fixture::exactly(1)).await;
    world.world.begun(Verb::Stop, 1).await;
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Cancelled);
    let nodes = world.nodes(cluster.id).await;
    let works = |node: &Node| node.status == NodeStatus::Active && node.physical_id.is_some();
    assert!(nodes.len() == 3 && nodes.iter().all(works), "all of them run: {nodes:?}");
    world.world.release();
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_ended_with_its_machine_waits_for_its_user(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (headless, _) = world.created(2).await;
    for cluster in [world.created_with_head(2).await, headless] {
        world.world.reboot();
        world.until_status(cluster.id, ClusterStatus::Critical).await;
        let row = world.cluster(cluster.id).await;
        assert!(row.status_reason.starts_with("HostRestarted: its machine was restarted"), "{row:?}");
        let query = EventQuery { cluster: Some(cluster.id), ..EventQuery::default() };
        let events = world.store().events(&query).await.unwrap().items;
        let told = events.iter().filter(|event| event.reason == "HostRestarted").count();
        assert_eq!(told, world.nodes(cluster.id).await.len(), "each of them");
        let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
        let actions = world.store().actions(&query).await.unwrap().items;
        assert!(actions.iter().all(|action| action.cause != Cause::Healing), "{actions:?}");
        assert_eq!(world.resized(&row, 3).await.status, ActionStatus::Succeeded);
        assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Active);
        let deleted = world.submit(ActionKind::ClusterDelete, &row, json!({})).await;
        assert_eq!(world.ended(deleted).await.status, ActionStatus::Succeeded);
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_lost_head_is_critical_only_once_it_was_given_up(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = world.created_with_head(1).await;
    let head = world.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Head).unwrap();
    world.world.hold(Verb::Start);
    world.world.kill(head.id, "killed by signal 9");
    world.until_status(cluster.id, ClusterStatus::Recovering).await;
    world.world.fail_next(Verb::Start, ProviderError::permanent("PortInUse", "port 1 is in use"));
    world.world.release();
    world.until_healed(cluster.id).await;
    let row = world.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Critical);
    assert!(row.status_reason.contains("port 1 is in use"), "{}", row.status_reason);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_whose_creation_was_cancelled_is_left_alone_until_somebody_asks(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let cluster = fixture::cluster(FAKE_CLUSTER, 2);
    world.world.hold_after(Verb::Start, 1);
    let create = world.create(&cluster).await;
    world.world.begun(Verb::Start, 2).await;
    world.engine.signal(create, SignalKind::Cancel).await.unwrap();
    assert_eq!(world.ended(create).await.status, ActionStatus::Cancelled);
    let row = world.cluster(cluster.id).await;
    assert!(
        row.status_reason.contains("Action execution cancelled. Nothing is brought back unasked"),
        "{row:?}"
    );
    world.world.release();
    let nodes = world.nodes(cluster.id).await;
    let head = nodes.iter().find(|node| node.role == NodeRole::Head).unwrap();
    world.world.kill(head.id, "killed by signal 9");
    world.until_status(cluster.id, ClusterStatus::Critical).await;
    let row = world.cluster(cluster.id).await;
    assert!(row.status_reason.contains("signal 9. Nothing is brought back unasked"), "{row:?}");
    let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    let healings = async || {
        let actions = world.store().actions(&query).await.unwrap().items;
        actions.iter().filter(|action| action.cause == Cause::Healing).count()
    };
    assert_eq!(healings().await, 0);
    assert_eq!(world.resized(&row, 2).await.status, ActionStatus::Succeeded);
    world.world.kill(head.id, "killed by signal 9");
    world.until_healed(cluster.id).await;
    assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Active);
}

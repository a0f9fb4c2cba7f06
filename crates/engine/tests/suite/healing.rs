//! Lost nodes are observed, recorded as events, and recovered.

use muster_core::action::{ActionKind, ActionStatus, Cause, OnConflict};
use muster_core::change::{Change, Recovery};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{Node, NodeRole, NodeStatus, START_BUDGET};
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::ProviderError;
use muster_engine::{ChangeRequest, Config};
use muster_store::commands::SignalKind;
use muster_store::reads::{ActionQuery, EventQuery};
use muster_testkit::fake::{FAKE_CLUSTER, Verb};
use muster_testkit::{database_test, eventually};
use serde_json::json;

use crate::harness::{self, Harness, PATIENCE, caller, setup};

#[database_test]
async fn a_lost_worker_is_an_event_and_is_recovered(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let worker =
        harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Worker).unwrap();
    harness.provider.kill(worker.id, "killed by signal 9");
    harness.until_healed(cluster.id).await;
    let events =
        harness.store().events(&EventQuery { cluster: Some(cluster.id), ..EventQuery::default() }).await;
    let recorded: Vec<_> =
        events.unwrap().items.into_iter().filter(|event| event.reason == "NodeLost").collect();
    assert_eq!((recorded.len(), recorded[0].message.as_str()), (1, "killed by signal 9"));
    let node = harness.store().node(worker.id).await.unwrap().unwrap();
    assert_eq!((node.status, node.starts.len()), (NodeStatus::Active, 1), "its creation does not count");
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
    harness.assert_agreement(cluster.id).await;
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn a_worker_that_is_lost_while_another_action_waits_is_healed_afterwards(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let worker = worker(&harness, &cluster).await;
    // A suspended action waits for the cluster: meanwhile nothing is healed.
    harness.provider.hold(Verb::Start);
    let grow = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(2)).await;
    harness.applied(grow).await;
    let waiting = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    harness.engine.signal(waiting, SignalKind::Suspend, None).await.unwrap();
    harness.provider.release();
    assert_eq!(harness.ended(grow).await.status, ActionStatus::Succeeded);
    harness.provider.kill(worker.id, "killed by signal 9");
    eventually("the loss is recorded", PATIENCE, async || {
        let now = harness.store().node(worker.id).await.unwrap().unwrap();
        if now.status == NodeStatus::Error { Ok(()) } else { Err(now.status) }
    })
    .await;
    harness.engine.signal(waiting, SignalKind::Cancel, None).await.unwrap();
    harness.until_healed(cluster.id).await;
    let healed = harness.store().node(worker.id).await.unwrap().unwrap();
    assert_eq!((healed.status, healed.is_healing_due()), (NodeStatus::Active, false));
    harness.assert_agreement(cluster.id).await;
}

#[database_test(|kind| setup().config(quick()).open(kind))]
async fn a_check_does_not_keep_a_lost_worker_from_being_healed(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let worker = worker(&harness, &cluster).await;
    for _ in 0..START_BUDGET {
        let before = harness.store().node(worker.id).await.unwrap().unwrap().physical_id;
        harness.provider.kill(worker.id, "killed by signal 9");
        // The check either observes the loss first, or preempts the healing.
        let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
        harness.ended(check).await;
        eventually("the worker is back", PATIENCE, async || {
            let now = harness.store().node(worker.id).await.unwrap().unwrap();
            let back =
                now.status == NodeStatus::Active && now.physical_id.is_some() && now.physical_id != before;
            if back { Ok(()) } else { Err(format!("{} {:?}", now.status, now.physical_id)) }
        })
        .await;
    }
}

/// Polls for work often.
fn quick() -> Config {
    Config { safety_period: TimeSpan::from_millis(100), ..Config::default() }
}

async fn worker(harness: &Harness, cluster: &Cluster) -> Node {
    let nodes = harness.nodes(cluster.id).await;
    nodes.into_iter().find(|node| node.role == NodeRole::Worker).expect("a worker")
}

#[database_test]
async fn a_lost_head_comes_back_and_takes_the_workers_along_that_cannot_rejoin(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let head = harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Head).unwrap();
    let started = harness.provider.count(Verb::Start);
    harness.provider.kill(head.id, "killed by signal 9");
    harness.until_healed(cluster.id).await;
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.incarnation), (ClusterStatus::Active, 2));
    let nodes = harness.nodes(cluster.id).await;
    assert!(nodes.iter().all(|node| node.incarnation == 2 && node.status == NodeStatus::Active), "{nodes:?}");
    assert_eq!(harness.provider.count(Verb::Start) - started, 3, "the head and both workers");
    let starts = |role| nodes.iter().find(|node| node.role == role).map(|node| node.starts.len());
    assert_eq!(starts(NodeRole::Head), Some(1), "its crash counts");
    assert_eq!(starts(NodeRole::Worker), Some(1), "theirs was none");
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_worker_that_died_while_no_engine_ran_is_found_and_brought_back(mut harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let worker =
        harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Worker).unwrap();
    harness.engine.stop().await;
    harness.provider.kill(worker.id, "killed by signal 9");
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    harness.until_healed(cluster.id).await;
    assert_eq!(harness.provider.running().len(), 3);
}

#[database_test]
async fn a_loss_without_default_healing_is_only_reported(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let worker = harness.nodes(cluster.id).await[0].id;
    harness.provider.kill(worker, "killed by signal 9");
    harness.until_status(cluster.id, ClusterStatus::Warning).await;
    let actions =
        harness.store().actions(&ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() }).await;
    assert!(actions.unwrap().items.iter().all(|action| action.cause != Cause::Healing));
}

#[database_test]
async fn restarting_the_head_replaces_the_workers_that_cannot_outlive_it(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let before = harness.nodes(cluster.id).await;
    let head = before.iter().find(|node| node.role == NodeRole::Head).unwrap();
    let started = harness.provider.count(Verb::Start);
    let change = ChangeRequest {
        change: Change::RecoverNode(Recovery::default()),
        cluster: harness.cluster(cluster.id).await,
        node: Some(head.id),

        on_conflict: OnConflict::Queue,
        timeout: None,
    };
    harness.provider.hold(Verb::Start);
    let action = harness.engine.submit(change, caller()).await.unwrap().action.id;
    harness.provider.begun(Verb::Start, started + 1).await;
    let recovering = harness.nodes(cluster.id).await;
    let recovers = |node: &Node| node.status == NodeStatus::Recovering;
    assert!(recovering.iter().all(recovers), "one that was stopped on request would be taken for lost");
    harness.provider.release();
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.incarnation, row.status), (2, ClusterStatus::Active));
    let after = harness.nodes(cluster.id).await;
    assert!(after.iter().all(|node| node.incarnation == 2 && node.status == NodeStatus::Active));
    assert!(after.iter().all(|node| node.starts.len() == 1), "it counts as a crash");
    assert_eq!(harness.provider.count(Verb::Start) - started, 3, "the head and both workers");
    assert_eq!(
        before.iter().map(|node| node.id).collect::<Vec<_>>(),
        after.iter().map(|node| node.id).collect::<Vec<_>>()
    );
}

#[database_test]
async fn what_a_cancelled_action_leaves_is_shown_as_it_is(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    harness.provider.hold(Verb::Stop);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, harness::exactly(1)).await;
    harness.provider.begun(Verb::Stop, 1).await;
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Cancelled);
    let nodes = harness.nodes(cluster.id).await;
    let works = |node: &Node| node.status == NodeStatus::Active && node.physical_id.is_some();
    assert!(nodes.len() == 3 && nodes.iter().all(works), "all of them run: {nodes:?}");
    harness.provider.release();
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn what_ended_with_its_machine_waits_for_its_user(harness: Harness) {
    let (headless, _) = harness.created(2).await;
    for cluster in [harness.created_with_head(2).await, headless] {
        harness.provider.reboot();
        harness.until_status(cluster.id, ClusterStatus::Critical).await;
        let row = harness.cluster(cluster.id).await;
        assert!(row.status_reason.starts_with("HostRestarted: the machine restarted"), "{row:?}");
        let query = EventQuery { cluster: Some(cluster.id), ..EventQuery::default() };
        let events = harness.store().events(&query).await.unwrap().items;
        let recorded = events.iter().filter(|event| event.reason == "HostRestarted").count();
        assert_eq!(recorded, harness.nodes(cluster.id).await.len(), "each of them");
        let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
        let actions = harness.store().actions(&query).await.unwrap().items;
        assert!(actions.iter().all(|action| action.cause != Cause::Healing), "{actions:?}");
        assert_eq!(harness.resized(&row, 3).await.status, ActionStatus::Succeeded);
        assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
        let deleted = harness.submit(ActionKind::ClusterDelete, &row, json!({})).await;
        assert_eq!(harness.ended(deleted).await.status, ActionStatus::Succeeded);
    }
}

#[database_test]
async fn a_lost_head_is_critical_only_once_it_was_given_up(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let head = harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Head).unwrap();
    harness.provider.hold(Verb::Start);
    harness.provider.kill(head.id, "killed by signal 9");
    harness.until_status(cluster.id, ClusterStatus::Recovering).await;
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("PortInUse", "port 1 is in use"));
    harness.provider.release();
    harness.until_healed(cluster.id).await;
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Critical);
    assert!(row.status_reason.contains("port 1 is in use"), "{}", row.status_reason);
}

#[database_test]
async fn a_cluster_whose_creation_was_cancelled_is_not_healed_until_requested(harness: Harness) {
    let cluster = harness::cluster(FAKE_CLUSTER, 2);
    harness.provider.hold_after(Verb::Start, 1);
    let create = harness.create(&cluster).await;
    harness.provider.begun(Verb::Start, 2).await;
    harness.engine.signal(create, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(create).await.status, ActionStatus::Cancelled);
    let row = harness.cluster(cluster.id).await;
    assert!(
        row.status_reason.contains("Action execution cancelled. Creation did not succeed, so nodes"),
        "{row:?}"
    );
    harness.provider.release();
    let nodes = harness.nodes(cluster.id).await;
    let head = nodes.iter().find(|node| node.role == NodeRole::Head).unwrap();
    harness.provider.kill(head.id, "killed by signal 9");
    harness.until_status(cluster.id, ClusterStatus::Critical).await;
    let row = harness.cluster(cluster.id).await;
    assert!(row.status_reason.contains("signal 9. Creation did not succeed, so nodes"), "{row:?}");
    let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    let healings = async || {
        let actions = harness.store().actions(&query).await.unwrap().items;
        actions.iter().filter(|action| action.cause == Cause::Healing).count()
    };
    assert_eq!(healings().await, 0);
    assert_eq!(harness.resized(&row, 2).await.status, ActionStatus::Succeeded);
    harness.provider.kill(head.id, "killed by signal 9");
    harness.until_healed(cluster.id).await;
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
}

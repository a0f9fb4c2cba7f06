//! Actions that wait occupy no slot: others run, however many wait.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::change::{Change, Check};
use muster_core::cluster::Cluster;
use muster_core::node::NodeStatus;
use muster_engine::policy::Policies;
use muster_engine::{Config, NodeChangeRequest};
use muster_store::commands::SignalKind;
use muster_testkit::database_test;
use muster_testkit::fake::{FAKE_NODE, Verb};
use serde_json::{Value, json};

use crate::harness::{Harness, Kind, caller, cluster, setup};
use crate::nodes::{orphan, row};
use crate::scripted_policy::ScriptedPolicy;

fn one_slot() -> Config {
    Config { parallel_actions: 1, ..Config::default() }
}

async fn another_action_runs(harness: &Harness, other: &Cluster) {
    let check = harness.submit(ActionKind::ClusterCheck, other, json!({})).await;
    let check = harness.ended(check).await;
    assert_eq!(check.status, ActionStatus::Succeeded, "{}", check.status_reason);
}

#[database_test]
async fn an_action_runs_while_nodes_of_another_cluster_start(kind: Kind) {
    let Some(harness) = setup().config(one_slot()).open(kind).await else { return };
    let (other, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let create = harness.create(&cluster(FAKE_NODE, 2)).await;
    harness.applied(create).await;
    another_action_runs(&harness, &other).await;
    harness.provider.release();
    assert_eq!(harness.ended(create).await.status, ActionStatus::Succeeded);
}

#[database_test]
async fn an_action_runs_while_another_one_waits_for_a_grace_period(kind: Kind) {
    waits(kind, &json!({"deletion": {"grace_period": 3600}})).await;
}

#[database_test]
async fn an_action_runs_while_another_one_waits_for_a_hook(kind: Kind) {
    let hook = json!({"hooks": {"type": "webhook", "timeout": 3600, "params": {"url": "http://hook/"}}});
    waits(kind, &hook).await;
}

#[database_test]
async fn an_action_runs_while_another_one_waits_for_a_node_that_is_being_changed(kind: Kind) {
    // One slot for the check that holds the node, and one for the action that waits for it.
    let two_slots = Config { parallel_actions: 2, ..Config::default() };
    let Some(harness) = setup().config(two_slots).open(kind).await else { return };
    let (other, _) = harness.created(1).await;
    let (cluster, _) = harness.created(1).await;
    let node = orphan(&harness).await;
    harness.provider.hold(Verb::Observe);
    let check = NodeChangeRequest {
        change: Change::CheckNode(Check::default()),
        node: node.clone(),
        on_conflict: OnConflict::Reject,
        timeout: None,
    };
    let check = harness.engine.submit_node(check, caller()).await.expect("accepted").action.id;
    harness.until(check, ActionStatus::Running).await;
    let add = harness.submit(ActionKind::ClusterAddNodes, &cluster, json!({"nodes": [node.id]})).await;
    harness.applied(add).await;
    let set_status =
        |status: NodeStatus| format!("UPDATE nodes SET status = '{status}' WHERE id = '{}'", node.id);
    harness.fresh.execute(&set_status(NodeStatus::Operating)).await;
    // An operation of another cluster needs a slot and no observation.
    let operate = json!({"operation": "reboot"});
    let operate = harness.submit(ActionKind::ClusterOperation, &other, operate).await;
    let operate = harness.ended(operate).await;
    assert_eq!(operate.status, ActionStatus::Succeeded, "{}", operate.status_reason);
    harness.fresh.execute(&set_status(NodeStatus::Active)).await;
    harness.provider.release();
    assert_eq!(harness.ended(check).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.ended(add).await.status, ActionStatus::Succeeded);
    assert_eq!(row(&harness, &node).await.cluster_id, Some(cluster.id));
}

async fn waits(kind: Kind, policy: &Value) {
    let saying = ScriptedPolicy::default();
    let policies = Policies::default().with(saying.clone());
    let Some(harness) = setup().config(one_slot()).policies(policies).open(kind).await else { return };
    let (other, _) = harness.created(1).await;
    let (cluster, _) = harness.created(2).await;
    saying.bind(&harness, cluster.id).await;
    saying.say(policy);
    let shrink = harness.submit(ActionKind::ClusterScaleIn, &cluster, json!({})).await;
    harness.applied(shrink).await;
    another_action_runs(&harness, &other).await;
    harness.engine.signal(shrink, SignalKind::Cancel, None).await.expect("it is open");
    assert_eq!(harness.ended(shrink).await.status, ActionStatus::Cancelled);
}

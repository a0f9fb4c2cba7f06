//! Clusters that an operator drives: one object, mirrored by rows.

mod external_changes;
mod faults;
mod leftovers;
mod lifecycle;
mod superseded;
mod takeover;

use muster_core::action::{Action, ActionKind, OnConflict};
use muster_core::change::{Change, Recovery};
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_core::node::{Node, NodeRole};
use muster_core::time::TimeSpan;
use muster_engine::{ChangeRequest, Config, Engine};
use muster_store::Store;
use muster_store::reads::EventQuery;
use muster_testkit::operator::{OPERATED_CLUSTER, Operated};
use muster_testkit::{eventually, read_change};
use serde_json::Value;

use crate::harness::{self, Harness, Kind, PATIENCE, caller, setup};

/// Pending clusters are observed again soon.
fn soon() -> Config {
    Config { safety_period: TimeSpan::from_millis(50), ..Config::default() }
}

/// A cluster of this type that is not stored yet.
fn operated(kind: &str, workers: u32) -> Cluster {
    Cluster { instance: Operated::instance_id(), ..harness::cluster(kind, workers) }
}

pub(crate) async fn open(kind: Kind) -> Option<Harness> {
    setup().config(soon()).open(kind).await
}

/// Starts another engine with the same providers.
async fn engine(harness: &Harness, store: Store, config: Config) -> Engine {
    setup().config(config).start(store, harness).await
}

/// A running operated cluster with a head and a number of workers.
pub(crate) async fn created(harness: &Harness, workers: u32) -> Cluster {
    let cluster = operated(OPERATED_CLUSTER, workers);
    let create = harness.create(&cluster).await;
    let create = harness.ended(create).await;
    assert_eq!(create.status_reason, "Cluster creation succeeded.");
    cluster
}

fn workers(nodes: Vec<Node>) -> Vec<Node> {
    nodes.into_iter().filter(|node| node.role == NodeRole::Worker).collect()
}

fn ids(nodes: &[Node]) -> Vec<NodeId> {
    nodes.iter().map(|node| node.id).collect()
}

async fn names(harness: &Harness, id: ClusterId) -> Vec<String> {
    let mut names: Vec<_> = workers(harness.nodes(id).await).into_iter().map(|node| node.name).collect();
    names.sort_unstable();
    names
}

pub(crate) async fn recorded_events(harness: &Harness, id: ClusterId, reason: &str) -> Vec<Event> {
    let query = EventQuery { cluster: Some(id), ..EventQuery::default() };
    let events = harness.store().events(&query).await.expect("the store answers").items;
    events.into_iter().filter(|event| event.reason == reason).collect()
}

/// Returns when a condition holds for the rows of a cluster.
async fn until(harness: &Harness, id: ClusterId, what: &str, holds: impl Fn(&Cluster, &[Node]) -> bool) {
    eventually(what, PATIENCE, async || {
        let (cluster, nodes) = (harness.cluster(id).await, harness.nodes(id).await);
        if holds(&cluster, &nodes) { Ok(()) } else { Err(format!("{cluster:?} {nodes:?}")) }
    })
    .await;
}

async fn restarted(harness: &Harness, cluster: &Cluster, node: NodeId) -> Action {
    let action = restart(harness, cluster, node).await;
    harness.ended(action).await
}

async fn restart(harness: &Harness, cluster: &Cluster, node: NodeId) -> ActionId {
    let change = ChangeRequest {
        change: Change::RecoverNode(Recovery::default()),
        cluster: harness.cluster(cluster.id).await,
        node: Some(node),

        on_conflict: OnConflict::Queue,
        timeout: None,
    };
    harness.engine.submit(change, caller()).await.expect("accepted").action.id
}

async fn within_a_second(harness: &Harness, kind: ActionKind, cluster: &Cluster, inputs: Value) -> ActionId {
    let timeout = Some(TimeSpan::from_secs(1));
    let on_conflict = OnConflict::Queue;
    let change = ChangeRequest {
        change: read_change(kind, &inputs),
        cluster: cluster.clone(),
        node: None,
        on_conflict,
        timeout,
    };
    harness.engine.submit(change, caller()).await.expect("accepted").action.id
}

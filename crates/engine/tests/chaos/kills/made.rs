//! The clusters, nodes and policies that are prepared for operations.

use muster_core::action::{ActionKind, Target};
use muster_core::ids::{ClusterId, NodeId, PolicyId, ProfileId};
use muster_core::node::{Node, NodeRole};
use muster_core::policy::Policy;
use muster_core::profile::Profile;
use muster_core::sample;
use muster_core::time::Timestamp;
use muster_store::commands::{CreatePolicy, InsertProfile};
use muster_testkit::world::{Replica, WORLD_NODE};
use serde_json::{Map, json};

use crate::harness::{Harness, new_cluster, succeeded};

/// A cluster of plain nodes.
pub(super) async fn plain(engine: &Replica, nodes: u32) -> ClusterId {
    let cluster = new_cluster();
    let action = engine.create(cluster, WORLD_NODE, nodes).await;
    succeeded(&engine.end(action.id).await);
    cluster
}

pub(super) async fn members(harness: &Harness, cluster: ClusterId) -> Vec<Node> {
    let store = harness.store().await;
    let nodes = store.members(cluster).await.expect("the store answers");
    store.close().await;
    nodes
}

pub(super) async fn one(harness: &Harness, cluster: ClusterId, role: NodeRole) -> NodeId {
    let nodes = members(harness, cluster).await;
    nodes.iter().find(|node| node.role == role).expect("there is one").id
}

pub(super) async fn workers(harness: &Harness, cluster: ClusterId, count: usize) -> Vec<NodeId> {
    let nodes = members(harness, cluster).await;
    let workers = nodes.iter().filter(|node| node.role == NodeRole::Worker);
    workers.map(|node| node.id).take(count).collect()
}

/// Nodes that are in no cluster, because they have left one.
pub(super) async fn leavers(harness: &Harness, engine: &Replica, count: u32) -> Vec<NodeId> {
    let cluster = plain(engine, count).await;
    let nodes = workers(harness, cluster, count as usize).await;
    let left = engine.change(cluster, ActionKind::ClusterDelNodes, json!({"nodes": nodes})).await;
    succeeded(&engine.end(left.id).await);
    nodes
}

/// A node that was created in no cluster.
pub(super) async fn alone(harness: &Harness, engine: &Replica) -> NodeId {
    let action = engine.create_node(None, recipe(harness, WORLD_NODE).await).await;
    succeeded(&engine.end(action.id).await);
    node_of(action.target)
}

pub(super) fn node_of(target: Target) -> NodeId {
    match target {
        Target::Node(node) => node,
        other => panic!("it is about {} {}", other.kind(), other.id()),
    }
}

/// Another recipe.
pub(super) async fn recipe(harness: &Harness, kind: &str) -> ProfileId {
    let id = ProfileId::from_uuid(muster_engine::new_id());
    let profile = Profile { id, kind: kind.parse().expect("a type"), ..sample::profile() };
    let store = harness.store().await;
    store.insert_profile(InsertProfile { profile, events: Vec::new() }).await.expect("a new profile");
    store.close().await;
    id
}

/// A policy by which two members are updated at once.
pub(super) async fn batches_of_two(harness: &Harness) -> PolicyId {
    let properties = json!({"min_in_service": 1, "max_batch_size": 2, "pause_time": 0});
    let spec = json!({"type": "senlin.policy.batch", "version": "1.0", "properties": properties});
    let id = PolicyId::from_uuid(muster_engine::new_id());
    let policy = Policy {
        id,
        name: format!("p-{id}"),
        kind: "senlin.policy.batch-1.0".to_owned(),
        project: sample::profile().project,
        user: sample::profile().user,
        spec: spec.as_object().expect("a map").clone(),
        data: Map::new(),
        created_at: Timestamp::from_micros(1),
        updated_at: None,
    };
    let store = harness.store().await;
    store.create_policy(CreatePolicy { policy, events: Vec::new() }).await.expect("a new policy");
    store.close().await;
    id
}

pub(super) async fn attach(engine: &Replica, cluster: ClusterId, policy: PolicyId) {
    let inputs = json!({"policy_id": policy});
    let attached = engine.change(cluster, ActionKind::ClusterAttachPolicy, inputs).await;
    succeeded(&engine.end(attached.id).await);
}

//! What engines are killed at.

use muster_core::action::ActionKind;
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_core::node::NodeRole;
use muster_testkit::world::{Control, Outcome, Replica, Verb, WORLD_CLUSTER, WORLD_NODE};
use serde_json::json;

use crate::facts::{self, Expected};
use crate::ground::{Ground, a_worker, by, created, new_cluster, succeeded};

/// What an engine does when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Create,
    Grow,
    Shrink,
    Delete,
    Heal,
    ScaleIn,
    /// Chosen members end.
    Remove,
    /// Nodes that are in no cluster become members.
    Add,
}

impl Deed {
    /// Workers before, and what there should be afterwards.
    fn sizes(self) -> (u32, Expected) {
        match self {
            Self::Create => (0, Expected { workers: Some(3), made: 4, again: 0 }),
            Self::Grow => (1, Expected { workers: Some(4), made: 5, again: 0 }),
            Self::Shrink | Self::ScaleIn | Self::Remove => {
                (4, Expected { workers: Some(1), made: 5, again: 0 })
            }
            Self::Delete => (3, Expected { workers: None, made: 4, again: 0 }),
            Self::Heal => (2, Expected { workers: Some(2), made: 3, again: 1 }),
            // Those that come were made elsewhere.
            Self::Add => (1, Expected { workers: Some(4), made: 1, again: 0 }),
        }
    }
}

/// A deed on a cluster.
pub(super) struct Task {
    deed: Deed,
    cluster: ClusterId,
    /// The nodes that it is about, if it names some.
    nodes: Vec<NodeId>,
}

/// How the end of a task is recognised.
pub(super) enum Begun {
    Action(ActionId),
    Lost(NodeId),
}

impl Task {
    /// Makes what the deed is done to.
    pub(super) async fn prepare(deed: Deed, ground: &Ground, engine: &Replica) -> Self {
        let (before, _) = deed.sizes();
        match deed {
            Deed::Create => return Self { deed, cluster: new_cluster(), nodes: Vec::new() },
            Deed::Add => {
                let nodes = orphans(ground, engine, 3).await;
                return Self { deed, cluster: plain(engine, before).await, nodes };
            }
            _ => {}
        }
        let cluster = created(engine, before).await;
        assert_eq!(ground.world.running(cluster).await.len(), before as usize + 1);
        let nodes = if deed == Deed::Remove { workers(ground, cluster, 3).await } else { Vec::new() };
        Self { deed, cluster, nodes }
    }

    /// Asks for the deed.
    pub(super) async fn begin(&self, ground: &Ground, engine: &Replica) -> Begun {
        let cluster = self.cluster;
        let action = match self.deed {
            Deed::Create => engine.create(cluster, WORLD_CLUSTER, 3).await,
            Deed::Grow => engine.change(cluster, ActionKind::ClusterResize, by(3)).await,
            Deed::Shrink => engine.change(cluster, ActionKind::ClusterResize, by(-3)).await,
            Deed::Delete => engine.change(cluster, ActionKind::ClusterDelete, json!({})).await,
            Deed::ScaleIn => engine.change(cluster, ActionKind::ClusterScaleIn, json!({"count": 3})).await,
            Deed::Remove => {
                let inputs = json!({"nodes": self.nodes, "destroy_after_deletion": true});
                engine.change(cluster, ActionKind::ClusterDelNodes, inputs).await
            }
            Deed::Add => {
                engine.change(cluster, ActionKind::ClusterAddNodes, json!({"nodes": self.nodes})).await
            }
            Deed::Heal => {
                let store = ground.store().await;
                let lost = a_worker(&store.members(cluster).await.expect("the store answers")).id;
                ground.world.tell(Control::Lose(lost)).await;
                store.close().await;
                return Begun::Lost(lost);
            }
        };
        Begun::Action(action.id)
    }

    /// Another engine has done it, and everything agrees.
    pub(super) async fn finish(&self, ground: &Ground, engine: &Replica, begun: Begun) {
        match begun {
            Begun::Action(action) => succeeded(&engine.end(action).await),
            Begun::Lost(node) => {
                let starts = |entry: &&muster_testkit::world::Entry| {
                    entry.verb == Verb::Start && entry.node == Some(node) && entry.outcome == Outcome::Made
                };
                let what = "the lost node to be started again";
                ground.world.until_log(what, |log| log.iter().filter(starts).count() == 2).await;
                engine.rest(self.cluster).await;
            }
        }
        if self.deed == Deed::Add {
            // The world learns whose nodes they are when they are looked at.
            let check = engine.change(self.cluster, ActionKind::ClusterCheck, json!({})).await;
            succeeded(&engine.end(check.id).await);
        }
        facts::agree(ground, self.cluster, self.deed.sizes().1).await;
    }
}

/// A cluster of plain nodes.
async fn plain(engine: &Replica, nodes: u32) -> ClusterId {
    let cluster = new_cluster();
    let action = engine.create(cluster, WORLD_NODE, nodes).await;
    succeeded(&engine.end(action.id).await);
    cluster
}

async fn workers(ground: &Ground, cluster: ClusterId, count: usize) -> Vec<NodeId> {
    let store = ground.store().await;
    let nodes = store.members(cluster).await.expect("the store answers");
    store.close().await;
    let workers = nodes.iter().filter(|node| node.role == NodeRole::Worker);
    workers.map(|node| node.id).take(count).collect()
}

/// Nodes that are in no cluster: they have left one.
async fn orphans(ground: &Ground, engine: &Replica, count: u32) -> Vec<NodeId> {
    let cluster = plain(engine, count).await;
    let nodes = workers(ground, cluster, count as usize).await;
    let left = engine.change(cluster, ActionKind::ClusterDelNodes, json!({"nodes": nodes})).await;
    succeeded(&engine.end(left.id).await);
    nodes
}

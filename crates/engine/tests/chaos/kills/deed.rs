//! What engines are killed at.

use muster_core::action::ActionKind;
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_testkit::world::{Control, Outcome, Replica, Verb, WORLD_CLUSTER};
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
}

impl Deed {
    /// Workers before, and what there should be afterwards.
    fn sizes(self) -> (u32, Expected) {
        match self {
            Self::Create => (0, Expected { workers: Some(3), made: 4, again: 0 }),
            Self::Grow => (1, Expected { workers: Some(4), made: 5, again: 0 }),
            Self::Shrink => (4, Expected { workers: Some(1), made: 5, again: 0 }),
            Self::Delete => (3, Expected { workers: None, made: 4, again: 0 }),
            Self::Heal => (2, Expected { workers: Some(2), made: 3, again: 1 }),
        }
    }
}

/// A deed on a cluster.
pub(super) struct Task {
    deed: Deed,
    cluster: ClusterId,
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
        let cluster = if deed == Deed::Create { new_cluster() } else { created(engine, before).await };
        if deed != Deed::Create {
            assert_eq!(ground.world.running(cluster).await.len(), before as usize + 1);
        }
        Self { deed, cluster }
    }

    /// Asks for the deed.
    pub(super) async fn begin(&self, ground: &Ground, engine: &Replica) -> Begun {
        let cluster = self.cluster;
        let action = match self.deed {
            Deed::Create => engine.create(cluster, WORLD_CLUSTER, 3).await,
            Deed::Grow => engine.change(cluster, ActionKind::ClusterResize, by(3)).await,
            Deed::Shrink => engine.change(cluster, ActionKind::ClusterResize, by(-3)).await,
            Deed::Delete => engine.change(cluster, ActionKind::ClusterDelete, json!({})).await,
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
        facts::agree(ground, self.cluster, self.deed.sizes().1).await;
    }
}

//! Operations on clusters, and tasks, which are operations on clusters or on nodes.

use std::collections::{BTreeMap, HashMap};

use muster_core::action::ActionKind;
use muster_core::ids::{ActionId, ClusterId, NodeId, PolicyId, ProfileId};
use muster_core::node::NodeRole;
use muster_testkit::world::{Control, Entry, Outcome, Replica, Verb};
use serde_json::{Value, json};

use super::deed::Deed;
use super::made;
use super::node::NodeTask;
use crate::facts;
use crate::harness::{Harness, by, created, new_cluster, succeeded};

/// An operation, and the cluster or node that was prepared for it.
pub(super) enum Task {
    Cluster(ClusterTask),
    Node(NodeTask),
}

/// The sign by which the end of a task is recognised.
pub(super) enum Begun {
    Action(ActionId),
    Lost(NodeId),
}

impl Task {
    /// Creates the cluster or node for the operation.
    pub(super) async fn prepare(deed: Deed, harness: &Harness, engine: &Replica) -> Self {
        match deed {
            Deed::Node(deed, place) => Self::Node(NodeTask::prepare(deed, place, harness, engine).await),
            deed => Self::Cluster(ClusterTask::prepare(deed, harness, engine).await),
        }
    }

    /// Requests the operation.
    pub(super) async fn begin(&self, harness: &Harness, engine: &Replica) -> Begun {
        match self {
            Self::Cluster(task) => task.begin(harness, engine).await,
            Self::Node(task) => Begun::Action(task.begin(engine).await),
        }
    }

    /// Waits until another engine has finished the operation, and checks that rows and world agree.
    pub(super) async fn finish(&self, harness: &Harness, engine: &Replica, begun: Begun) {
        match (self, begun) {
            (Self::Cluster(task), begun) => task.finish(harness, engine, begun).await,
            (Self::Node(task), Begun::Action(action)) => task.finish(harness, engine, action).await,
            (Self::Node(_), Begun::Lost(node)) => panic!("the loss of {node} was not requested"),
        }
    }
}

/// An operation on a cluster, with its preparation.
pub(super) struct ClusterTask {
    deed: Deed,
    cluster: ClusterId,
    about: About,
}

/// The objects that the operation needs besides the cluster.
enum About {
    Nothing,
    Nodes(Vec<NodeId>),
    /// Members, each with the node that replaces it.
    Pairs(HashMap<NodeId, NodeId>),
    Recipe(ProfileId),
    Policy(PolicyId),
}

impl ClusterTask {
    async fn prepare(deed: Deed, harness: &Harness, engine: &Replica) -> Self {
        let (before, _) = deed.sizes();
        if deed == Deed::Create {
            return Self { deed, cluster: new_cluster(), about: About::Nothing };
        }
        let with_head = deed.kind() == muster_testkit::world::WORLD_CLUSTER;
        let cluster =
            if with_head { created(engine, before).await } else { made::plain(engine, before).await };
        let runs = harness.world.running(cluster).await.len();
        assert_eq!(runs, before as usize + usize::from(with_head));
        let about = match deed {
            Deed::Remove => About::Nodes(made::workers(harness, cluster, 3).await),
            Deed::Add => About::Nodes(made::leavers(harness, engine, 3).await),
            Deed::Replace => {
                let (go, come) =
                    (made::workers(harness, cluster, 2).await, made::leavers(harness, engine, 2).await);
                About::Pairs(go.into_iter().zip(come).collect())
            }
            Deed::Roll => {
                made::attach(engine, cluster, made::batches_of_two(harness).await).await;
                About::Recipe(made::recipe(harness, deed.kind()).await)
            }
            Deed::RollWithHead => About::Recipe(made::recipe(harness, deed.kind()).await),
            Deed::Attach => About::Policy(made::batches_of_two(harness).await),
            Deed::Detach => {
                let policy = made::batches_of_two(harness).await;
                made::attach(engine, cluster, policy).await;
                About::Policy(policy)
            }
            _ => About::Nothing,
        };
        Self { deed, cluster, about }
    }

    async fn begin(&self, harness: &Harness, engine: &Replica) -> Begun {
        let cluster = self.cluster;
        if self.deed == Deed::Create {
            return Begun::Action(engine.create(cluster, self.deed.kind(), 3).await.id);
        }
        if matches!(self.deed, Deed::Heal | Deed::Recover) {
            let lost = made::one(harness, cluster, NodeRole::Worker).await;
            harness.world.control(Control::Lose(lost)).await;
            if self.deed == Deed::Heal {
                return Begun::Lost(lost);
            }
        }
        let (kind, inputs) = self.request();
        Begun::Action(engine.change(cluster, kind, inputs).await.id)
    }

    fn request(&self) -> (ActionKind, Value) {
        let inputs = match &self.about {
            About::Nothing => json!({}),
            About::Nodes(nodes) => json!({"nodes": nodes}),
            About::Pairs(pairs) => json!({"nodes": pairs}),
            About::Recipe(profile) => json!({"profile_id": profile}),
            About::Policy(policy) => json!({"policy_id": policy}),
        };
        match self.deed {
            Deed::Grow => (ActionKind::ClusterResize, by(3)),
            Deed::Shrink => (ActionKind::ClusterResize, by(-3)),
            Deed::ScaleOut => (ActionKind::ClusterScaleOut, json!({"count": 3})),
            Deed::ScaleIn => (ActionKind::ClusterScaleIn, json!({"count": 3})),
            Deed::Delete => (ActionKind::ClusterDelete, inputs),
            Deed::Recover => (ActionKind::ClusterRecover, inputs),
            Deed::Check => (ActionKind::ClusterCheck, inputs),
            Deed::Operate => (ActionKind::ClusterOperation, json!({"operation": "reboot"})),
            Deed::Remove => {
                let mut inputs = inputs;
                inputs["destroy_after_deletion"] = json!(true);
                (ActionKind::ClusterDelNodes, inputs)
            }
            Deed::Add => (ActionKind::ClusterAddNodes, inputs),
            Deed::Replace => (ActionKind::ClusterReplaceNodes, inputs),
            Deed::Roll | Deed::RollWithHead => (ActionKind::ClusterUpdate, inputs),
            Deed::Attach => (ActionKind::ClusterAttachPolicy, inputs),
            Deed::Detach => (ActionKind::ClusterDetachPolicy, inputs),
            Deed::Create | Deed::Heal | Deed::Node(..) => unreachable!("nothing is asked of a cluster"),
        }
    }

    async fn finish(&self, harness: &Harness, engine: &Replica, begun: Begun) {
        match begun {
            Begun::Action(action) => succeeded(&engine.end(action).await),
            Begun::Lost(node) => {
                let starts = |entry: &&Entry| {
                    entry.verb == Verb::Start && entry.node == Some(node) && entry.outcome == Outcome::Made
                };
                let what = "the lost node to be started again";
                harness.world.until_log(what, |log| log.iter().filter(starts).count() == 2).await;
                engine.rest(self.cluster).await;
            }
        }
        self.is_as_asked(harness).await;
        self.tell_whose(engine).await;
        facts::agree(harness, self.cluster, self.deed.sizes().1).await;
    }

    /// Checks the result of the operation beyond the counts of nodes.
    async fn is_as_asked(&self, harness: &Harness) {
        let nodes = made::members(harness, self.cluster).await;
        match (&self.about, self.deed) {
            (About::Recipe(profile), _) => {
                assert!(nodes.iter().all(|node| node.profile_id == *profile), "{nodes:?}");
            }
            (About::Policy(policy), deed) => {
                let store = harness.store().await;
                let bound = store.bindings(self.cluster).await.expect("the store answers");
                store.close().await;
                let bound: Vec<_> = bound.into_iter().map(|binding| binding.policy.id).collect();
                let wanted: &[PolicyId] = if deed == Deed::Attach { &[*policy] } else { &[] };
                assert_eq!(bound, wanted);
            }
            (_, Deed::Check) => {
                assert!(nodes.iter().all(|node| node.status_reason == facts::CHECKED), "{nodes:?}");
            }
            (_, Deed::Operate) => {
                // Twice where the result of the first time was lost.
                let times = operated(harness, self.cluster);
                assert_eq!(times.len(), nodes.len(), "{}", harness.world.tail());
                assert!(times.values().all(|times| *times <= 2), "{}", harness.world.tail());
            }
            _ => {}
        }
    }

    /// Observes nodes that changed their cluster, because the world learns the cluster of a node only then.
    async fn tell_whose(&self, engine: &Replica) {
        if !matches!(self.deed, Deed::Add | Deed::Replace) {
            return;
        }
        let check = engine.change(self.cluster, ActionKind::ClusterCheck, json!({})).await;
        succeeded(&engine.end(check.id).await);
        let About::Pairs(pairs) = &self.about else { return };
        for left in pairs.keys() {
            let check = engine.change_node(*left, ActionKind::NodeCheck, json!({})).await;
            assert_eq!(check.cluster_id, None, "it has left its cluster");
            succeeded(&engine.end(check.id).await);
        }
    }
}

/// How often each node of a cluster was operated.
fn operated(harness: &Harness, cluster: ClusterId) -> BTreeMap<NodeId, usize> {
    let mut times = BTreeMap::new();
    let log = harness.world.log();
    let done = |entry: &&Entry| {
        entry.cluster == cluster && entry.verb == Verb::Operate && entry.outcome == Outcome::Done
    };
    for node in log.iter().filter(done).filter_map(|entry| entry.node) {
        *times.entry(node).or_default() += 1;
    }
    times
}

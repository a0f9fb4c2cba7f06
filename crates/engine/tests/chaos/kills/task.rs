//! Operations on clusters, and tasks, which are operations on clusters or on nodes.

use std::collections::{BTreeMap, HashMap};

use muster_core::action::ActionKind;
use muster_core::ids::{ActionId, ClusterId, NodeId, PolicyId, ProfileId};
use muster_core::node::NodeRole;
use muster_testkit::world::{Control, Entry, Outcome, Replica, Verb};
use serde_json::{Value, json};

use super::made;
use super::node::NodeTask;
use super::operation::KilledOperation;
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
    pub(super) async fn prepare(operation: KilledOperation, harness: &Harness, engine: &Replica) -> Self {
        match operation {
            KilledOperation::Node(operation, place) => {
                Self::Node(NodeTask::prepare(operation, place, harness, engine).await)
            }
            operation => Self::Cluster(ClusterTask::prepare(operation, harness, engine).await),
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
    operation: KilledOperation,
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
    async fn prepare(operation: KilledOperation, harness: &Harness, engine: &Replica) -> Self {
        let (before, _) = operation.sizes();
        if operation == KilledOperation::Create {
            return Self { operation, cluster: new_cluster(), about: About::Nothing };
        }
        let with_head = operation.kind() == muster_testkit::world::WORLD_CLUSTER;
        let cluster =
            if with_head { created(engine, before).await } else { made::plain(engine, before).await };
        let runs = harness.world.running(cluster).await.len();
        assert_eq!(runs, before as usize + usize::from(with_head));
        let about = match operation {
            KilledOperation::Remove => About::Nodes(made::workers(harness, cluster, 3).await),
            KilledOperation::Add => About::Nodes(made::leavers(harness, engine, 3).await),
            KilledOperation::Replace => {
                let (go, come) =
                    (made::workers(harness, cluster, 2).await, made::leavers(harness, engine, 2).await);
                About::Pairs(go.into_iter().zip(come).collect())
            }
            KilledOperation::Roll => {
                made::attach(engine, cluster, made::batches_of_two(harness).await).await;
                About::Recipe(made::recipe(harness, operation.kind()).await)
            }
            KilledOperation::RollWithHead => About::Recipe(made::recipe(harness, operation.kind()).await),
            KilledOperation::Attach => About::Policy(made::batches_of_two(harness).await),
            KilledOperation::Detach => {
                let policy = made::batches_of_two(harness).await;
                made::attach(engine, cluster, policy).await;
                About::Policy(policy)
            }
            _ => About::Nothing,
        };
        Self { operation, cluster, about }
    }

    async fn begin(&self, harness: &Harness, engine: &Replica) -> Begun {
        let cluster = self.cluster;
        if self.operation == KilledOperation::Create {
            return Begun::Action(engine.create(cluster, self.operation.kind(), 3).await.id);
        }
        if matches!(self.operation, KilledOperation::Heal | KilledOperation::Recover) {
            let lost = made::one(harness, cluster, NodeRole::Worker).await;
            harness.world.control(Control::Lose(lost)).await;
            if self.operation == KilledOperation::Heal {
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
        match self.operation {
            KilledOperation::Grow => (ActionKind::ClusterResize, by(3)),
            KilledOperation::Shrink => (ActionKind::ClusterResize, by(-3)),
            KilledOperation::ScaleOut => (ActionKind::ClusterScaleOut, json!({"count": 3})),
            KilledOperation::ScaleIn => (ActionKind::ClusterScaleIn, json!({"count": 3})),
            KilledOperation::Delete => (ActionKind::ClusterDelete, inputs),
            KilledOperation::Recover => (ActionKind::ClusterRecover, inputs),
            KilledOperation::Check => (ActionKind::ClusterCheck, inputs),
            KilledOperation::Operate => (ActionKind::ClusterOperation, json!({"operation": "reboot"})),
            KilledOperation::Remove => {
                let mut inputs = inputs;
                inputs["destroy_after_deletion"] = json!(true);
                (ActionKind::ClusterDelNodes, inputs)
            }
            KilledOperation::Add => (ActionKind::ClusterAddNodes, inputs),
            KilledOperation::Replace => (ActionKind::ClusterReplaceNodes, inputs),
            KilledOperation::Roll | KilledOperation::RollWithHead => (ActionKind::ClusterUpdate, inputs),
            KilledOperation::Attach => (ActionKind::ClusterAttachPolicy, inputs),
            KilledOperation::Detach => (ActionKind::ClusterDetachPolicy, inputs),
            KilledOperation::Create | KilledOperation::Heal | KilledOperation::Node(..) => {
                unreachable!("nothing is asked of a cluster")
            }
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
        self.observe_moved_nodes(engine).await;
        facts::agree(harness, self.cluster, self.operation.sizes().1).await;
    }

    /// Checks the result of the operation beyond the counts of nodes.
    async fn is_as_asked(&self, harness: &Harness) {
        let nodes = made::members(harness, self.cluster).await;
        match (&self.about, self.operation) {
            (About::Recipe(profile), _) => {
                assert!(nodes.iter().all(|node| node.profile_id == *profile), "{nodes:?}");
            }
            (About::Policy(policy), operation) => {
                let store = harness.store().await;
                let bound = store.bindings(self.cluster).await.expect("the store answers");
                store.close().await;
                let bound: Vec<_> = bound.into_iter().map(|binding| binding.policy.id).collect();
                let wanted: &[PolicyId] = if operation == KilledOperation::Attach { &[*policy] } else { &[] };
                assert_eq!(bound, wanted);
            }
            (_, KilledOperation::Check) => {
                assert!(nodes.iter().all(|node| node.status_reason == facts::CHECKED), "{nodes:?}");
            }
            (_, KilledOperation::Operate) => {
                // Twice where the result of the first time was lost.
                let times = operated(harness, self.cluster);
                assert_eq!(times.len(), nodes.len(), "{}", harness.world.tail());
                assert!(times.values().all(|times| *times <= 2), "{}", harness.world.tail());
            }
            _ => {}
        }
    }

    /// Observes nodes that changed their cluster, because the world learns the cluster of a node only then.
    async fn observe_moved_nodes(&self, engine: &Replica) {
        if !matches!(self.operation, KilledOperation::Add | KilledOperation::Replace) {
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

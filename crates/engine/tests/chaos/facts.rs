//! The facts that hold after any fault: rows, locks, actions and the world agree.

use std::collections::{BTreeMap, HashMap};

use muster_core::action::ActionStatus;
use muster_core::cluster::ClusterStatus;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::NodeStatus;
use muster_store::Store;
use muster_store::reads::ActionQuery;
use muster_testkit::world::{Entry, Outcome, World};

use crate::harness::Harness;

/// The expected result of an operation on a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// The number of workers; none once the cluster is deleted.
    pub(crate) workers: Option<u32>,
    /// Nodes that were ever made, the head among them.
    pub(crate) made: usize,
    /// Nodes that were recreated, after a crash or on request.
    pub(crate) again: usize,
}

/// The status reason of working nodes that were checked.
pub(crate) const CHECKED: &str = "Check: Node is ACTIVE.";

/// Checks that rows and world agree about a cluster, and that no action is in progress.
pub(crate) async fn agree(harness: &Harness, cluster: ClusterId, expected: Expected) {
    let store = harness.store().await;
    let facts = Facts { store: &store, world: &harness.world, cluster };
    facts.actions_have_succeeded(ActionQuery { cluster: Some(cluster), ..ActionQuery::default() }).await;
    facts.members_run(expected).await;
    facts.nodes_were_made_as_often_as_needed(expected);
    facts.fences_only_rise();
    store.close().await;
}

/// Checks the same for a node that was created in no cluster; for the world it is the only member of a cluster.
pub(crate) async fn alone(harness: &Harness, node: NodeId, expected: Expected) {
    let store = harness.store().await;
    let cluster = ClusterId::from_uuid(*node.as_uuid());
    let facts = Facts { store: &store, world: &harness.world, cluster };
    facts.actions_have_succeeded(ActionQuery { node: Some(node), ..ActionQuery::default() }).await;
    facts.it_runs(node, expected).await;
    facts.nodes_were_made_as_often_as_needed(expected);
    facts.fences_only_rise();
    store.close().await;
}

/// Checks that no lock is held; called when no action is in progress.
pub(crate) async fn no_locks(harness: &Harness) {
    assert_eq!(harness.locks().await, 0, "locks were left");
}

struct Facts<'a> {
    store: &'a Store,
    world: &'a World,
    cluster: ClusterId,
}

impl Facts<'_> {
    async fn actions_have_succeeded(&self, query: ActionQuery) {
        for action in self.store.actions(&query).await.expect("the store answers").items {
            let (kind, status, why) = (action.kind, action.status, &action.status_reason);
            assert_eq!(status, ActionStatus::Succeeded, "{kind} {}: {why}\n{}", action.id, self.world.tail());
        }
    }

    async fn members_run(&self, expected: Expected) {
        let row = self.store.cluster(self.cluster).await.expect("the store answers").expect("its row stays");
        let nodes = self.store.members(self.cluster).await.expect("the store answers");
        let running = self.world.running(self.cluster).await;
        let rows: BTreeMap<_, _> = nodes.iter().map(|node| (node.id, node.physical_id.clone())).collect();
        let world: BTreeMap<_, _> = running.into_iter().map(|(node, id)| (node, Some(id))).collect();
        assert_eq!(rows, world, "rows and world differ\n{}", self.world.tail());
        let Some(workers) = expected.workers else {
            assert_eq!((row.status, nodes.len()), (ClusterStatus::Deleted, 0));
            return;
        };
        assert_eq!((row.status, row.desired()), (ClusterStatus::Active, workers), "{}", row.status_reason);
        let members = usize::try_from(workers).expect("a count of nodes") + usize::from(row.has_head);
        assert_eq!(nodes.len(), members, "{}", self.world.tail());
        let bad: Vec<_> = nodes.iter().filter(|node| node.status != NodeStatus::Active).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    async fn it_runs(&self, node: NodeId, expected: Expected) {
        let row = self.store.node(node).await.expect("the store answers");
        let running = self.world.running(self.cluster).await;
        let Some(_) = expected.workers else {
            assert_eq!((row, running.len()), (None, 0), "{}", self.world.tail());
            return;
        };
        let row = row.expect("its row stays");
        assert_eq!((row.status, row.cluster_id), (NodeStatus::Active, None), "{}", row.status_reason);
        let world = HashMap::from([(node, row.physical_id.expect("it runs"))]);
        assert_eq!(running, world, "rows and world differ\n{}", self.world.tail());
    }

    /// Checks the number of starts of each node. Together with the nodes that run at the end, this proves that no start
    /// was repeated without need.
    fn nodes_were_made_as_often_as_needed(&self, expected: Expected) {
        let mut made: HashMap<NodeId, usize> = HashMap::new();
        for entry in self.log().iter().filter(|entry| entry.outcome == Outcome::Made) {
            *made.entry(entry.node.expect("a node was made")).or_default() += 1;
        }
        assert!(made.values().all(|times| *times <= 2), "a node was recreated twice\n{}", self.world.tail());
        let again: usize = made.values().map(|times| times - 1).sum();
        let counted = (made.len(), again);
        assert_eq!(counted, (expected.made, expected.again), "made, again\n{}", self.world.tail());
    }

    fn fences_only_rise(&self) {
        let accepted: Vec<i64> =
            self.log().iter().filter(|entry| entry.is_accepted()).map(|entry| entry.fence.0).collect();
        assert!(accepted.is_sorted(), "an overtaken engine was obeyed\n{}", self.world.tail());
    }

    fn log(&self) -> Vec<Entry> {
        self.world.log().into_iter().filter(|entry| entry.cluster == self.cluster).collect()
    }
}

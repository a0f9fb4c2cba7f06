//! The pods that are nodes, as the watch tells of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use muster_core::ids::NodeId;
use muster_core::node::{Node, Seen};
use muster_engine::ports::provider::{Change, ProviderError};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::facts::{LeanPod, NodePod, is_older};
use crate::follow::Takes;
use crate::sites::unknown;
use crate::which::Certain;

/// A pod that is a node.
#[derive(Debug, Clone)]
pub(super) struct OwnPod {
    pub(super) namespace: String,
    pub(super) facts: NodePod,
    moment: u64,
}

impl OwnPod {
    /// How the node is that it stands for.
    pub(super) fn seen(&self) -> Seen {
        match &self.facts.seen {
            Seen::Running { .. } | Seen::Starting { .. } if self.facts.leaving => {
                Seen::Exited { reason: "its pod is being deleted".to_owned() }
            }
            seen => seen.clone(),
        }
    }
}

/// All of them.
pub(super) struct Table {
    certain: Certain,
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    moments: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// By namespace and name.
    pods: BTreeMap<(String, String), OwnPod>,
    by_node: HashMap<NodeId, (String, String)>,
    behind: BTreeMap<usize, Option<String>>,
    moment: u64,
}

impl Table {
    pub(super) fn new(watches: usize, certain: Certain, changes: broadcast::Sender<Change>) -> Self {
        let behind = (0..watches).map(|index| (index, None)).collect();
        let state = Mutex::new(State { behind, ..State::default() });
        Self { certain, state, changes, moments: watch::Sender::new(0) }
    }

    /// The pod of a node, if it has one.
    pub(super) fn of(&self, node: &Node) -> Result<Option<OwnPod>, ProviderError> {
        Ok(self.of_all(std::slice::from_ref(node))?.into_iter().next().flatten())
    }

    /// The pods of nodes, in their order.
    pub(super) fn of_all(&self, nodes: &[Node]) -> Result<Vec<Option<OwnPod>>, ProviderError> {
        self.certain.check()?;
        let state = self.state.lock();
        if let Some(why) = state.behind.values().next() {
            return Err(unknown(why.as_ref()));
        }
        let find = |node: &Node| {
            let adopted = || {
                let (namespace, name) = node.physical_id.as_deref()?.split_once('/')?;
                Some((namespace.to_owned(), name.to_owned()))
            };
            let place = state.by_node.get(&node.id).cloned().or_else(adopted)?;
            state.pods.get(&place).cloned()
        };
        Ok(nodes.iter().map(find).collect())
    }

    /// Why nodes do not work yet whose pods are there.
    pub(super) fn obstacles(&self, nodes: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        let state = self.state.lock();
        let told = |id: &NodeId| {
            let pod = state.pods.get(state.by_node.get(id)?)?;
            (!pod.facts.reason.is_empty()).then(|| (*id, pod.facts.reason.clone()))
        };
        nodes.iter().filter_map(told).collect()
    }

    /// Hears of changes from now on.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.moments.subscribe()
    }

    /// All is about to be told.
    fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.moment += 1;
        state.moment
    }

    /// All was told since that moment, of one namespace or of all.
    fn complete(&self, index: usize, namespace: Option<&str>, begun: u64) {
        {
            let mut state = self.state.lock();
            let within = |place: &str| namespace.is_none_or(|namespace| namespace == place);
            state.pods.retain(|(place, _), pod| !within(place) || pod.moment >= begun);
            let State { pods, by_node, behind, .. } = &mut *state;
            by_node.retain(|_, place| pods.contains_key(place));
            behind.remove(&index);
        }
        self.moved();
        drop(self.changes.send(Change::Everything));
    }

    /// The watch cannot tell any more.
    fn lost(&self, index: usize, why: String) {
        self.state.lock().behind.insert(index, Some(why));
    }

    /// A pod is so now.
    pub(super) fn take(&self, pod: LeanPod, tell: bool) {
        let namespace = pod.namespace().to_owned();
        let facts = pod.of_node();
        let place = (namespace.clone(), facts.name.clone());
        let node = facts.node;
        {
            let mut state = self.state.lock();
            state.moment += 1;
            let moment = state.moment;
            let older = state.pods.get(&place).is_some_and(|known| {
                known.facts.uid == facts.uid && is_older(&facts.version, &known.facts.version)
            });
            if !older {
                if let Some(node) = node {
                    state.by_node.insert(node, place.clone());
                }
                state.pods.insert(place, OwnPod { namespace, facts, moment });
            } else if let Some(known) = state.pods.get_mut(&place) {
                known.moment = moment;
            }
        }
        self.told(node.filter(|_| tell));
    }

    /// A pod is gone.
    fn drop_pod(&self, pod: LeanPod) {
        let place = (pod.namespace().to_owned(), pod.of_node());
        let (namespace, facts) = place;
        let place = (namespace, facts.name);
        {
            let mut state = self.state.lock();
            if state.pods.get(&place).is_some_and(|known| known.facts.uid == facts.uid) {
                state.pods.remove(&place);
                state.by_node.retain(|_, known| *known != place);
            }
        }
        self.told(facts.node);
    }

    fn told(&self, node: Option<NodeId>) {
        self.moved();
        if let Some(node) = node {
            // Nobody may be listening; whoever looks will see.
            drop(self.changes.send(Change::Node(node)));
        }
    }

    fn moved(&self) {
        self.moments.send_modify(|moment| *moment += 1);
    }
}

/// Pods of nodes as a watch tells of them, in a namespace or everywhere.
pub(super) struct Tells {
    pub(super) table: Arc<Table>,
    pub(super) index: usize,
    pub(super) namespace: Option<String>,
}

impl Takes<LeanPod> for Tells {
    fn begin(&self) -> u64 {
        self.table.begin()
    }

    fn take(&self, pod: LeanPod, tell: bool) {
        self.table.take(pod, tell);
    }

    fn drop(&self, pod: LeanPod) {
        self.table.drop_pod(pod);
    }

    fn complete(&self, begun: u64) {
        self.table.complete(self.index, self.namespace.as_deref(), begun);
    }

    fn lost(&self, why: String) {
        self.table.lost(self.index, why);
    }
}

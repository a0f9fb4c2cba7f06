//! The pods that are nodes, as the watch tells of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_core::ids::NodeId;
use muster_core::node::{Node, Observation};
use muster_engine::ports::provider::{ProviderError, WorldChange};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::facts::{LeanPod, NodePod, is_older};
use crate::fences::Fences;
use crate::follow::Takes;
use crate::sites::Graves;
use crate::stale::StaleWatches;
use crate::which::Certain;

/// A pod that is a node.
#[derive(Debug, Clone)]
pub(super) struct OwnPod {
    pub(super) namespace: String,
    pub(super) facts: NodePod,
    /// The watch lists it; without its label it does not.
    pub(super) listed: bool,
    moment: u64,
}

/// What the table knows of a node's pod.
pub(super) enum Lookup {
    /// The pod, or that there is none.
    Known(Option<Box<OwnPod>>),
    /// The watch does not list this pod of the node: it is gone, or only its label is.
    Unlisted(PodRef),
}

impl Lookup {
    pub(super) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Known(None))
    }
}

/// One particular pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl PodRef {
    /// The pod that was made for a node, by the node's row; none for a pod that others made.
    fn made_for(node: &Node) -> Option<Self> {
        let mut parts = node.physical_id.as_deref()?.splitn(3, '/').map(str::to_owned);
        Some(Self { namespace: parts.next()?, name: parts.next()?, uid: parts.next()? })
    }

    fn of(pod: &OwnPod) -> Self {
        let NodePod { name, uid, .. } = &pod.facts;
        Self { namespace: pod.namespace.clone(), name: name.clone(), uid: uid.clone() }
    }
}

/// A node's pod that the watch stopped listing.
struct UnlistedPod {
    pod: PodRef,
    /// The pod as it was last read, and when.
    read: Option<(Instant, OwnPod)>,
}

/// How long the read of a pod without its label is believed: it is read again at most this often.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Unlisted pods that are remembered; more only costs further reads.
const MOST_UNLISTED: usize = 4096;

impl OwnPod {
    /// How the node is that it stands for.
    pub(super) fn seen(&self) -> Observation {
        match &self.facts.seen {
            Observation::Running { .. } | Observation::Starting { .. } if self.facts.leaving => {
                Observation::Exited { reason: "its pod is being deleted".to_owned() }
            }
            seen => seen.clone(),
        }
    }
}

/// All of them.
pub(super) struct Table {
    certain: Certain,
    state: Mutex<State>,
    changes: broadcast::Sender<WorldChange>,
    moments: watch::Sender<u64>,
}

/// The namespace and name of a pod.
type Place = (String, String);

#[derive(Default)]
struct State {
    pods: BTreeMap<Place, OwnPod>,
    /// All pods that are labelled with a node, wherever they are.
    by_node: HashMap<NodeId, BTreeSet<Place>>,
    /// Pods that disappeared from the watch without being deleted before its eyes.
    unlisted: HashMap<NodeId, UnlistedPod>,
    /// Pods that are certainly gone.
    gone: Graves,
    stale: StaleWatches,
    moment: u64,
}

/// Whether a node's pod can be in a namespace: it is created in `home`, or was where its row says.
fn is_own_namespace(node: &Node, home: &str, namespace: &str) -> bool {
    let of_row = node.physical_id.as_deref().and_then(|identity| identity.split('/').next());
    namespace == home || Some(namespace) == of_row
}

impl State {
    /// The pod of a node that the watch lists. Anyone who may create pods in a watched namespace can label one with any
    /// node: only pods in the node's own namespace count, and first the one that its row names.
    fn listed(&self, node: &Node, home: &str) -> Option<&OwnPod> {
        let mut identity = node.physical_id.as_deref().unwrap_or_default().splitn(3, '/');
        let (namespace, name, uid) = (identity.next(), identity.next(), identity.next());
        let places = self.by_node.get(&node.id).into_iter().flatten();
        let own = places.filter(|(place, _)| is_own_namespace(node, home, place));
        let mut pods = own.filter_map(|place| self.pods.get(place)).peekable();
        let first = pods.peek().copied();
        let known = pods.find(|pod| Some(pod.facts.uid.as_str()) == uid);
        // An adopted pod has no node in its label, and its row no UID.
        let adopted = || self.pods.get(&(namespace?.to_owned(), name.filter(|_| uid.is_none())?.to_owned()));
        known.or(first).or_else(adopted)
    }

    fn marked_with<'a>(&'a self, node: NodeId, fences: &'a Fences) -> impl Iterator<Item = &'a OwnPod> {
        let places = self.by_node.get(&node).into_iter().flatten();
        let pods = places.filter_map(|place| self.pods.get(place));
        pods.filter(|pod| !pod.facts.leaving && fences.read(pod.facts.fence.as_ref()).is_some())
    }

    fn look_up(&self, node: &Node, home: &str) -> Lookup {
        if let Some(pod) = self.listed(node, home) {
            return Lookup::Known(Some(Box::new(pod.clone())));
        }
        let own = |unlisted: &&UnlistedPod| is_own_namespace(node, home, &unlisted.pod.namespace);
        let unlisted = self.unlisted.get(&node.id).filter(own);
        if let Some((at, pod)) = unlisted.and_then(|unlisted| unlisted.read.as_ref())
            && at.elapsed() < READ_AGAIN_AFTER
        {
            return Lookup::Known(Some(Box::new(pod.clone())));
        }
        let pod = unlisted.map(|unlisted| unlisted.pod.clone()).or_else(|| PodRef::made_for(node));
        match pod.filter(|pod| !self.gone.contains(&pod.uid)) {
            Some(pod) => Lookup::Unlisted(pod),
            None => Lookup::Known(None),
        }
    }

    fn forget_place(&mut self, node: Option<NodeId>, place: &Place) {
        let Some(node) = node else { return };
        if let Some(places) = self.by_node.get_mut(&node) {
            places.remove(place);
            if places.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// The watch lists this pod no more: the next observation reads it, unless it was seen being deleted.
    fn unlist(&mut self, pod: &OwnPod) {
        if let Some(node) = pod.facts.node.filter(|_| !self.gone.contains(&pod.facts.uid)) {
            self.remember_unlisted(node, UnlistedPod { pod: PodRef::of(pod), read: None });
        }
    }

    fn remember_unlisted(&mut self, node: NodeId, unlisted: UnlistedPod) {
        if self.unlisted.len() >= MOST_UNLISTED {
            self.unlisted.clear();
        }
        self.unlisted.insert(node, unlisted);
    }
}

impl Table {
    /// Of the watches of these namespaces; none is everywhere.
    pub(super) fn new(
        places: &[Option<String>],
        certain: Certain,
        changes: broadcast::Sender<WorldChange>,
    ) -> Self {
        let stale = StaleWatches::of(places.iter().cloned().enumerate());
        let state = Mutex::new(State { stale, ..State::default() });
        Self { certain, state, changes, moments: watch::Sender::new(0) }
    }

    /// What is known of the pods of nodes whose pods are created in a namespace, in their order.
    pub(super) fn look_up(&self, nodes: &[Node], home: &str) -> Result<Vec<Lookup>, ProviderError> {
        self.certain.check()?;
        let state = self.state.lock();
        state.stale.check(home)?;
        let look_up = |node: &Node| {
            // A pod may still be where an earlier profile had it.
            if let Some((namespace, _)) = node.physical_id.as_deref().and_then(|id| id.split_once('/')) {
                state.stale.check(namespace)?;
            }
            Ok(state.look_up(node, home))
        };
        nodes.iter().map(look_up).collect()
    }

    /// A pod that the watch lists.
    pub(super) fn listed(&self, pod: &PodRef) -> Option<OwnPod> {
        self.state.lock().pods.get(&(pod.namespace.clone(), pod.name.clone())).cloned()
    }

    /// An unlisted pod was read: only its label is gone.
    pub(super) fn confirm_unlisted(&self, node: NodeId, pod: LeanPod) -> OwnPod {
        let namespace = pod.namespace().to_owned();
        let mut state = self.state.lock();
        let pod = OwnPod { namespace, facts: pod.of_node(), listed: false, moment: state.moment };
        let read = Some((Instant::now(), pod.clone()));
        state.remember_unlisted(node, UnlistedPod { pod: PodRef::of(&pod), read });
        pod
    }

    /// A pod of a node is gone for good.
    pub(super) fn confirm_gone(&self, node: NodeId, uid: &str) {
        let mut state = self.state.lock();
        state.gone.add(uid);
        if state.unlisted.get(&node).is_some_and(|unlisted| unlisted.pod.uid == uid) {
            state.unlisted.remove(&node);
        }
    }

    /// The nodes that pods with a fence of this database are labelled with, whether or not they have a row.
    pub(super) fn marked(&self, fences: &Fences) -> Result<Vec<NodeId>, ProviderError> {
        self.certain.check()?;
        let state = self.state.lock();
        let nodes = state.by_node.keys().copied();
        Ok(nodes.filter(|node| state.marked_with(*node, fences).next().is_some()).collect())
    }

    /// The pods with a fence of this database that are labelled with a node.
    pub(super) fn marked_with(&self, node: NodeId, fences: &Fences) -> Vec<OwnPod> {
        self.state.lock().marked_with(node, fences).cloned().collect()
    }

    /// Why nodes do not work yet whose pods are there, in the namespace where they are created.
    pub(super) fn obstacles(&self, nodes: &HashSet<NodeId>, home: &str) -> HashMap<NodeId, String> {
        let state = self.state.lock();
        let reason = |id: &NodeId| {
            let place = state.by_node.get(id)?.iter().find(|(namespace, _)| namespace == home)?;
            let pod = state.pods.get(place)?;
            (!pod.facts.reason.is_empty()).then(|| (*id, pod.facts.reason.clone()))
        };
        nodes.iter().filter_map(reason).collect()
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
            let missing = state.pods.extract_if(.., |(place, _), pod| within(place) && pod.moment < begun);
            let missing: Vec<OwnPod> = missing.map(|(_, pod)| pod).collect();
            for pod in missing {
                state.unlist(&pod);
            }
            let State { pods, by_node, stale, .. } = &mut *state;
            by_node.retain(|_, places| {
                places.retain(|place| pods.contains_key(place));
                !places.is_empty()
            });
            stale.remove(index);
        }
        self.moved();
        drop(self.changes.send(WorldChange::Everything));
    }

    /// The watch cannot tell any more.
    fn lost(&self, index: usize, namespace: Option<String>, why: String) {
        self.state.lock().stale.add(index, namespace, why);
    }

    /// A pod is so now.
    pub(super) fn take(&self, pod: LeanPod, tell: bool) {
        self.take_since(None, pod, tell);
    }

    /// The same of a pod that was read since that moment: what was known before is older, whatever its version.
    fn take_since(&self, since: Option<u64>, pod: LeanPod, tell: bool) {
        let namespace = pod.namespace().to_owned();
        let facts = pod.of_node();
        let place = (namespace.clone(), facts.name.clone());
        let node = facts.node;
        {
            let mut state = self.state.lock();
            state.moment += 1;
            let moment = state.moment;
            let older = state.pods.get(&place).is_some_and(|known| {
                let is_read = since.is_some_and(|since| known.moment < since);
                known.facts.uid == facts.uid && is_older(&facts.version, &known.facts.version) && !is_read
            });
            if !older {
                if let Some(node) = node {
                    state.by_node.entry(node).or_default().insert(place.clone());
                    state.unlisted.remove(&node);
                }
                state.pods.insert(place, OwnPod { namespace, facts, listed: true, moment });
            } else if let Some(known) = state.pods.get_mut(&place) {
                known.moment = moment;
            }
        }
        self.told(node.filter(|_| tell));
    }

    /// The watch reports a pod as deleted: it is gone, or only its label is.
    fn drop_pod(&self, pod: LeanPod) {
        let namespace = pod.namespace().to_owned();
        let facts = pod.of_node();
        let place = (namespace, facts.name);
        {
            let mut state = self.state.lock();
            if facts.leaving {
                state.gone.add(&facts.uid);
            }
            if state.pods.get(&place).is_some_and(|known| known.facts.uid == facts.uid)
                && let Some(pod) = state.pods.remove(&place)
            {
                state.unlist(&pod);
                state.forget_place(pod.facts.node, &place);
            }
        }
        self.told(facts.node);
    }

    fn told(&self, node: Option<NodeId>) {
        self.moved();
        if let Some(node) = node {
            // Nobody may be listening; whoever looks will see.
            drop(self.changes.send(WorldChange::Node(node)));
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

    fn take(&self, pod: LeanPod, listed_since: Option<u64>) {
        self.table.take_since(listed_since, pod, listed_since.is_none());
    }

    fn drop(&self, pod: LeanPod) {
        self.table.drop_pod(pod);
    }

    fn complete(&self, begun: u64) {
        self.table.complete(self.index, self.namespace.as_deref(), begun);
    }

    fn lost(&self, why: String) {
        self.table.lost(self.index, self.namespace.clone(), why);
    }
}

#[cfg(test)]
mod tests;

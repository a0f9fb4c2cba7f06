//! An in-memory copy of the pods that are nodes, as the watches report them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_core::ids::NodeId;
use muster_core::node::{Node, Observation};
use muster_engine::ports::provider::{ProviderError, WorldChange};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::cluster_identity::IdentityGate;
use crate::fences::Fences;
use crate::projection::{LeanPod, NodePod, is_older};
use crate::stale_watches::StaleWatches;
use crate::tombstones::Tombstones;
use crate::watches::WatchSink;

/// A pod that is a node, as cached.
#[derive(Debug, Clone)]
pub(super) struct CachedPod {
    pub(super) namespace: String,
    pub(super) node_pod: NodePod,
    /// True if a watch lists the pod, which it does as long as the pod has its label.
    pub(super) listed: bool,
    epoch: u64,
}

/// The result of looking a node's pod up in the cache.
pub(super) enum Lookup {
    /// The pod; none if the node certainly has no pod.
    Known(Option<Box<CachedPod>>),
    /// No watch lists this pod of the node: either the pod is gone, or it has only lost its label.
    Unlisted(PodRef),
}

impl Lookup {
    pub(super) const fn is_absent(&self) -> bool {
        matches!(self, Self::Known(None))
    }
}

/// The identity of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl PodRef {
    /// Returns the pod that the node's row names; `None` for an adopted pod, whose identity has no UID.
    fn from_row(node: &Node) -> Option<Self> {
        let mut parts = node.physical_id.as_deref()?.splitn(3, '/').map(str::to_owned);
        Some(Self { namespace: parts.next()?, name: parts.next()?, uid: parts.next()? })
    }

    fn from_cached(pod: &CachedPod) -> Self {
        let NodePod { name, uid, .. } = &pod.node_pod;
        Self { namespace: pod.namespace.clone(), name: name.clone(), uid: uid.clone() }
    }
}

/// A node's pod that the watch stopped listing.
struct UnlistedPod {
    pod: PodRef,
    /// The pod as it was last read, and when.
    read: Option<(Instant, CachedPod)>,
}

/// The time for which the answer to a read of an unlisted pod is cached.
const UNLISTED_READ_TTL: Duration = Duration::from_secs(5);

/// The limit of cached unlisted pods; beyond it pods are read more often.
const MAX_UNLISTED: usize = 4096;

impl CachedPod {
    /// Returns the observation of the pod's node.
    pub(super) fn observation(&self) -> Observation {
        match &self.node_pod.observation {
            Observation::Running { .. } | Observation::Starting { .. } if self.node_pod.leaving => {
                Observation::Exited { reason: "its pod is being deleted".to_owned() }
            }
            observation => observation.clone(),
        }
    }
}

/// The pods of all nodes.
pub(super) struct PodCache {
    identity_gate: IdentityGate,
    state: Mutex<PodCacheState>,
    changes: broadcast::Sender<WorldChange>,
    epochs: watch::Sender<u64>,
}

/// The namespace and name of a pod.
type PodKey = (String, String);

#[derive(Default)]
struct PodCacheState {
    pods: BTreeMap<PodKey, CachedPod>,
    /// All pods that are labelled with a node, in any namespace.
    by_node: HashMap<NodeId, BTreeSet<PodKey>>,
    /// Pods that a watch stopped listing without reporting their deletion.
    unlisted: HashMap<NodeId, UnlistedPod>,
    tombstones: Tombstones,
    stale: StaleWatches,
    epoch: u64,
}

/// Returns true if a node's pod can be in a namespace: it is created in `home`, or was where its row says.
fn is_own_namespace(node: &Node, home: &str, namespace: &str) -> bool {
    let of_row = node.physical_id.as_deref().and_then(|identity| identity.split('/').next());
    namespace == home || Some(namespace) == of_row
}

impl PodCacheState {
    /// Returns the pod of a node that the watch lists. Anyone who may create pods in a watched namespace can label one
    /// with any node: only pods in the node's own namespace count, and first the one that its row names.
    fn listed(&self, node: &Node, home: &str) -> Option<&CachedPod> {
        let mut identity = node.physical_id.as_deref().unwrap_or_default().splitn(3, '/');
        let (namespace, name, uid) = (identity.next(), identity.next(), identity.next());
        let keys = self.by_node.get(&node.id).into_iter().flatten();
        let own = keys.filter(|(namespace, _)| is_own_namespace(node, home, namespace));
        let mut pods = own.filter_map(|key| self.pods.get(key)).peekable();
        let first = pods.peek().copied();
        let known = pods.find(|pod| Some(pod.node_pod.uid.as_str()) == uid);
        // An adopted pod has no node in its label, and its row no UID.
        let adopted = || self.pods.get(&(namespace?.to_owned(), name.filter(|_| uid.is_none())?.to_owned()));
        known.or(first).or_else(adopted)
    }

    fn pods_of<'a>(&'a self, node: NodeId, fences: &'a Fences) -> impl Iterator<Item = &'a CachedPod> {
        let keys = self.by_node.get(&node).into_iter().flatten();
        let pods = keys.filter_map(|key| self.pods.get(key));
        pods.filter(|pod| !pod.node_pod.leaving && fences.read(pod.node_pod.fence.as_ref()).is_some())
    }

    fn look_up(&self, node: &Node, home: &str) -> Lookup {
        if let Some(pod) = self.listed(node, home) {
            return Lookup::Known(Some(Box::new(pod.clone())));
        }
        let own = |unlisted: &&UnlistedPod| is_own_namespace(node, home, &unlisted.pod.namespace);
        let is_known_gone = |pod: &PodRef| self.tombstones.contains(&pod.uid);
        let unlisted =
            self.unlisted.get(&node.id).filter(own).filter(|unlisted| !is_known_gone(&unlisted.pod));
        if let Some((at, pod)) = unlisted.and_then(|unlisted| unlisted.read.as_ref())
            && at.elapsed() < UNLISTED_READ_TTL
        {
            return Lookup::Known(Some(Box::new(pod.clone())));
        }
        let pod = unlisted.map(|unlisted| unlisted.pod.clone()).or_else(|| PodRef::from_row(node));
        match pod.filter(|pod| !is_known_gone(pod)) {
            Some(pod) => Lookup::Unlisted(pod),
            None => Lookup::Known(None),
        }
    }

    fn forget_key(&mut self, node: Option<NodeId>, key: &PodKey) {
        let Some(node) = node else { return };
        if let Some(keys) = self.by_node.get_mut(&node) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// Records that a watch stopped listing a pod: the next observation reads it, unless its deletion was reported.
    fn unlist(&mut self, pod: &CachedPod) {
        if let Some(node) = pod.node_pod.node.filter(|_| !self.tombstones.contains(&pod.node_pod.uid)) {
            self.cache_unlisted(node, UnlistedPod { pod: PodRef::from_cached(pod), read: None });
        }
    }

    fn cache_unlisted(&mut self, node: NodeId, unlisted: UnlistedPod) {
        if self.unlisted.len() >= MAX_UNLISTED {
            self.unlisted.clear();
        }
        self.unlisted.insert(node, unlisted);
    }
}

impl PodCache {
    /// Creates the cache for the watches of these namespaces (none for all), which have not listed anything yet.
    pub(super) fn new(
        scopes: &[Option<String>],
        identity_gate: IdentityGate,
        changes: broadcast::Sender<WorldChange>,
    ) -> Self {
        let stale = StaleWatches::new(scopes.iter().cloned().enumerate());
        let state = Mutex::new(PodCacheState { stale, ..PodCacheState::default() });
        Self { identity_gate, state, changes, epochs: watch::Sender::new(0) }
    }

    /// Looks up the pods of nodes, in their order. `home` is the namespace in which their pods are created.
    pub(super) fn look_up(&self, nodes: &[Node], home: &str) -> Result<Vec<Lookup>, ProviderError> {
        self.identity_gate.check()?;
        let state = self.state.lock();
        state.stale.check(home)?;
        let look_up = |node: &Node| {
            // The pod may be in the namespace of an earlier profile.
            if let Some((namespace, _)) = node.physical_id.as_deref().and_then(|id| id.split_once('/')) {
                state.stale.check(namespace)?;
            }
            Ok(state.look_up(node, home))
        };
        nodes.iter().map(look_up).collect()
    }

    /// Returns a pod that a watch lists.
    pub(super) fn listed(&self, pod: &PodRef) -> Option<CachedPod> {
        self.state.lock().pods.get(&(pod.namespace.clone(), pod.name.clone())).cloned()
    }

    /// Caches a pod that was read because no watch lists it: the pod exists, and has only lost its label.
    pub(super) fn confirm_unlisted(&self, node: NodeId, pod: LeanPod) -> CachedPod {
        let namespace = pod.namespace().to_owned();
        let mut state = self.state.lock();
        let pod = CachedPod { namespace, node_pod: pod.into_node_pod(), listed: false, epoch: state.epoch };
        let read = Some((Instant::now(), pod.clone()));
        state.cache_unlisted(node, UnlistedPod { pod: PodRef::from_cached(&pod), read });
        pod
    }

    /// Records that a pod of a node does not exist any more.
    pub(super) fn confirm_gone(&self, node: NodeId, uid: &str) {
        let mut state = self.state.lock();
        state.tombstones.insert(uid);
        if state.unlisted.get(&node).is_some_and(|unlisted| unlisted.pod.uid == uid) {
            state.unlisted.remove(&node);
        }
    }

    /// Returns the nodes, with or without a row, that pods with a fence of this database are labelled with.
    pub(super) fn nodes_with_pods(&self, fences: &Fences) -> Result<Vec<NodeId>, ProviderError> {
        self.identity_gate.check()?;
        let state = self.state.lock();
        let nodes = state.by_node.keys().copied();
        Ok(nodes.filter(|node| state.pods_of(*node, fences).next().is_some()).collect())
    }

    /// Returns the pods with a fence of this database that are labelled with a node.
    pub(super) fn pods_of(&self, node: NodeId, fences: &Fences) -> Vec<CachedPod> {
        self.state.lock().pods_of(node, fences).cloned().collect()
    }

    /// Returns the reasons why the pods of nodes in their own namespace are not ready.
    pub(super) fn obstacles(&self, nodes: &HashSet<NodeId>, home: &str) -> HashMap<NodeId, String> {
        let state = self.state.lock();
        let reason = |id: &NodeId| {
            let key = state.by_node.get(id)?.iter().find(|(namespace, _)| namespace == home)?;
            let pod = state.pods.get(key)?;
            (!pod.node_pod.reason.is_empty()).then(|| (*id, pod.node_pod.reason.clone()))
        };
        nodes.iter().filter_map(reason).collect()
    }

    /// Subscribes to changes of the cache.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.epochs.subscribe()
    }

    /// Starts a complete list, and returns its epoch.
    fn begin_list(&self) -> u64 {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.epoch
    }

    /// Ends the complete list of a namespace, or of all, that began at this epoch.
    fn mark_synced(&self, index: usize, namespace: Option<&str>, begun: u64) {
        {
            let mut state = self.state.lock();
            let is_within = |own: &str| namespace.is_none_or(|namespace| namespace == own);
            let missing =
                state.pods.extract_if(.., |(namespace, _), pod| is_within(namespace) && pod.epoch < begun);
            let missing: Vec<CachedPod> = missing.map(|(_, pod)| pod).collect();
            for pod in missing {
                state.unlist(&pod);
            }
            let PodCacheState { pods, by_node, stale, .. } = &mut *state;
            by_node.retain(|_, keys| {
                keys.retain(|key| pods.contains_key(key));
                !keys.is_empty()
            });
            stale.mark_in_sync(index);
        }
        self.advance();
        drop(self.changes.send(WorldChange::Everything));
    }

    /// Records that a watch has failed.
    fn mark_stale(&self, index: usize, namespace: Option<String>, reason: String) {
        self.state.lock().stale.mark_stale(index, namespace, reason);
    }

    /// Applies the state of a pod from a watch event or the answer to a write.
    pub(super) fn apply_written(&self, pod: LeanPod, notify: bool) {
        self.apply_pod(None, pod, notify);
    }

    /// Applies the state of a pod, unless the pod was deleted. If a list that began at epoch `since` contains it, it
    /// replaces anything that was cached before that epoch, whatever its version.
    fn apply_pod(&self, since: Option<u64>, pod: LeanPod, notify: bool) {
        let namespace = pod.namespace().to_owned();
        let node_pod = pod.into_node_pod();
        let key = (namespace.clone(), node_pod.name.clone());
        let node = node_pod.node;
        {
            let mut state = self.state.lock();
            if state.tombstones.contains(&node_pod.uid) {
                return;
            }
            state.epoch += 1;
            let epoch = state.epoch;
            let older = state.pods.get(&key).is_some_and(|known| {
                let is_read = since.is_some_and(|since| known.epoch < since);
                known.node_pod.uid == node_pod.uid
                    && is_older(&node_pod.version, &known.node_pod.version)
                    && !is_read
            });
            if !older {
                if let Some(node) = node {
                    state.by_node.entry(node).or_default().insert(key.clone());
                    state.unlisted.remove(&node);
                }
                state.pods.insert(key, CachedPod { namespace, node_pod, listed: true, epoch });
            } else if let Some(known) = state.pods.get_mut(&key) {
                known.epoch = epoch;
            }
        }
        self.publish(node.filter(|_| notify));
    }

    /// Applies a watch event that reports a deletion: either the pod is gone, or it has only lost its label.
    fn delete_pod(&self, pod: LeanPod) {
        let namespace = pod.namespace().to_owned();
        let node_pod = pod.into_node_pod();
        let key = (namespace, node_pod.name);
        {
            let mut state = self.state.lock();
            if node_pod.leaving {
                state.tombstones.insert(&node_pod.uid);
            }
            if state.pods.get(&key).is_some_and(|known| known.node_pod.uid == node_pod.uid)
                && let Some(pod) = state.pods.remove(&key)
            {
                state.unlist(&pod);
                state.forget_key(pod.node_pod.node, &key);
            }
        }
        self.publish(node_pod.node);
    }

    fn publish(&self, node: Option<NodeId>) {
        self.advance();
        if let Some(node) = node {
            // Without a subscriber the change is lost, which does no harm: a new subscriber observes everything.
            drop(self.changes.send(WorldChange::Node(node)));
        }
    }

    /// Wakes the subscribers of the cache.
    fn advance(&self) {
        self.epochs.send_modify(|epoch| *epoch += 1);
    }
}

/// Receives the pods of a watch.
pub(super) struct PodCacheSink {
    pub(super) cache: Arc<PodCache>,
    pub(super) index: usize,
    pub(super) namespace: Option<String>,
}

impl WatchSink<LeanPod> for PodCacheSink {
    fn begin(&self) -> u64 {
        self.cache.begin_list()
    }

    fn apply(&self, pod: LeanPod, listed_since: Option<u64>) {
        self.cache.apply_pod(listed_since, pod, listed_since.is_none());
    }

    fn delete(&self, pod: LeanPod) {
        self.cache.delete_pod(pod);
    }

    fn synced(&self, begun: u64) {
        self.cache.mark_synced(self.index, self.namespace.as_deref(), begun);
    }

    fn lost(&self, reason: String) {
        self.cache.mark_stale(self.index, self.namespace.clone(), reason);
    }
}

#[cfg(test)]
mod tests;

//! An in-memory copy of one flavor's clusters: their objects and pods, as the watches report them.
//!
//! The answer to a write updates the cache at once, so that a later observation never shows less than was written.
//! A watch event that arrives after that is older, and is ignored.

mod cached_cluster;
mod sinks;
mod versioned;

use std::collections::HashMap;
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::provider::{ProviderError, Unobserved, WorldChange};
use muster_frameworks::kubernetes::{Flavor, ObjectRole, WatchedKind};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;

pub(crate) use cached_cluster::CachedCluster;
pub(crate) use sinks::{ObjectSink, PodSink};
use versioned::Arrival;

use crate::content::{RecentContents, RootContent};
use crate::observation::OPERATOR_GRACE;
use crate::projection::{CachedObject, LeanPod};
use crate::stale_watches::StaleWatches;
use crate::tombstones::Tombstones;

/// The namespace of a cluster and the name of its root object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClusterKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One watch of a flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlavorWatch {
    /// The number of this watch among the watches of the flavor.
    pub(crate) index: usize,
    pub(crate) target: WatchTarget,
    /// The namespace that the watch covers; all if none.
    pub(crate) namespace: Option<String>,
}

/// The objects that a watch follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    /// Objects that specify clusters.
    Objects(&'static WatchedKind),
    /// Pods of clusters.
    Pods,
}

/// The clusters of one flavor.
pub(crate) struct ClusterCache {
    pub(crate) flavor: &'static dyn Flavor,
    targets: Vec<WatchTarget>,
    state: Mutex<CacheState>,
    changes: broadcast::Sender<WorldChange>,
}

#[derive(Default)]
struct CacheState {
    clusters: HashMap<ClusterKey, CachedCluster>,
    stale: StaleWatches,
    /// Deleted objects that a late watch event or the answer to a write may still report.
    tombstones: Tombstones,
    /// The content of the roots that changed last.
    recent: RecentContents,
    /// The cluster of each cached object and pod, by UID.
    key_by_uid: HashMap<String, ClusterKey>,
    /// Rises with every report, so that what a complete list lacks can be distinguished from what was written
    /// during the list.
    epoch: u64,
}

impl CacheState {
    /// Removes what a complete list that began at this epoch did not contain. No namespace means all of them.
    fn prune(&mut self, target: WatchTarget, namespace: Option<&str>, begun: u64) {
        let is_within = |key: &ClusterKey| namespace.is_none_or(|namespace| namespace == key.namespace);
        for (_, cached) in self.clusters.iter_mut().filter(|(key, _)| is_within(key)) {
            cached.prune(target, begun);
        }
        self.clusters.retain(|_, cached| !cached.is_empty());
        let Self { clusters, key_by_uid, .. } = self;
        key_by_uid.retain(|uid, key| {
            clusters.get(key).is_some_and(|cached| cached.uids().any(|known| known == uid))
        });
    }
}

impl ClusterCache {
    /// Creates a cache that is unknown until each of the watches has listed everything.
    pub(crate) fn new(
        flavor: &'static dyn Flavor,
        watches: &[FlavorWatch],
        changes: broadcast::Sender<WorldChange>,
    ) -> Self {
        let stale = StaleWatches::new(watches.iter().map(|watch| (watch.index, watch.namespace.clone())));
        // Every namespace has the same targets.
        let is_of_first =
            |watch: &FlavorWatch| watches.first().is_some_and(|first| first.namespace == watch.namespace);
        let targets = watches.iter().filter(|watch| is_of_first(watch)).map(|watch| watch.target).collect();
        Self { flavor, targets, state: Mutex::new(CacheState { stale, ..CacheState::default() }), changes }
    }

    /// Returns a copy of a cluster as it is cached; an error while a watch of its namespace is stale.
    pub(crate) fn snapshot(&self, key: &ClusterKey) -> Result<CachedCluster, ProviderError> {
        let state = self.state.lock();
        state.stale.check(&key.namespace)?;
        Ok(state.clusters.get(key).cloned().unwrap_or_default())
    }

    /// Returns every cluster with a root, in namespaces whose watches are in sync. Subscribers are notified when the
    /// watches of another namespace get in sync.
    pub(crate) fn clusters(&self) -> Vec<ClusterId> {
        let state = self.state.lock();
        let known = state.clusters.iter().filter(|(key, _)| state.stale.check(&key.namespace).is_ok());
        known.filter_map(|(_, cached)| cached.root_cluster()).collect()
    }

    /// Returns the namespaces whose watches cannot report at present.
    pub(crate) fn unobserved(&self) -> Vec<Unobserved> {
        let state = self.state.lock();
        let unobserved = |(namespace, reason): (Option<&str>, &str)| Unobserved {
            namespace: namespace.map(str::to_owned),
            flavor: Some(self.flavor.name()),
            reason: reason.to_owned(),
        };
        state.stale.reasons().map(unobserved).collect()
    }

    /// Returns the namespace and name of a cluster's root.
    pub(crate) fn find_key(&self, cluster: ClusterId) -> Option<ClusterKey> {
        let state = self.state.lock();
        let found = state.clusters.iter().find(|(_, cached)| cached.root_cluster() == Some(cluster));
        found.map(|(key, _)| key.clone())
    }

    /// Treats the root of a cluster as an external object, identified by its UID: the root is a copy of the cluster's
    /// object, such as one that was restored from a backup.
    pub(crate) fn disown(&self, cluster: ClusterId) {
        let own = {
            let mut state = self.state.lock();
            let cached = state.clusters.values_mut().find(|cached| cached.root_cluster() == Some(cluster));
            cached.and_then(CachedCluster::disown)
        };
        self.notify_cluster(own);
    }

    /// Starts a list or a read, and returns its epoch: what was reported before is older than its answer.
    pub(crate) fn next_epoch(&self) -> u64 {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.epoch
    }

    /// Records that a watch has listed everything, in a list that began at this epoch.
    pub(crate) fn mark_synced(&self, watch: &FlavorWatch, begun: u64) {
        let in_sync = {
            let mut state = self.state.lock();
            state.prune(watch.target, watch.namespace.as_deref(), begun);
            state.stale.mark_in_sync(watch.index);
            state.stale.is_in_sync(watch.namespace.as_deref())
        };
        if in_sync {
            self.notify(WorldChange::Everything);
        }
    }

    /// Records that everything of a target in a namespace was listed, without a watch.
    pub(crate) fn finish_list(&self, target: WatchTarget, namespace: &str, begun: u64) {
        self.state.lock().prune(target, Some(namespace), begun);
    }

    pub(crate) fn targets(&self) -> &[WatchTarget] {
        &self.targets
    }

    /// Returns true if the object with this UID is known to be deleted.
    pub(crate) fn is_deleted(&self, uid: &str) -> bool {
        self.state.lock().tombstones.contains(uid)
    }

    /// Records that a watch cannot report any more.
    pub(crate) fn mark_stale(&self, watch: &FlavorWatch, reason: String) {
        self.state.lock().stale.mark_stale(watch.index, watch.namespace.clone(), reason);
    }

    /// Applies the present state of an object. If a list or read that began at epoch `since` returned it, it replaces
    /// anything that was cached before that epoch, whatever its version.
    pub(crate) fn apply_object(
        &self,
        since: Option<u64>,
        watched: &WatchedKind,
        object: &Value,
        notify: bool,
    ) {
        let Some(projection) = self.flavor.read_object(watched.kind, object) else { return };
        let mut cached_object = CachedObject::read(watched.kind, object, projection);
        if watched.role == ObjectRole::Root {
            let content = RootContent::read(self.flavor, object);
            cached_object.content = Some(content.digest().to_owned());
            self.state.lock().recent.insert(&cached_object.uid, content);
        }
        let (key, uid) = (key_of(&cached_object), cached_object.uid.clone());
        let (cluster, acknowledged) = (cached_object.cluster, cached_object.projection.acknowledged);
        let mut is_new_root = false;
        let changed = self.update_cluster(key, &uid, since, |cached, arrival| match watched.role {
            ObjectRole::Root => {
                is_new_root = cached.root.as_ref().is_none_or(|root| root.value.uid != uid);
                cached.apply_root(cached_object, arrival)
            }
            ObjectRole::Detail => cached.apply_detail(cached_object, arrival),
            ObjectRole::PodController => cached.apply_pod_controller(cached_object, arrival),
        });
        if is_new_root && !acknowledged {
            self.notify_after_grace(cluster);
        }
        self.notify_cluster(changed.filter(|_| notify));
    }

    /// Returns the content of a root, if it changed recently and has this digest.
    pub(crate) fn recent_content(&self, uid: &str, digest: &str) -> Option<RootContent> {
        self.state.lock().recent.get(uid, digest)
    }

    /// Applies the deletion of an object.
    pub(crate) fn delete_object(&self, watched: &WatchedKind, object: &Value) {
        let Some(projection) = self.flavor.read_object(watched.kind, object) else { return };
        let deleted = CachedObject::read(watched.kind, object, projection);
        let changed = self.remove(&key_of(&deleted), &deleted.uid, |cached| cached.delete_object(&deleted));
        self.notify_cluster(changed);
    }

    /// Records what a write deleted, before a watch reports it.
    pub(crate) fn mark_deleted(&self, key: &ClusterKey, uid: &str) {
        let changed = self.remove(key, uid, |cached| {
            if cached.root.as_ref().is_some_and(|root| root.value.uid == uid) {
                cached.root = None;
            }
        });
        self.notify_cluster(changed);
    }

    /// Applies the present state of a pod, which a list that began at epoch `since` may have returned.
    pub(crate) fn apply_pod(&self, since: Option<u64>, pod: LeanPod, notify: bool) {
        let namespace = pod.namespace().to_owned();
        let Some(pod) = pod.into_cluster_pod(self.flavor) else { return };
        let (key, uid) = (ClusterKey { namespace, name: pod.member.cluster.clone() }, pod.uid.clone());
        let changed = self.update_cluster(key, &uid, since, |cached, arrival| cached.apply_pod(pod, arrival));
        self.notify_cluster(changed.filter(|_| notify));
    }

    /// Applies the deletion of a pod.
    pub(crate) fn delete_pod(&self, pod: LeanPod) {
        let namespace = pod.namespace().to_owned();
        let Some(pod) = pod.into_cluster_pod(self.flavor) else { return };
        let key = ClusterKey { namespace, name: pod.member.cluster.clone() };
        let changed = self.remove(&key, &pod.uid, |cached| cached.delete_pod(&pod));
        self.notify_cluster(changed);
    }

    /// Changes the cached cluster that an object belongs to, unless the object was deleted. Returns the id of the
    /// cluster if it has changed.
    fn update_cluster(
        &self,
        key: ClusterKey,
        uid: &str,
        read_since: Option<u64>,
        change: impl FnOnce(&mut CachedCluster, Arrival) -> bool,
    ) -> Option<ClusterId> {
        let mut state = self.state.lock();
        if state.tombstones.contains(uid) {
            return None;
        }
        state.epoch += 1;
        let arrival = Arrival { epoch: state.epoch, at: SystemClock.now(), read_since };
        state.key_by_uid.insert(uid.to_owned(), key.clone());
        let cached = state.clusters.entry(key).or_default();
        change(cached, arrival).then_some(cached.cluster).flatten()
    }

    /// Removes an object or pod by `change`, and returns the id of its cluster.
    fn remove(
        &self,
        key: &ClusterKey,
        uid: &str,
        change: impl FnOnce(&mut CachedCluster),
    ) -> Option<ClusterId> {
        let mut state = self.state.lock();
        state.tombstones.insert(uid);
        state.key_by_uid.remove(uid);
        state.recent.remove(uid);
        let cached = state.clusters.get_mut(key)?;
        change(cached);
        let cluster = cached.cluster;
        if cached.is_empty() {
            state.clusters.remove(key);
        }
        cluster
    }

    /// Notifies subscribers that Kubernetes published an event about the object with this UID.
    pub(crate) fn notify_event_about(&self, uid: &str) {
        let cluster = {
            let state = self.state.lock();
            state.key_by_uid.get(uid).and_then(|key| state.clusters.get(key)?.cluster)
        };
        self.notify_cluster(cluster);
    }

    fn notify_cluster(&self, cluster: Option<ClusterId>) {
        if let Some(cluster) = cluster {
            self.notify(WorldChange::Cluster(cluster));
        }
    }

    /// Notifies subscribers once the operator should have acknowledged a new root, so that they observe the cluster
    /// then: no watch event reports that an operator did nothing.
    fn notify_after_grace(&self, cluster: Option<ClusterId>) {
        let (Some(cluster), changes) = (cluster, self.changes.clone()) else { return };
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from(OPERATOR_GRACE)).await;
            drop(changes.send(WorldChange::Cluster(cluster)));
        });
    }

    fn notify(&self, change: WorldChange) {
        // Without a subscriber the change is lost, which does no harm: a new subscriber observes everything.
        drop(self.changes.send(change));
    }
}

fn key_of(object: &CachedObject) -> ClusterKey {
    ClusterKey { namespace: object.namespace.clone(), name: object.projection.cluster.clone() }
}

#[cfg(test)]
mod tests;

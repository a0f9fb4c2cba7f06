//! The objects and pods of one cluster, as cached.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use muster_core::action::Fence;
use muster_core::ids::ClusterId;
use muster_core::node::{NodeRole, Observation};
use muster_core::time::{TimeSpan, Timestamp};
use muster_frameworks::kubernetes::{ObjectProjection, ObjectRole};

use super::WatchTarget;
use super::versioned::{Arrival, Versioned};
use crate::fences::Fences;
use crate::projection::{CachedObject, ClusterPod};

/// The objects and pods of one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedCluster {
    /// The root object; the cluster exists as long as this object does.
    pub(crate) root: Option<Versioned<CachedObject>>,
    /// The other objects that specify the cluster, by kind and name.
    details: BTreeMap<(&'static str, String), Versioned<CachedObject>>,
    pods: BTreeMap<String, Versioned<ClusterPod>>,
    /// The id of the cluster, also while only its pods are left.
    pub(super) cluster: Option<ClusterId>,
    /// The time of the last change of its specification, until its operator shows a sign of acting on it.
    unanswered_since: Option<Timestamp>,
}

impl CachedCluster {
    /// Returns the id of the cluster, if it has a root.
    pub(super) fn root_cluster(&self) -> Option<ClusterId> {
        self.root.as_ref()?.value.cluster
    }

    /// Returns all objects that specify the cluster, the root first.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &CachedObject> {
        self.root.iter().chain(self.details.values()).map(|cached| &cached.value)
    }

    /// Returns the projections of all objects, the root's first.
    pub(crate) fn projections(&self) -> Vec<&ObjectProjection> {
        self.objects().map(|object| &object.projection).collect()
    }

    /// Returns the newest fence of this database on any of the objects.
    pub(crate) fn fence(&self, fences: &Fences) -> Fence {
        let written = self.objects().filter_map(|object| fences.read(object.fence.as_ref()));
        written.max().unwrap_or(Fence(0))
    }

    /// Returns the sum of the objects' generations, which rises when anyone changes what one of them specifies.
    pub(crate) fn generation(&self) -> u64 {
        self.objects().map(|object| u64::try_from(object.generation).unwrap_or_default()).sum()
    }

    pub(crate) fn object(&self, kind: &str, name: &str) -> Option<&CachedObject> {
        self.objects().find(|object| object.kind.kind == kind && object.name == name)
    }

    /// Returns the UIDs of all objects and pods.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &str> {
        self.objects().map(|object| object.uid.as_str()).chain(self.pods().map(|pod| pod.uid.as_str()))
    }

    /// Returns all pods, sorted by name.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &ClusterPod> {
        self.pods.values().map(|cached| &cached.value)
    }

    /// Returns the pods that count as members: not those that have ended and whose controller replaces them.
    pub(crate) fn members(&self) -> impl Iterator<Item = &ClusterPod> {
        self.pods().filter(|pod| !(pod.is_replaced && matches!(pod.observation, Observation::Exited { .. })))
    }

    /// Returns true if the operator's status counts all running pods; true for operators that do not count them. None
    /// of them may be deleted before: if a pod is gone before KubeRay has observed it, KubeRay reconciles only after
    /// 300 s.
    pub(crate) fn is_known_to_operator(&self) -> bool {
        let Some(root) = self.root.as_ref().map(|root| &root.value.projection) else { return true };
        let running = |role: NodeRole| {
            let is_running =
                |pod: &&ClusterPod| matches!(pod.observation, Observation::Running { .. }) && !pod.leaving;
            self.pods().filter(move |pod| pod.member.role == role).filter(is_running)
        };
        let knows_head = |known: &String| running(NodeRole::Head).all(|pod| pod.name == *known);
        let workers = running(NodeRole::Worker).count();
        root.reported_head.as_ref().is_none_or(knows_head)
            && root
                .reported_workers
                .is_none_or(|known| usize::try_from(known).is_ok_and(|known| known >= workers))
    }

    pub(crate) fn pod(&self, name: &str) -> Option<&ClusterPod> {
        self.pods.get(name).map(|cached| &cached.value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none() && self.details.is_empty() && self.pods.is_empty()
    }

    pub(super) fn apply_root(&mut self, mut root: CachedObject, arrival: Arrival) -> bool {
        if let Some(known) = self.root.as_ref().filter(|known| known.value.uid == root.uid) {
            // The same object stays the same cluster, even if a user changed the label with the cluster's id.
            root.cluster = known.value.cluster;
        }
        self.cluster = root.cluster;
        let (generation, before) = (root.generation, self.root.as_ref().map(|known| known.value.generation));
        let changed = match &mut self.root {
            Some(known) => known.update(root, arrival, object_version),
            none => {
                *none = Some(Versioned { value: root, epoch: arrival.epoch });
                true
            }
        };
        let respecified = before.is_some_and(|before| generation > before);
        self.record_operator_activity(changed, respecified.then_some(arrival.at));
        changed
    }

    /// Records a change of an object: a change of its specification at `respecified_at`, or a change by the operator.
    fn record_operator_activity(&mut self, changed: bool, respecified_at: Option<Timestamp>) {
        if changed {
            self.unanswered_since = respecified_at;
        }
    }

    /// Returns the time for which the operator has shown no sign of acting on the last change of the specification.
    pub(crate) fn unanswered_for(&self, now: Timestamp) -> Option<TimeSpan> {
        self.unanswered_since.map(|since| now.since(since))
    }

    /// Gives the cluster the UID of its root as its id, and returns it.
    pub(super) fn disown(&mut self) -> Option<ClusterId> {
        let root = &mut self.root.as_mut()?.value;
        root.cluster = root.uid.parse().ok();
        self.cluster = root.cluster;
        self.cluster
    }

    pub(super) fn apply_detail(&mut self, object: CachedObject, arrival: Arrival) -> bool {
        let key = (object.kind.kind, object.name.clone());
        let (generation, before) =
            (object.generation, self.details.get(&key).map(|cached| cached.value.generation));
        let changed = insert_or_update(self.details.entry(key), object, arrival, object_version);
        let respecified = before.is_some_and(|before| generation > before);
        self.record_operator_activity(changed, respecified.then_some(arrival.at));
        changed
    }

    /// Applies a pod controller. Only the operator writes those, so any change is a sign of activity.
    pub(super) fn apply_pod_controller(&mut self, object: CachedObject, arrival: Arrival) -> bool {
        let changed = self.apply_detail(object, arrival);
        self.record_operator_activity(changed, None);
        changed
    }

    pub(super) fn apply_pod(&mut self, pod: ClusterPod, arrival: Arrival) -> bool {
        let is_new = self.pods.get(&pod.name).is_none_or(|cached| cached.value.uid != pod.uid);
        self.record_operator_activity(is_new, None);
        insert_or_update(self.pods.entry(pod.name.clone()), pod, arrival, pod_version)
    }

    pub(super) fn delete_object(&mut self, object: &CachedObject) {
        if self.root.as_ref().is_some_and(|root| root.value.uid == object.uid) {
            self.root = None;
        }
        self.details.retain(|_, cached| cached.value.uid != object.uid);
    }

    pub(super) fn delete_pod(&mut self, pod: &ClusterPod) {
        // A new pod may have the same name.
        if self.pods.get(&pod.name).is_some_and(|cached| cached.value.uid == pod.uid) {
            self.pods.remove(&pod.name);
            self.record_operator_activity(true, None);
        }
    }

    /// Removes what a complete list that began at this epoch did not contain.
    pub(super) fn prune(&mut self, target: WatchTarget, begun: u64) {
        match target {
            WatchTarget::Pods => self.pods.retain(|_, cached| cached.epoch >= begun),
            WatchTarget::Objects(watched) if watched.role == ObjectRole::Root => {
                self.root = self.root.take().filter(|cached| cached.epoch >= begun);
            }
            WatchTarget::Objects(watched) => {
                self.details.retain(|(kind, _), cached| *kind != watched.kind.kind || cached.epoch >= begun);
            }
        }
    }
}

fn object_version(object: &CachedObject) -> (&str, &str) {
    (&object.uid, &object.version)
}

fn pod_version(pod: &ClusterPod) -> (&str, &str) {
    (&pod.uid, &pod.version)
}

fn insert_or_update<K: Ord, T: PartialEq>(
    entry: Entry<'_, K, Versioned<T>>,
    value: T,
    arrival: Arrival,
    version: impl Fn(&T) -> (&str, &str),
) -> bool {
    match entry {
        Entry::Vacant(vacant) => {
            vacant.insert(Versioned { value, epoch: arrival.epoch });
            true
        }
        Entry::Occupied(mut occupied) => occupied.get_mut().update(value, arrival, version),
    }
}

//! The sinks through which watches update a cluster cache.

use std::sync::Arc;

use muster_frameworks::kubernetes::WatchedKind;

use super::{ClusterCache, FlavorWatch};
use crate::projection::LeanPod;
use crate::untyped_object::UntypedObject;
use crate::watches::WatchSink;

/// Receives pods of clusters.
pub(crate) struct PodSink {
    pub(crate) cache: Arc<ClusterCache>,
    pub(crate) watch: FlavorWatch,
}

impl WatchSink<LeanPod> for PodSink {
    fn begin(&self) -> u64 {
        self.cache.next_epoch()
    }

    fn apply(&self, pod: LeanPod, listed_since: Option<u64>) {
        self.cache.apply_pod(listed_since, pod, listed_since.is_none());
    }

    fn delete(&self, pod: LeanPod) {
        self.cache.delete_pod(pod);
    }

    fn synced(&self, begun: u64) {
        self.cache.mark_synced(&self.watch, begun);
    }

    fn lost(&self, reason: String) {
        self.cache.mark_stale(&self.watch, reason);
    }
}

/// Receives objects that specify clusters.
pub(crate) struct ObjectSink {
    pub(crate) cache: Arc<ClusterCache>,
    pub(crate) watch: FlavorWatch,
    pub(crate) watched: &'static WatchedKind,
}

impl WatchSink<UntypedObject> for ObjectSink {
    fn begin(&self) -> u64 {
        self.cache.next_epoch()
    }

    fn apply(&self, object: UntypedObject, listed_since: Option<u64>) {
        let notify = listed_since.is_none();
        self.cache.apply_object(listed_since, self.watched, &object.body, notify);
    }

    fn delete(&self, object: UntypedObject) {
        self.cache.delete_object(self.watched, &object.body);
    }

    fn synced(&self, begun: u64) {
        self.cache.mark_synced(&self.watch, begun);
    }

    fn lost(&self, reason: String) {
        self.cache.mark_stale(&self.watch, reason);
    }
}

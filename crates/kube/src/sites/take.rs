//! Watches that tell a flavor's sites.

use std::sync::Arc;

use muster_frameworks::kubernetes::Watched;

use super::{Sites, Watch};
use crate::facts::LeanPod;
use crate::follow::Takes;
use crate::plain::PlainObject;

/// Pods of clusters.
pub(crate) struct Pods {
    pub(crate) sites: Arc<Sites>,
    pub(crate) watch: Watch,
}

impl Takes<LeanPod> for Pods {
    fn begin(&self) -> u64 {
        self.sites.begin()
    }

    fn take(&self, pod: LeanPod, listed_since: Option<u64>) {
        self.sites.take_pod(listed_since, pod, listed_since.is_none());
    }

    fn drop(&self, pod: LeanPod) {
        self.sites.drop_pod(pod);
    }

    fn complete(&self, begun: u64) {
        self.sites.complete(&self.watch, begun);
    }

    fn lost(&self, why: String) {
        self.sites.lost(&self.watch, why);
    }
}

/// Objects that say how clusters should be.
pub(crate) struct Objects {
    pub(crate) sites: Arc<Sites>,
    pub(crate) watch: Watch,
    pub(crate) watched: &'static Watched,
}

impl Takes<PlainObject> for Objects {
    fn begin(&self) -> u64 {
        self.sites.begin()
    }

    fn take(&self, object: PlainObject, listed_since: Option<u64>) {
        let tell = listed_since.is_none();
        self.sites.take_object(listed_since, self.watched, &object.body, tell);
    }

    fn drop(&self, object: PlainObject) {
        self.sites.drop_object(self.watched, &object.body);
    }

    fn complete(&self, begun: u64) {
        self.sites.complete(&self.watch, begun);
    }

    fn lost(&self, why: String) {
        self.sites.lost(&self.watch, why);
    }
}

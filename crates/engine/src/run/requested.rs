//! What a cluster requests, recorded in the event that ends a change of it: the history that usage is computed from.

use muster_core::action::{Action, ActionKind};
use muster_core::event::Event;
use muster_core::usage::{AmountsRecord, RequestedAmounts};

use crate::run::{ActionRun, Subject};

/// What the cluster requested before the action; none where an earlier engine may have committed the change already.
pub(super) fn before(action: &Action, subject: &Subject) -> Option<RequestedAmounts> {
    let is_known = action.applied_at.is_none() && action.kind != ActionKind::ClusterCreate;
    is_known.then(|| of(subject))
}

fn of(subject: &Subject) -> RequestedAmounts {
    RequestedAmounts::of_cluster(&subject.cluster, Some(&subject.profile))
}

impl ActionRun {
    /// Records in the event of its end what the cluster requests from then on.
    pub(crate) fn record_amounts(&self, end: &mut Event) {
        let kind = self.action.kind;
        // An action on nodes that does not hold the cluster has an outdated copy of it.
        if !self.subject.stored || self.subject.is_shared(kind) {
            return;
        }
        let (before, after) = (self.requested_before, of(&self.subject));
        // The first one is recorded, and the last one: the profile is deleted with the cluster.
        let is_bound = matches!(kind, ActionKind::ClusterCreate | ActionKind::ClusterDelete);
        if is_bound || before != Some(after) {
            AmountsRecord::write(&mut end.data, before, after);
        }
    }
}

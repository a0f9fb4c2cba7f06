//! Records the amounts that a cluster requests, in the event that ends a change: usage is computed from these events.

use muster_core::action::{Action, ActionKind};
use muster_core::event::Event;
use muster_core::usage::{AmountsRecord, RequestedAmounts};

use crate::run::{ActionRun, RunSubject};

/// Returns the amounts that the cluster requested before the action; none for a creation, or if an earlier engine may
/// have committed the change already.
pub(super) fn before(action: &Action, subject: &RunSubject) -> Option<RequestedAmounts> {
    let is_known = action.applied_at.is_none() && action.kind != ActionKind::ClusterCreate;
    is_known.then(|| of(subject))
}

fn of(subject: &RunSubject) -> RequestedAmounts {
    RequestedAmounts::of_cluster(&subject.cluster, Some(&subject.profile))
}

impl ActionRun {
    /// Records the amounts that the cluster requests from now on in the event of the action's end.
    pub(crate) fn record_amounts(&self, end: &mut Event) {
        let kind = self.action.kind;
        // An action on a node that does not lock the cluster may have an outdated copy of it.
        if !self.subject.stored || self.subject.is_shared(kind) {
            return;
        }
        let (before, after) = (self.requested_before, of(&self.subject));
        // The first and the last amounts are always recorded: the profile is deleted with the cluster.
        let is_bound = matches!(kind, ActionKind::ClusterCreate | ActionKind::ClusterDelete);
        if is_bound || before != Some(after) {
            AmountsRecord::write(&mut end.data, before, after);
        }
    }
}

//! The change of group sizes that an action is expected to make, computed before the action begins.

use muster_core::action::ActionKind;
use muster_core::change::Change;

use crate::intent::{Baseline, Intent};
use crate::policy::PolicyContext;

/// Returns true if an action of this kind may add members.
pub(crate) const fn may_add(kind: ActionKind) -> bool {
    matches!(
        kind,
        ActionKind::ClusterScaleOut
            | ActionKind::ClusterResize
            | ActionKind::ClusterUpdate
            | ActionKind::ClusterRecover
            | ActionKind::NodeCreate
    )
}

/// The number of members that an action adds and removes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SizeChange {
    /// The number of added members, in all groups.
    pub(crate) added: u32,
    /// The number of removed members, by group.
    pub(crate) removed: Vec<(String, usize)>,
}

impl SizeChange {
    /// Computes the change of sizes that an action is about to make. A change that will be refused counts as none: the
    /// action itself reports the reason.
    pub(crate) fn of(context: &PolicyContext<'_>) -> Self {
        let mut sizes = Self::default();
        if matches!(context.change, Change::RecoverCluster(recovery) if recovery.check_capacity == Some(false))
        {
            return sizes;
        }
        let intent = intent(context);
        let Ok(after) = intent.after(context.change, context.data) else { return sizes };
        for group in &after.groups {
            let members = intent.present(group).size;
            sizes.added = sizes.added.saturating_add(group.desired.saturating_sub(members));
            if members > group.desired {
                let removed = usize::try_from(members - group.desired).unwrap_or(usize::MAX);
                sizes.removed.push((group.name.clone(), removed));
            }
        }
        sizes
    }
}

/// Returns the cluster before the change, with its members as the baseline.
pub(crate) fn intent<'a>(context: &PolicyContext<'a>) -> Intent<'a> {
    let PolicyContext { cluster, nodes, limit, .. } = context;
    Intent { cluster, baseline: Baseline::Members(nodes), limit: *limit }
}

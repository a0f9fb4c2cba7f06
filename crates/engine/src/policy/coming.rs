//! How many members an action adds, and how many it lets go, as far as that is known before it begins.

use muster_core::action::ActionKind;
use muster_core::candidates;
use muster_core::cluster::{Cluster, WorkerGroup};

use crate::actions::resize::{self, Request};
use crate::actions::update;
use crate::policy::{PolicyContext, going};

/// Whether an action of this kind may add members.
pub(crate) const fn adds(kind: ActionKind) -> bool {
    matches!(
        kind,
        ActionKind::ClusterScaleOut
            | ActionKind::ClusterResize
            | ActionKind::ClusterUpdate
            | ActionKind::ClusterRecover
            | ActionKind::NodeCreate
    )
}

/// How the sizes of a cluster change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// So many come, in all groups.
    pub(crate) coming: u32,
    /// So many go, by group.
    pub(crate) going: Vec<(String, usize)>,
}

impl Change {
    /// What an action is about to do. What will be refused is nothing: whoever does it says why.
    pub(crate) fn of(context: &PolicyContext<'_>) -> Self {
        let mut change = Self::default();
        let Some(after) = after(context) else { return change };
        for group in &after.groups {
            let (members, desired) =
                (members(context, group), usize::try_from(group.desired).unwrap_or(usize::MAX));
            let coming = u32::try_from(desired.saturating_sub(members)).unwrap_or(u32::MAX);
            change.coming = change.coming.saturating_add(coming);
            if members > desired {
                change.going.push((group.name.clone(), members - desired));
            }
        }
        change
    }
}

/// The cluster as the action will leave it.
fn after(context: &PolicyContext<'_>) -> Option<Cluster> {
    let PolicyContext { action, cluster, limit, .. } = context;
    let (inputs, members) = (&action.inputs, |group: &WorkerGroup| members(context, group));
    let mut after = (*cluster).clone();
    match action.kind {
        ActionKind::ClusterRecover => {
            let keeps_size = inputs.get("check_capacity").is_some_and(|check| check == false);
            return (!keeps_size).then_some(after);
        }
        ActionKind::ClusterUpdate => {
            update::apply_changes(&mut after, inputs).ok()?;
            if let Some(asked) = inputs.get("resize") {
                let request = Request::read(ActionKind::ClusterResize, context.data, asked).ok()?;
                resize::apply(&mut after, members, &request, *limit).ok()?;
            }
        }
        ActionKind::NodeCreate => {
            let group = going::group(context)?;
            resize::by(&mut after, &group.name, members(group), 1, *limit).ok()?;
        }
        kind => {
            let request = Request::read(kind, context.data, inputs).ok()?;
            resize::apply(&mut after, members, &request, *limit).ok()?;
        }
    }
    Some(after)
}

fn members(context: &PolicyContext<'_>, group: &WorkerGroup) -> usize {
    candidates::workers(context.nodes, Some(&group.name)).count()
}

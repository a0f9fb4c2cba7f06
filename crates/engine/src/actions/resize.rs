//! Changing the size or the bounds of a group: by a resize, a scale-out or a scale-in.

use std::collections::HashSet;

use muster_core::change::Change;
use muster_core::ids::NodeId;

use crate::action_data::ActionData;
use crate::actions::member_removal::{self, Leaving};
use crate::intent::victims;
use crate::run::{ActionRun, Stop, Subject};

/// Brings a cluster to the size that the change asks for.
pub(crate) async fn resize(run: &mut ActionRun) -> Result<(), Stop> {
    // Committed already by an earlier engine: the row is the intent, and is not changed twice.
    let begun = run.action.applied_at.is_some();
    if !begun {
        run.subject.change_sizes(&run.change, &run.data)?;
    }
    let leaving = surplus(&run.subject, &run.change, &run.data);
    reconcile_size(run, leaving, !begun).await
}

/// Brings a cluster to its size: removes surplus members and starts missing ones.
pub(crate) async fn reconcile_size(
    run: &mut ActionRun,
    nodes: HashSet<NodeId>,
    intent: bool,
) -> Result<(), Stop> {
    let destroy = member_removal::destroys(&run.data).unwrap_or(true) || !run.subject.capabilities.orphans;
    member_removal::remove(run, Leaving { nodes, destroy, start: true, intent }).await
}

/// Members beyond what their group should have: those that a policy chose, else unhealthy ones and then any.
pub(crate) fn surplus(subject: &Subject, change: &Change, data: &ActionData) -> HashSet<NodeId> {
    let chosen = victims::chosen(change, data);
    victims::surplus(&subject.cluster, subject.nodes.as_slice(), &chosen, subject.profile.created_at)
}

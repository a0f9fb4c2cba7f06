//! Changing the size or the bounds of a group: by a resize, a scale-out or a scale-in.

use std::collections::HashSet;

use muster_core::ids::NodeId;

use crate::actions::member_removal::{self, Leaving};
use crate::intent::victims;
use crate::run::{ActionRun, Stop};

/// Brings a cluster to the size that the change asks for.
pub(crate) async fn resize(run: &mut ActionRun) -> Result<(), Stop> {
    // Committed already by an earlier engine: the row is the intent, and is not changed twice.
    let begun = run.action.applied_at.is_some();
    if !begun {
        run.change_sizes()?;
    }
    let leaving = surplus(run);
    reconcile_size(run, leaving, !begun).await
}

/// Brings a cluster to its size: removes surplus members and starts missing ones.
pub(crate) async fn reconcile_size(
    run: &mut ActionRun,
    nodes: HashSet<NodeId>,
    intent: bool,
) -> Result<(), Stop> {
    let destroy = member_removal::destroys(run).unwrap_or(true) || !run.subject.capabilities.orphans;
    member_removal::remove(run, Leaving { nodes, destroy, start: true, intent }).await
}

impl ActionRun {
    /// Applies the change to the cluster in memory.
    pub(crate) fn change_sizes(&mut self) -> Result<(), Stop> {
        self.subject.cluster = self.intent().after(&self.change, &self.data).map_err(Stop::Failed)?;
        self.subject.cluster.generation += 1;
        Ok(())
    }
}

/// Members beyond what their group should have: those that a policy chose, else unhealthy ones and then any.
pub(crate) fn surplus(run: &ActionRun) -> HashSet<NodeId> {
    victims::surplus(
        &run.subject.cluster,
        &run.subject.nodes,
        &member_removal::chosen(run),
        run.subject.profile.created_at,
    )
}

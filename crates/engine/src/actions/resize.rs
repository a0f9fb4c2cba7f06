//! Changing the size or the bounds of a group: by a resize, a scale-out or a scale-in.

use std::collections::{HashMap, HashSet};

use muster_core::ids::NodeId;

use crate::actions::member_removal::{self, Leaving};
use crate::intent::victims;
use crate::run::{ActionRun, Stop};

/// Brings a cluster to the size that the change asks for.
pub(crate) async fn resize(run: &mut ActionRun) -> Result<(), Stop> {
    // If an earlier engine has committed the change, the row is the intent and must not be changed twice.
    let begun = run.action.applied_at.is_some();
    if !begun {
        run.subject.change_sizes(&run.change, &run.data)?;
    }
    let leaving = surplus(run).await?;
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

/// Returns the members beyond the size of their group: first those that a policy chose, then unhealthy ones, then those
/// with the least load.
pub(crate) async fn surplus(run: &ActionRun) -> Result<HashSet<NodeId>, Stop> {
    let ActionRun { subject, change, data, .. } = run;
    let chosen = victims::chosen(change, data);
    let surplus = |load: &HashMap<NodeId, u64>| {
        let (nodes, profile) = (subject.nodes.as_slice(), &subject.profile);
        victims::surplus(&subject.cluster, nodes, &chosen, profile.created_at, load)
    };
    let leaving = surplus(&HashMap::new());
    // A take-over removes the victims that an earlier engine has recorded.
    if leaving.is_empty() || run.action.applied_at.is_some() {
        return Ok(leaving);
    }
    let load = run.provider.load(subject.as_target(), subject.nodes.as_slice());
    match run.control.call_provider(load).await? {
        Ok(load) => Ok(surplus(&load)),
        Err(error) => {
            tracing::warn!(%error, "members to remove are chosen without knowing which are idle");
            Ok(leaving)
        }
    }
}

//! Changing properties of a cluster, its groups among them.

use muster_core::change::ClusterUpdate;

use crate::actions::resize::{reconcile_size, surplus};
use crate::actions::rolling;
use crate::run::{ActionRun, Stop};

/// Writes changed properties. Nodes that are made from something else afterwards are recreated, or changed in place where
/// the provider can do that.
pub(crate) async fn update(run: &mut ActionRun, update: &ClusterUpdate) -> Result<(), Stop> {
    let before = run.subject.cluster.clone();
    // Committed already by an earlier engine: merging twice would be harmless, a second generation would not.
    let begun = run.action.applied_at.is_some();
    let follows = !update.profile_only;
    let profile = update.profile_id.filter(|_| follows);
    if !begun {
        let new_profile = match update.profile_id {
            Some(id) => {
                Some(rolling::check_profile(&run.context.store, &run.subject.profile.kind, id).await?)
            }
            None => None,
        };
        run.subject.cluster = run.subject.intent().after(&run.change, &run.data)?;
        if follows && let Err(stop) = rolling::begin(run, &before, new_profile, update.restart).await {
            // Nothing of the update is committed: the row must not say otherwise.
            run.subject.cluster = before;
            return Err(stop);
        }
        run.subject.cluster.generation += 1;
    }
    if profile.is_none() {
        run.control.call_provider(run.node_provider()?.update_cluster(run.call(), &before)).await??;
    }
    if !update.concerns_nodes() {
        // Whether its nodes can be brought to their number does not matter here.
        return if begun { Ok(()) } else { run.commit(true).await };
    }
    if !rolling::has_begun(&run.data) {
        // Not during a roll-out: a node that is about to be stopped and recreated would be taken for restored.
        let leaving = surplus(run).await?;
        reconcile_size(run, leaving, !begun).await?;
    }
    if profile.is_some() || rolling::recreates(&run.data) { rolling::roll_out(run).await } else { Ok(()) }
}

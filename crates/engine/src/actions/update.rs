//! Changes properties of a cluster, including those of its groups.

use muster_core::change::ClusterUpdate;

use crate::actions::resize::{reconcile_size, surplus};
use crate::actions::rolling;
use crate::run::{ActionRun, Stop};

/// Applies changed properties. Nodes whose recipe changes are recreated, or updated in place where the provider
/// supports that.
pub(crate) async fn update(run: &mut ActionRun, update: &ClusterUpdate) -> Result<(), Stop> {
    // If an earlier engine has committed the update, the generation must not rise a second time.
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
        let before = run.subject.cluster.clone();
        let after = run.subject.intent().after(&run.change, &run.data)?;
        run.subject.change_intent(after);
        if follows {
            rolling::begin(run, &before, new_profile, update.restart).await?;
        }
        // Before anything else may stop the action: the marks of its nodes must not be written without the recipe that
        // they refer to.
        run.commit(true).await?;
    }
    if !update.concerns_nodes() {
        // An update of other properties must succeed even if the cluster cannot reach its size.
        return Ok(());
    }
    if !rolling::has_begun(&run.data) {
        // Not during a roll-out: this would record nodes that are about to be recreated as started.
        let leaving = surplus(run).await?;
        reconcile_size(run, leaving, false).await?;
    }
    if profile.is_some() || rolling::recreates(&run.data) { rolling::roll_out(run).await } else { Ok(()) }
}

//! Update of a node.

use std::collections::HashMap;

use muster_core::change::NodeUpdate;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::membership::cannot_have_own_profile;
use muster_core::node::{Node, NodeStatus};
use muster_core::profile::Profile;

use crate::actions::node::target;
use crate::intent::merge;
use crate::ports::provider::{FencedCall, UpdateOutcome};
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, Members, Stop};

/// Changes a node's properties and its profile.
pub(crate) async fn update(run: &mut ActionRun, update: NodeUpdate) -> Result<(), Stop> {
    let before = target(&run.subject)?;
    if before.physical_id.is_none() && run.action.applied_at.is_none() {
        return Err(Stop::Failed(
            "Node update failed. The node was never created, or was deleted.".to_owned(),
        ));
    }
    let new = |profile: &ProfileId| *profile != before.profile_id || run.data.update.is_some();
    let profile = update.profile_id.filter(new);
    // Admission refuses this too, unless another engine serves the instance.
    if profile.is_some() && !run.subject.capabilities.orphans {
        return Err(Stop::Failed(cannot_have_own_profile(&run.subject.profile.kind)));
    }
    change(&mut run.subject.nodes, before.id, update);
    if let Some(profile) = profile {
        apply_profile(run, &before, profile).await?;
    }
    run.subject.nodes.set_status(before.id, NodeStatus::Active, "Update succeeded", run.now());
    Ok(())
}

fn change(nodes: &mut Members, id: NodeId, update: NodeUpdate) {
    let NodeUpdate { name, role, metadata, tainted, profile_id: _, new_profile_id: _ } = update;
    let Some(node) = nodes.get_mut(id) else { return };
    node.name = name.unwrap_or_else(|| std::mem::take(&mut node.name));
    node.user_role = role.unwrap_or_else(|| std::mem::take(&mut node.user_role));
    node.tainted = tainted.unwrap_or(node.tainted);
    merge(&mut node.metadata, metadata);
}

/// Moves a node to another profile: in place where that is possible, else by recreating it.
async fn apply_profile(run: &mut ActionRun, node: &Node, id: ProfileId) -> Result<(), Stop> {
    let missing = || Stop::Failed(format!("The specified profile '{id}' could not be found."));
    let profile = run.context.store.profile(id).await?.ok_or_else(missing)?;
    let before = run.subject.profile_of(node).clone();
    if profile.kind != before.kind {
        let why = "Cannot update a node to a different profile type, operation aborted.";
        return Err(Stop::Failed(why.to_owned()));
    }
    if run.data.update.is_some() {
        // An earlier engine decided to recreate the node: its row names the new profile already, so a comparison would
        // find no difference.
        return recreate_node(run, node, profile).await;
    }
    run.subject.nodes.set_status(node.id, NodeStatus::Updating, "Update in progress", run.now());
    run.commit(false).await?;
    let updated = {
        let call = FencedCall { profile: &profile, ..run.call() };
        run.control.call_provider(run.node_provider()?.update_node(call, node, &before)).await?
    };
    match updated {
        Ok(UpdateOutcome::InPlace) => {
            run.subject.follow_profile(node.id, profile);
            Ok(())
        }
        Ok(UpdateOutcome::MustRecreate) => recreate_node(run, node, profile).await,
        Err(error) => {
            if !error.transient {
                run.subject.nodes.set_status(
                    node.id,
                    NodeStatus::Error,
                    &format!("Update failed: {}", error.message),
                    run.now(),
                );
            }
            Err(error.into())
        }
    }
}

async fn recreate_node(run: &mut ActionRun, node: &Node, profile: Profile) -> Result<(), Stop> {
    run.subject.follow_profile(node.id, profile);
    if run.data.update.is_none() {
        if let Some(node) = run.subject.nodes.get_mut(node.id) {
            node.starts.clear();
        }
        run.data.update().old.clone_from(&node.physical_id);
        run.commit(false).await?;
    }
    let old = run.data.update().old.clone();
    let recreate: HashMap<_, _> = old.map(|old| (node.id, old)).into_iter().collect();
    individual::reconcile(run, &Goal { start: true, only: Some(node.id), recreate, ..Goal::default() }).await
}

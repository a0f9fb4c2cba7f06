//! What was made for clusters that are history: by an engine that slept while its action was ended by others.

use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::event::Level;
use muster_core::profile::Profile;
use muster_store::StoreError;
use muster_store::commands::Observe;
use serde_json::Map;

use super::observer::DELETED_ELSEWHERE;
use crate::engine::Inner;
use crate::events::{self, reason};
use crate::observer::{Looked, duty};
use crate::provider::{Call, Provider};

/// Later than anything that an engine wrote: nobody works on what is history.
const LAST: Fence = Fence(i64::MAX);

fn no_recipe(history: &Cluster) -> Profile {
    Profile {
        id: history.profile_id,
        name: history.name.clone(),
        kind: history.profile_type.clone(),
        project: history.project.clone(),
        user: history.user.clone(),
        properties: Map::new(),
        envelope: Map::new(),
        metadata: Map::new(),
        implicit: true,
        created_at: history.init_at,
        updated_at: None,
    }
}

/// Removes what is there of a cluster that is history, if Muster made it.
pub(crate) async fn remove_leftover(
    inner: &Inner,
    provider: &dyn Provider,
    history: &Cluster,
) -> Result<Looked, StoreError> {
    // What others deleted others may bring back, from a copy: only what was to go goes.
    let was_to_go = history.status_reason != DELETED_ELSEWHERE;
    if history.is_found() || !was_to_go || !provider.found().contains(&history.id) {
        return Ok(Looked::Settled);
    }
    // Its recipe may have gone with it; what is removed needs none.
    let recipe = inner.store.profile(history.profile_id).await?;
    let profile = recipe.unwrap_or_else(|| no_recipe(history));
    let call = Call { cluster: history, profile: &profile, fence: LAST };
    if let Err(error) = provider.delete(call).await {
        tracing::warn!(%error, cluster = %history.id, "cannot remove what is left of a cluster that is history");
        return Ok(Looked::Open);
    }
    let now = inner.clock.now();
    let message = "its object was there though it had been deleted";
    let event = events::of_cluster(None, history, Level::Warn, reason::LEFTOVER_REMOVED, message, now);
    let (duty, engine) = (duty(provider), inner.life().id);
    let (clusters, orphans, healing) = (Vec::new(), Vec::new(), Vec::new());
    let command = Observe { duty, engine, clusters, orphans, events: vec![event], healing, now };
    Ok(if inner.store.observe(command).await? { Looked::Settled } else { Looked::NotOurs })
}

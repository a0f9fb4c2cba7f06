//! What was made for clusters that are history: by an engine that slept while its action was ended by others.

use std::sync::Arc;

use muster_core::action::{ActionKind, ActionStatus, Fence};
use muster_core::cluster::Cluster;
use muster_core::event::Level;
use muster_core::profile::Profile;
use muster_store::StoreError;
use muster_store::commands::Observe;
use muster_store::reads::ActionQuery;

use crate::context::Context;
use crate::events::{self, reason};
use crate::ports::provider::{FencedCall, Provider};
use crate::watchers::observer::{Looked, duty};

/// Later than anything that an engine wrote: nobody works on what is history.
const LAST: Fence = Fence(i64::MAX);

/// Removes what is there of a cluster that is history, if Muster made it and was to remove it. What others removed, and
/// brought back from a copy, is another cluster.
pub(crate) async fn remove_leftover(
    context: &Context,
    provider: &Arc<dyn Provider>,
    history: &Cluster,
) -> Result<Looked, StoreError> {
    let operator = Arc::clone(provider).operator_provider();
    let Some(operator) = operator.filter(|operator| operator.discovered().contains(&history.id)) else {
        return Ok(Looked::Settled);
    };
    if history.is_found() {
        return Ok(Looked::Settled);
    }
    if !was_to_go(context, history).await? {
        operator.disown(history.id);
        return Ok(Looked::Settled);
    }
    // Its recipe may have gone with it; what is removed needs none.
    let Cluster { profile_id, name, profile_type, project, user, init_at, .. } = history;
    let profile = Profile::implicit(*profile_id, name, profile_type.clone(), project, user, *init_at);
    let call = FencedCall { cluster: history, profile: &profile, fence: LAST };
    if let Err(error) = operator.delete(call).await {
        tracing::warn!(%error, cluster = %history.id, "cannot remove what is left of a cluster that is history");
        return Ok(Looked::Open);
    }
    let now = context.clock.now();
    let message = "its object was there though it had been deleted";
    let event = events::of_cluster(None, history, Level::Warn, reason::LEFTOVER_REMOVED, message, now);
    let (duty, engine) = (duty(provider), context.lease().id);
    let (clusters, orphans, healing) = (Vec::new(), Vec::new(), Vec::new());
    let command = Observe { duty, engine, clusters, orphans, events: vec![event], healing, now };
    Ok(if context.store.observe(command).await? { Looked::Settled } else { Looked::NotOurs })
}

/// Whether it was deleted here: what others deleted they may bring back, from a copy.
async fn was_to_go(context: &Context, history: &Cluster) -> Result<bool, StoreError> {
    let deletions = ActionQuery {
        cluster: Some(history.id),
        kinds: vec![ActionKind::ClusterDelete],
        statuses: vec![ActionStatus::Succeeded],
        limit: Some(1),
        ..ActionQuery::default()
    };
    Ok(!context.store.actions(&deletions).await?.items.is_empty())
}

//! Removes leftover nodes: nodes without a row, which no action can remove.
//!
//! A request to create a pod may arrive after the action that sent it was taken over and the cluster deleted. A
//! database that was restored from an older copy has no rows of nodes that were created since.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::time::Timestamp;
use muster_store::StoreError;

use crate::context::Context;
use crate::ports::provider::{NodeProvider, Provider, ProviderResource};
use crate::watchers::observer::duty;

/// Removes the leftovers of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let Some(nodes) = Arc::clone(&provider).node_provider() else {
        return context.stopping.cancelled().await;
    };
    let mut leftovers = LeftoverNodes::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(context.config.leftover_period.into()) => {}
            () = context.stopping.cancelled() => return,
        }
        match context.holds_duty(&duty(&provider)).await {
            Ok(true) => leftovers.remove_old(&context, nodes.as_ref()).await,
            Ok(false) => leftovers.first_seen.clear(),
            Err(error) => tracing::warn!(%error, "cannot look for nodes without a row"),
        }
    }
}

/// The leftover nodes of a provider, with the time when each was first listed.
#[derive(Default)]
struct LeftoverNodes {
    first_seen: HashMap<ProviderResource, Timestamp>,
}

impl LeftoverNodes {
    /// Removes resources that have had no row for the grace period. Rows are written before nodes are created, so a
    /// missing row does not appear later.
    async fn remove_old(&mut self, context: &Context, nodes: &dyn NodeProvider) {
        let made = match nodes.list_resources().await {
            Ok(made) => made,
            Err(error) => return tracing::debug!(%error, "cannot list what was made"),
        };
        let leftovers = match without_row(context, made).await {
            Ok(leftovers) => leftovers,
            Err(error) => return tracing::warn!(%error, "cannot read which nodes have a row"),
        };
        let now = context.clock.now();
        let before = std::mem::take(&mut self.first_seen);
        for leftover in leftovers {
            let since = before.get(&leftover).copied().unwrap_or(now);
            self.first_seen.insert(leftover, since);
            if now.since(since) < context.config.leftover_grace {
                continue;
            }
            match nodes.remove_leftover(leftover).await {
                Ok(()) => tracing::warn!(?leftover, "removed what has no row"),
                Err(error) => tracing::warn!(?leftover, %error, "cannot remove what has no row"),
            }
        }
    }
}

async fn without_row(
    context: &Context,
    made: Vec<ProviderResource>,
) -> Result<Vec<ProviderResource>, StoreError> {
    let clusters: Vec<_> = made.iter().filter_map(ProviderResource::cluster).collect();
    let nodes: Vec<_> = made.iter().filter_map(ProviderResource::node).collect();
    let clusters = context.store.living_clusters(&clusters).await?;
    let nodes = context.store.existing_nodes(&nodes).await?;
    let has_row = |made: &ProviderResource| match made {
        ProviderResource::Cluster(id) => clusters.contains(id),
        ProviderResource::Node(id) => nodes.contains(id),
    };
    Ok(made.into_iter().filter(|made| !has_row(made)).collect())
}

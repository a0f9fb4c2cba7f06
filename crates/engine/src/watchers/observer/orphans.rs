//! Observes orphans like members. Orphans are recovered only on request.

use std::collections::HashSet;
use std::sync::Arc;

use muster_core::ids::{ClusterId, NodeId};
use muster_store::StoreError;
use muster_store::commands::Observe;

use crate::context::Context;
use crate::intent::orphan;
use crate::ports::provider::{ClusterTarget, Provider, WorldChange};
use crate::watchers::observer::{ObserveOutcome, duty, loss_events, lost_nodes};

/// Returns the clusters that changes are about; an orphan counts as its own virtual cluster.
pub(crate) async fn clusters_of(
    context: &Context,
    changes: &[WorldChange],
) -> Result<HashSet<ClusterId>, StoreError> {
    let mut clusters = HashSet::new();
    let mut nodes = Vec::new();
    for change in changes {
        match change {
            WorldChange::Cluster(id) => drop(clusters.insert(*id)),
            WorldChange::Node(id) => nodes.push(*id),
            WorldChange::Everything => {}
        }
    }
    for node in context.store.nodes_of(&nodes).await? {
        clusters.insert(node.cluster_id.unwrap_or_else(|| orphan::id(node.id)));
    }
    Ok(clusters)
}

/// Observes the orphan of a virtual cluster, if there is one, and records its loss.
pub(crate) async fn observe_orphan(
    context: &Context,
    provider: &Arc<dyn Provider>,
    id: ClusterId,
) -> Result<ObserveOutcome, StoreError> {
    let node = context.store.node(NodeId::from_uuid(*id.as_uuid())).await?;
    let Some(node) = node.filter(|node| node.cluster_id.is_none()) else { return Ok(ObserveOutcome::InSync) };
    let Some(profile) = context.store.profile(node.profile_id).await? else {
        return Ok(ObserveOutcome::InSync);
    };
    let cluster = orphan::cluster(&node, &profile, &context.config.projects);
    let target = ClusterTarget { cluster: &cluster, profile: &profile };
    let nodes = [node];
    let observation = context.stopping.run_until_cancelled(provider.observe(target, &nodes));
    let Some(Ok(observed)) = observation.await else { return Ok(ObserveOutcome::Pending) };
    let lost = lost_nodes(&nodes, &observed);
    if lost.is_empty() {
        return Ok(ObserveOutcome::InSync);
    }
    let now = context.clock.now();
    let command = Observe {
        duty: duty(provider),
        engine: context.lease().id,
        clusters: Vec::new(),
        events: loss_events(&lost, &observed, now),
        orphans: lost,
        healing: Vec::new(),
        now,
    };
    Ok(context.store.observe(command).await?.into())
}

//! Creates the rows of external clusters that were discovered.

use std::sync::Arc;

use muster_core::cluster::{Cluster, ClusterStatus, ObservedSummary};
use muster_core::event::Level;
use muster_core::ids::{ClusterId, ProfileId};
use muster_core::profile::Profile;
use muster_core::projects::ProjectNamespaces;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::Discover;

use crate::context::Context;
use crate::events::{self, reason};
use crate::ids::new_id;
use crate::ports::provider::{DiscoveredCluster, ObjectContent, Provider};

/// Creates the row of an existing cluster; returns true if it has one now.
pub(crate) async fn discover(
    context: &Context,
    provider: &Arc<dyn Provider>,
    duty: String,
    id: ClusterId,
) -> Result<bool, StoreError> {
    let Some(operator) = Arc::clone(provider).operator_provider() else { return Ok(false) };
    let discovered = match operator.describe(id).await {
        Ok(Some(discovered)) => discovered,
        Ok(None) => return Ok(false),
        Err(error) if error.is_not_yet() => return Ok(false),
        Err(error) => {
            tracing::warn!(%error, cluster = %id, "cannot describe a cluster that was found");
            return Ok(false);
        }
    };
    let (now, object) = (context.clock.now(), discovered.content.shown.clone());
    let Some((cluster, profile)) = rows(provider.as_ref(), &context.config.projects, id, discovered, now)
    else {
        return Ok(false);
    };
    let message = format!("it was discovered in namespace '{}'", cluster.namespace);
    let event = events::of_cluster(None, &cluster, Level::Info, reason::DISCOVERED, &message, now);
    let engine = context.lease().id;
    context.store.discover(Discover { duty, engine, cluster, object, profile, event }).await
}

fn rows(
    provider: &dyn Provider,
    projects: &ProjectNamespaces,
    id: ClusterId,
    discovered: DiscoveredCluster,
    now: Timestamp,
) -> Option<(Cluster, Profile)> {
    // Clusters in namespaces without a project are visible to admins only: no project has an empty name.
    let project = projects.project_of(&discovered.namespace).unwrap_or_default().to_owned();
    let capabilities = provider.capabilities(&discovered.kind, Some(&discovered.flavor))?;
    let recipe = ProfileId::from_uuid(new_id());
    let ObjectContent { digest, labels, annotations, owner, user, ephemeral, shown: _ } = discovered.content;
    let profile = Profile {
        properties: discovered.properties,
        ..Profile::implicit(recipe, &discovered.name, discovered.kind, &project, &user, now)
    };
    let created_at = discovered.created_at.or(Some(now));
    let new = Cluster::new(id, discovered.name, project, provider.instance().clone(), &profile, now);
    let cluster = Cluster {
        namespace: discovered.namespace,
        owner,
        user,
        framework: Some(discovered.framework),
        flavor: Some(discovered.flavor),
        has_head: capabilities.head,
        groups: discovered.groups,
        // The real status is observed in a moment.
        status: ClusterStatus::Warning,
        status_reason: "it was discovered, and has not been observed yet".to_owned(),
        labels,
        annotations,
        ephemeral: ephemeral.map(Box::new),
        observed: ObservedSummary { object_content: digest, ..ObservedSummary::default() },
        init_at: created_at.unwrap_or(now),
        created_at,
        ..new
    };
    Some((cluster, profile))
}

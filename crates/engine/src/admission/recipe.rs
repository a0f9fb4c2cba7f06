//! Checks that nodes can be created from a requested profile, and that existing nodes can be updated to it.

use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, ProfileId};
use muster_core::profile::Profile;
use muster_core::profile_types;

use crate::admission::request::SubmitError;
use crate::context::Engine;
use crate::intent::{naming, properties_after};
use crate::ports::provider::{ClusterTarget, INVALID, NO_NAMESPACE, Provider, ProviderError};

/// Refuses a profile from which the provider cannot create nodes.
pub(crate) async fn admit(
    provider: &dyn Provider,
    profile: &Profile,
    flavor: Option<&str>,
) -> Result<(), SubmitError> {
    provider.check_profile(profile).map_err(SubmitError::Invalid)?;
    admitted(provider.admit(profile, flavor).await)
}

/// Refuses a cluster that the provider cannot create.
pub(crate) async fn admit_cluster(
    provider: &dyn Provider,
    cluster: &Cluster,
    profile: &Profile,
) -> Result<(), SubmitError> {
    provider.check_cluster(cluster).map_err(SubmitError::Invalid)?;
    admitted(provider.admit_cluster(cluster, profile).await)
}

/// Converts the answer of a provider. A transient error does not refuse the request, because the action retries it.
fn admitted(answer: Result<(), ProviderError>) -> Result<(), SubmitError> {
    let error = match answer {
        Err(error) if !error.transient => error,
        _ => return Ok(()),
    };
    Err(match error.reason.as_str() {
        INVALID => SubmitError::Invalid(error.message),
        NO_NAMESPACE => SubmitError::NoNamespace(error.message),
        _ => SubmitError::Missing(error),
    })
}

impl Engine {
    /// Refuses an update whose result the provider does not allow.
    pub(crate) async fn check_change(&self, change: &Change, cluster: &Cluster) -> Result<(), SubmitError> {
        let Change::UpdateCluster(_) = change else { return Ok(()) };
        let Some(provider) = self.provider(&cluster.instance) else { return Ok(()) };
        // An update of a group that does not exist is refused by the action, with its own message.
        let Ok(after) = properties_after(cluster, change) else { return Ok(()) };
        if after.config != cluster.config {
            naming::refusal(&after.config).map_or(Ok(()), |why| Err(SubmitError::Invalid(why)))?;
        }
        provider.check_cluster(&after).map_err(SubmitError::Invalid)?;
        if after.has_same_recipe(cluster) || after.profile_id != cluster.profile_id {
            return Ok(());
        }
        let Some(profile) = self.context.store.profile(cluster.profile_id).await? else { return Ok(()) };
        let target = ClusterTarget { cluster: &after, profile: &profile };
        admitted(provider.admit_update(target, cluster).await)
    }

    /// Refuses a new profile to which nodes cannot be updated.
    pub(crate) async fn admit_recipe(
        &self,
        instance: &InstanceId,
        flavor: Option<&str>,
        present: ProfileId,
        change: &Change,
    ) -> Result<(), SubmitError> {
        let (asked, stays) = match change {
            Change::UpdateCluster(update) => (update.profile_id, update.profile_only),
            Change::UpdateNode(update) => (update.profile_id, false),
            _ => (None, false),
        };
        let Some((asked, provider)) = asked.zip(self.provider(instance)) else { return Ok(()) };
        let (present, asked) =
            (self.context.store.profile(present).await?, self.context.store.profile(asked).await?);
        let Some(asked) = asked else { return Ok(()) };
        if let Some(present) = present.filter(|_| !stays) {
            let fixed = frozen(&present, &asked);
            if !fixed.is_empty() {
                let why = format!(
                    "The following properties are not updatable: {}: pass profile_only, and replace the nodes",
                    fixed.join(", ")
                );
                return Err(SubmitError::Invalid(why));
            }
        }
        admit(provider.as_ref(), &asked, flavor).await
    }
}

/// Returns the changed properties to which existing nodes cannot be updated.
fn frozen(present: &Profile, asked: &Profile) -> Vec<&'static str> {
    let known = profile_types::find(&asked.kind.name, &asked.kind.version);
    known.map(|known| known.schema.frozen_changes(&present.properties, &asked.properties)).unwrap_or_default()
}

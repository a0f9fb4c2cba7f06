//! Recipes that are asked for: whether nodes can be made from them, and whether those that are there can follow.

use muster_core::action::ActionKind;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, ProfileId};
use muster_core::profile::Profile;
use muster_core::profile_types;
use serde_json::Value;

use crate::actions::update;
use crate::admission::request::SubmitError;
use crate::context::Engine;
use crate::ports::provider::{INVALID, NO_NAMESPACE, Provider, ProviderError};

/// Whether a provider can make nodes from this.
pub(crate) async fn admit(
    provider: &dyn Provider,
    profile: &Profile,
    flavor: Option<&str>,
) -> Result<(), SubmitError> {
    provider.check_profile(profile).map_err(SubmitError::Invalid)?;
    admitted(provider.admit(profile, flavor).await)
}

/// Whether a provider can make just this cluster.
pub(crate) async fn admit_cluster(
    provider: &dyn Provider,
    cluster: &Cluster,
    profile: &Profile,
) -> Result<(), SubmitError> {
    provider.check_cluster(cluster).map_err(SubmitError::Invalid)?;
    admitted(provider.admit_cluster(cluster, profile).await)
}

/// What cannot be told for the moment is found out by the action.
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
    /// Refuses a change after which a cluster would say of itself what it cannot.
    pub(crate) fn check_change(
        &self,
        kind: ActionKind,
        cluster: &Cluster,
        inputs: &Value,
    ) -> Result<(), SubmitError> {
        let provider = self.provider(&cluster.instance).filter(|_| kind == ActionKind::ClusterUpdate);
        let Some(provider) = provider else { return Ok(()) };
        let mut after = cluster.clone();
        // Changes that cannot be read are refused by whoever makes them.
        let readable = update::apply_changes(&mut after, inputs).is_ok();
        let checked = if readable { provider.check_cluster(&after) } else { Ok(()) };
        checked.map_err(SubmitError::Invalid)
    }

    /// Refuses a change to another recipe that nodes cannot follow.
    pub(crate) async fn admit_recipe(
        &self,
        instance: &InstanceId,
        flavor: Option<&str>,
        present: ProfileId,
        inputs: &Value,
    ) -> Result<(), SubmitError> {
        let asked = inputs.get("profile_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
        let Some((asked, provider)) = asked.zip(self.provider(instance)) else { return Ok(()) };
        let (present, asked) =
            (self.context.store.profile(present).await?, self.context.store.profile(asked).await?);
        let Some(asked) = asked else { return Ok(()) };
        let stays = inputs.get("profile_only").and_then(Value::as_bool) == Some(true);
        if let Some(present) = present.filter(|_| !stays) {
            let fixed = frozen(&present, &asked);
            if !fixed.is_empty() {
                let why = format!(
                    "The following properties are not updatable: {}: pass profile_only, and make nodes anew",
                    fixed.join(", ")
                );
                return Err(SubmitError::Invalid(why));
            }
        }
        admit(provider.as_ref(), &asked, flavor).await
    }
}

/// Properties that differ and that nodes cannot follow.
fn frozen(present: &Profile, asked: &Profile) -> Vec<&'static str> {
    let known = profile_types::find(&asked.kind.name, &asked.kind.version);
    known.map(|known| known.schema.frozen_changes(&present.properties, &asked.properties)).unwrap_or_default()
}

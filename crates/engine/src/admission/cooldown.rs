//! The cooldown of scaling policies.

use muster_core::action::ActionKind;
use muster_core::ids::ClusterId;
use muster_core::policy::scaling::{KIND, ScalingPolicySettings};
use muster_core::policy::{Policy, find};
use muster_store::StoreError;

use crate::context::Engine;

impl Engine {
    /// Returns a scaling policy whose cooldown is not over; none if the cluster may be scaled.
    pub async fn cooling(&self, cluster: ClusterId, event: ActionKind) -> Result<Option<Policy>, StoreError> {
        let now = self.now();
        let bindings = self.store().bindings(cluster).await?;
        let rests = bindings.into_iter().filter(|binding| binding.enabled).find(|binding| {
            let scaling = find(&binding.policy.kind).is_some_and(|(kind, _)| kind.name == KIND.name);
            let settings = scaling.then(|| binding.policy.settings::<ScalingPolicySettings>().ok()).flatten();
            settings
                .is_some_and(|settings| settings.event == event && settings.is_cooling(binding.last_op, now))
        });
        Ok(rests.map(|binding| binding.policy))
    }
}

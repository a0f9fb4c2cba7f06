//! Batch policy: limits the number of nodes that are updated at a time.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::candidates;
use muster_core::policy::Binding;
use muster_core::policy::batch::BatchPolicySettings;

use crate::policy::{PolicyContext, PolicyType};
use crate::ports::provider::Membership;

pub(crate) struct BatchPolicy;

#[async_trait]
impl PolicyType for BatchPolicy {
    fn kind(&self) -> &'static str {
        "senlin.policy.batch-1.0"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        kind == ActionKind::ClusterUpdate
    }

    async fn attach(&self, _: &mut Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        if matches!(context.capabilities.membership, Membership::Delegated(_)) {
            let kind = &context.cluster.profile_type;
            return Err(format!(
                "a batch policy cannot be attached to {kind}: its operator decides how many workers are updated at a time"
            ));
        }
        Ok(())
    }

    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings: BatchPolicySettings = binding.policy.settings()?;
        let plan = settings.plan(candidates::workers(context.nodes, None));
        let rollout = context.data.update();
        (rollout.plan, rollout.pause_time) = (Some(plan), Some(settings.pause_time));
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}

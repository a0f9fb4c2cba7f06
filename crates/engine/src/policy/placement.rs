//! Placement and affinity: they act where a scheduler places nodes, and can be attached only there.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::policy::Binding;

use super::{PolicyContext, PolicyType};

/// None of the providers places nodes yet, so there is nothing to be asked before.
pub(super) struct Placement;

#[async_trait]
impl PolicyType for Placement {
    fn kind(&self) -> &'static str {
        "senlin.policy.zone_placement-1.0"
    }

    fn checks(&self, _: ActionKind) -> bool {
        false
    }

    async fn before(&self, _: &Binding, _: &mut PolicyContext<'_>) -> Result<(), String> {
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}

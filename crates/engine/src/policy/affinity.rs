//! Affinity policy: places the nodes of a cluster on one host, or on different ones.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::placement::ServerGroup;
use muster_core::policy::Binding;
use muster_core::policy::affinity::AffinityPolicySettings;

use crate::intent::placements;
use crate::policy::placement::require_placement;
use crate::policy::size_change::{SizeChange, may_add};
use crate::policy::{PolicyContext, PolicyType};

pub(crate) struct AffinityPolicy;

#[async_trait]
impl PolicyType for AffinityPolicy {
    fn kind(&self) -> &'static str {
        "senlin.policy.affinity-1.0"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        may_add(kind)
    }

    async fn attach(&self, binding: &mut Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        require_placement(binding, context)?;
        let settings: AffinityPolicySettings = binding.policy.settings()?;
        if settings.rule().is_none() {
            return Err(format!(
                "'policies' of 'servergroup' is '{}': must be 'affinity' or 'anti-affinity'",
                settings.word()
            ));
        }
        if settings.enable_drs_extension {
            return Err("'enable_drs_extension' is not supported: leave it out".to_owned());
        }
        Ok(())
    }

    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings: AffinityPolicySettings = binding.policy.settings()?;
        let SizeChange { added, .. } = SizeChange::of(context);
        let Some(policy) = settings.rule().filter(|_| added > 0) else { return Ok(()) };
        let mut places = placements::planned(context.data, added);
        for place in &mut places {
            // Each cluster has its own server group, also where several share a policy.
            place.servergroup = Some(ServerGroup { policy, id: binding.id.to_string() });
            // A placement policy takes precedence, whether it runs before or after this one.
            place.zone = place.zone.take().or_else(|| settings.availability_zone.clone());
        }
        placements::plan(context.data, places);
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}

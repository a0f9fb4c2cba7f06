//! Health policy: decides here only whether it can be attached to a cluster; a watcher applies it.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::policy::Binding;
use muster_core::policy::health::{HealthPolicySettings, ModeType, Operation};

use crate::policy::{PolicyContext, PolicyType};

pub(crate) struct HealthPolicy;

#[async_trait]
impl PolicyType for HealthPolicy {
    fn kind(&self) -> &'static str {
        "senlin.policy.health-1.2"
    }

    fn checks(&self, _: ActionKind) -> bool {
        false
    }

    async fn attach(&self, binding: &mut Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings: HealthPolicySettings = binding.policy.settings()?;
        if !settings.recovery.fencing.is_empty() {
            let fencing = settings.recovery.fencing.join(", ");
            return Err(format!("'fencing' is {fencing}: fencing is not supported; leave it out"));
        }
        let (kind, operation) = (&context.cluster.profile_type, settings.operation());
        if operation != Operation::Recreate && kind.name != "simulated.node" {
            return Err(format!("nodes of {kind} are recovered by RECREATE, not by {operation}"));
        }
        let modes = || settings.detection.detection_modes.iter().map(|mode| mode.kind);
        let asked = modes().any(|mode| mode == ModeType::HypervisorStatusPolling);
        if asked && !context.capabilities.reports_machines {
            return Err(format!(
                "the machines of nodes of {kind} cannot be observed: use another mode than HYPERVISOR_STATUS_POLLING"
            ));
        }
        for mode in
            settings.detection.detection_modes.iter().filter(|mode| mode.kind == ModeType::NodeStatusPollUrl)
        {
            let none =
                || "this server does not poll URLs: use another mode than NODE_STATUS_POLL_URL".to_owned();
            context.probe.ok_or_else(none)?.check_poll(&mode.options.url_of("node"), &mode.options)?;
        }
        Ok(())
    }

    async fn before(&self, _: &Binding, _: &mut PolicyContext<'_>) -> Result<(), String> {
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}

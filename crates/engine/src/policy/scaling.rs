//! Scaling policy: decides the number of members to add or remove, and enforces a cooldown afterwards.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::change::Change;
use muster_core::ids::NodeId;
use muster_core::policy::Binding;
use muster_core::policy::scaling::ScalingPolicySettings;

use crate::action_data::{Creation, Deletion};
use crate::intent::find_group;
use crate::policy::{PolicyContext, PolicyType, size_change};

pub(crate) struct ScalingPolicy;

#[async_trait]
impl PolicyType for ScalingPolicy {
    fn kind(&self) -> &'static str {
        "senlin.policy.scaling-1.0"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        matches!(kind, ActionKind::ClusterScaleIn | ActionKind::ClusterScaleOut)
    }

    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings: ScalingPolicySettings = binding.policy.settings()?;
        if settings.event != context.action.kind {
            return Ok(());
        }
        if settings.is_cooling(binding.last_op, context.now) {
            return Err(format!("Policy {} cooldown is still in progress.", binding.policy.id));
        }
        let group = find_group(context.cluster, context.change.group())?;
        let present = size_change::intent(context).present(group);
        let asked = match context.change {
            Change::ScaleIn(scale) | Change::ScaleOut(scale) => scale.count,
            _ => None,
        };
        let count = Some(settings.count(asked, present, context.limit)?);
        match context.change {
            Change::ScaleIn(_) => context.data.deletion().count = count,
            _ => context.data.creation().count = count,
        }
        Ok(())
    }

    async fn after(
        &self,
        binding: &Binding,
        context: &mut PolicyContext<'_>,
        succeeded: bool,
    ) -> Result<(), String> {
        let settings: ScalingPolicySettings = binding.policy.settings()?;
        if settings.event == context.action.kind && has_changed(context, succeeded) {
            context.effects.put_binding(Binding { last_op: Some(context.now), ..binding.clone() });
        }
        Ok(())
    }
}

/// Returns true if members were added or removed, also by an action that failed.
fn has_changed(context: &PolicyContext<'_>, succeeded: bool) -> bool {
    let is_member = |id: &NodeId| context.nodes.iter().any(|node| node.id == *id);
    let (creation, deletion) = (context.data.creation.as_ref(), context.data.deletion.as_ref());
    let (count, changed) = match context.change {
        Change::ScaleIn(_) => {
            let gone = |deletion: &Deletion| deletion.candidates.iter().flatten().any(|id| !is_member(id));
            (deletion.and_then(|deletion| deletion.count), deletion.is_some_and(gone))
        }
        _ => {
            let came = |creation: &Creation| creation.nodes.iter().any(is_member);
            (creation.and_then(|creation| creation.count), creation.is_some_and(came))
        }
    };
    succeeded && count.is_some_and(|count| count > 0) || changed
}

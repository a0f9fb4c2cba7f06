//! Deletion policy: chooses the members that are removed when a cluster shrinks, and the conditions of the removal.

use async_trait::async_trait;
use muster_core::action::{ActionKind, Target};
use muster_core::candidates::Criterion;
use muster_core::ids::NodeId;
use muster_core::policy::Binding;
use muster_core::policy::deletion::{DeletionPolicySettings, HookType};
use serde_json::Map;

use crate::action_data::HookWait;
use crate::policy::size_change::SizeChange;
use crate::policy::{PolicyContext, PolicyType, victims};
use crate::ports::provider::Membership;

pub(crate) struct DeletionPolicy;

#[async_trait]
impl PolicyType for DeletionPolicy {
    fn kind(&self) -> &'static str {
        "senlin.policy.deletion-1.1"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        matches!(
            kind,
            ActionKind::ClusterScaleIn
                | ActionKind::ClusterDelNodes
                | ActionKind::ClusterResize
                | ActionKind::NodeDelete
        )
    }

    async fn attach(&self, binding: &mut Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings = DeletionPolicySettings::from_policy(&binding.policy)?;
        let kind = &context.cluster.profile_type;
        let delegated = matches!(context.capabilities.membership, Membership::Delegated(_));
        match &settings.hooks {
            Some(_) if delegated => {
                return Err(format!(
                    "workers of {kind} are removed by their operator, so no hook can run before: leave 'hooks' out"
                ));
            }
            Some(hooks) if hooks.kind == HookType::Zaqar && kind.name != "simulated.node" => {
                return Err(
                    "'hooks' of type 'zaqar' need a message queue, which this server does not have: use type 'webhook'"
                        .to_owned(),
                );
            }
            Some(hooks) if hooks.kind == HookType::Webhook => context.hooks.check_hook(&hooks.params.url)?,
            _ => {}
        }
        if settings.destroy_after_deletion == Some(false) && !context.capabilities.orphans {
            return Err(format!(
                "workers of {kind} cannot leave: a deletion policy whose 'destroy_after_deletion' is false cannot be attached"
            ));
        }
        if settings.criteria != Criterion::Random && !context.capabilities.choose_victims {
            return Err(format!(
                "the 'criteria' of workers of {kind} must be RANDOM: their operator chooses the workers to remove"
            ));
        }
        Ok(())
    }

    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings = DeletionPolicySettings::from_policy(&binding.policy)?;
        let Some(candidates) = candidates(&settings, context) else { return Ok(()) };
        let chooses = context.capabilities.choose_victims;
        let deletion = context.data.deletion();
        if chooses {
            deletion.choose(candidates);
        }
        deletion.destroy_after_deletion = settings.destroy_after_deletion.or(deletion.destroy_after_deletion);
        deletion.grace_period = Some(settings.grace_period);
        deletion.reduce_desired_capacity = Some(settings.reduce_desired_capacity);
        // The deletion of a single named node calls no hook.
        let asks = context.action.kind != ActionKind::NodeDelete;
        if let Some(hooks) = settings.hooks.filter(|_| asks) {
            context.data.hooks = Some(HookWait { hooks, began: None, messages: None, unknown: Map::new() });
        }
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the members to remove: the named ones, else the chosen ones of each group; none if no member is removed.
fn candidates(settings: &DeletionPolicySettings, context: &PolicyContext<'_>) -> Option<Vec<NodeId>> {
    if let (ActionKind::NodeDelete, Target::Node(id)) = (context.action.kind, context.action.target) {
        return Some(vec![id]);
    }
    if let Some(named) = context.change.named_victims() {
        return Some(named);
    }
    let going = SizeChange::of(context).removed;
    let chosen = victims::chosen(context, &going, settings.criteria);
    (!chosen.is_empty()).then_some(chosen)
}

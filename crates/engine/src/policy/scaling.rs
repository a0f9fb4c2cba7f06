//! Scaling: by how much a cluster grows or shrinks, and how long it rests afterwards.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::ids::NodeId;
use muster_core::policy::Binding;
use muster_core::policy::scaling::Settings;
use serde_json::{Map, Value, json};

use crate::policy::{PolicyContext, PolicyType, going};

pub(crate) struct Scaling;

#[async_trait]
impl PolicyType for Scaling {
    fn kind(&self) -> &'static str {
        "senlin.policy.scaling-1.0"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        matches!(kind, ActionKind::ClusterScaleIn | ActionKind::ClusterScaleOut)
    }

    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let settings: Settings = binding.policy.settings()?;
        if settings.event != context.action.kind {
            return Ok(());
        }
        if settings.is_cooling(binding.last_op, context.now) {
            return Err(format!("Policy {} cooldown is still in progress.", binding.policy.id));
        }
        let group = going::group(context).ok_or("there is no such group")?;
        let asked = context.action.inputs.get("count");
        let count = settings.count(asked, going::sizes(context, group), context.limit)?;
        say(context.data, key(settings.event), "count", json!(count));
        Ok(())
    }

    async fn after(
        &self,
        binding: &Binding,
        context: &mut PolicyContext<'_>,
        succeeded: bool,
    ) -> Result<(), String> {
        let settings: Settings = binding.policy.settings()?;
        if settings.event == context.action.kind && has_changed(context, succeeded) {
            context.effects.put(Binding { last_op: Some(context.now), ..binding.clone() });
        }
        Ok(())
    }
}

/// Where counts are left for whoever grows or shrinks the cluster.
const fn key(event: ActionKind) -> &'static str {
    match event {
        ActionKind::ClusterScaleIn => "deletion",
        _ => "creation",
    }
}

/// Whether anybody came or went: after a failure too.
fn has_changed(context: &PolicyContext<'_>, succeeded: bool) -> bool {
    let said = context.data.get(key(context.action.kind));
    let said = |key: &str| said.and_then(|said| said.get(key));
    let counted = said("count").and_then(Value::as_u64).is_some_and(|count| count > 0);
    let ids = |key| -> Vec<NodeId> {
        said(key).and_then(|ids| serde_json::from_value(ids.clone()).ok()).unwrap_or_default()
    };
    let is_member = |id: &NodeId| context.nodes.iter().any(|node| node.id == *id);
    let gone = || ids("candidates").iter().any(|id| !is_member(id));
    succeeded && counted || ids("nodes").iter().any(is_member) || gone()
}

/// Says one thing among others under a key.
pub(crate) fn say(data: &mut Map<String, Value>, under: &str, key: &str, value: Value) {
    let said = data.entry(under).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(said) = said {
        said.insert(key.to_owned(), value);
    }
}

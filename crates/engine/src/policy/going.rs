//! How many members an action lets go, as far as that is known before it begins.

use muster_core::action::ActionKind;
use muster_core::candidates;
use muster_core::cluster::WorkerGroup;
use muster_core::resize::{Resize, Sizes};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::actions::update;
use crate::policy::PolicyContext;

#[derive(Debug, Deserialize)]
struct Inputs {
    #[serde(flatten)]
    resize: Resize,
}

/// Whether an update is about sizes too.
pub(crate) fn changes_sizes(inputs: &Value) -> bool {
    ["groups", "resize"].iter().any(|key| inputs.get(key).is_some())
}

/// How many members go, by group. What cannot be read is nothing: whoever does it says why.
pub(crate) fn going(context: &PolicyContext<'_>) -> Vec<(String, usize)> {
    let PolicyContext { action, cluster, .. } = context;
    if action.kind == ActionKind::ClusterUpdate {
        let mut after = (*cluster).clone();
        if update::apply_changes(&mut after, &action.inputs).is_err() {
            return Vec::new();
        }
        let asked = action.inputs.get("resize").and_then(|asked| Inputs::deserialize(asked).ok());
        if let (Some(Inputs { resize }), Some(first)) = (asked, after.groups.first_mut())
            && let Ok(sizes) = resize.apply(sizes(context, first), context.limit)
        {
            first.desired = sizes.size;
        }
        return after.groups.iter().map(|group| (group.name.clone(), surplus(context, group))).collect();
    }
    let Some(group) = group(context) else { return Vec::new() };
    let count = match (left(context.data), action.kind) {
        (Some(left), _) => left,
        (None, ActionKind::ClusterScaleIn) => count(action.inputs.get("count")).unwrap_or(1),
        (None, ActionKind::ClusterResize) => {
            let asked: Option<Inputs> = serde_json::from_value(action.inputs.clone()).ok();
            let resized =
                asked.and_then(|asked| asked.resize.apply(sizes(context, group), context.limit).ok());
            let desired = resized.map_or(group.desired, |sizes| sizes.size);
            surplus(context, &WorkerGroup { desired, ..group.clone() })
        }
        _ => 0,
    };
    vec![(group.name.clone(), count)]
}

/// The group that an action is about: the one that it names, else the first.
pub(crate) fn group<'c>(context: &PolicyContext<'c>) -> Option<&'c WorkerGroup> {
    match context.action.inputs.get("group").and_then(Value::as_str) {
        Some(name) => context.cluster.group(name),
        None => context.cluster.groups.first(),
    }
}

/// A group's members, and its bounds.
pub(crate) fn sizes(context: &PolicyContext<'_>, group: &WorkerGroup) -> Sizes {
    let members = candidates::workers(context.nodes, Some(&group.name)).count();
    Sizes { size: u32::try_from(members).unwrap_or(u32::MAX), min: group.min, max: group.max }
}

fn surplus(context: &PolicyContext<'_>, group: &WorkerGroup) -> usize {
    let members = candidates::workers(context.nodes, Some(&group.name)).count();
    members.saturating_sub(usize::try_from(group.desired).unwrap_or(usize::MAX))
}

/// What a policy before has said.
fn left(data: &Map<String, Value>) -> Option<usize> {
    count(data.get("deletion").and_then(|deletion| deletion.get("count")))
}

fn count(value: Option<&Value>) -> Option<usize> {
    match value? {
        Value::String(digits) => digits.trim().parse().ok(),
        value => value.as_u64().and_then(|count| usize::try_from(count).ok()),
    }
}

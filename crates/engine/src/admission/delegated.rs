//! What cannot be asked of a cluster that an operator drives, said before it is accepted.

use muster_core::action::ActionKind;
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::node::NodeRole;
use serde_json::{Map, Value};

use crate::actions::{resize, update};
use crate::ports::provider::{Capabilities, Membership};
use crate::reconcile::delegated::plan;

/// Why a request is not possible, in one sentence that names what is missing; none if it is.
pub(crate) fn refusal(
    capabilities: Capabilities,
    cluster: &Cluster,
    action: ActionKind,
    role: Option<NodeRole>,
    inputs: &Value,
) -> Option<String> {
    let Membership::Delegated(operator) = capabilities.membership else { return None };
    if let Some(what) = unasked(action, inputs).filter(|_| cluster.is_found()) {
        return Some(format!(
            "cluster '{}' was made by others, and Muster changes it only when somebody asks for it: {what}",
            cluster.name
        ));
    }
    if let Some(group) = autoscaled(cluster, action, inputs) {
        return Some(plan::scaled_by_autoscaler(&group));
    }
    let names = |key: &str| inputs.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let why = match (action, role) {
        (ActionKind::ClusterResize | ActionKind::ClusterScaleIn, _)
            if names("candidates") && !capabilities.choose_victims =>
        {
            "cannot choose victims: which of their workers go is not up to Muster"
        }
        (ActionKind::ClusterUpdate, _)
            if !capabilities.update_in_place && changes_recipe(cluster, inputs) =>
        {
            "cannot be updated in place: delete and create them anew"
        }
        (ActionKind::NodeRecover, Some(NodeRole::Head)) if !operator.replaces_head => {
            "cannot restart their head: their operator has no way to replace it"
        }
        (ActionKind::NodeRecover, Some(NodeRole::Worker)) => {
            "cannot recover single workers: what makes them brings them back"
        }
        (
            ActionKind::ClusterAddNodes
            | ActionKind::ClusterDelNodes
            | ActionKind::ClusterReplaceNodes
            | ActionKind::NodeCreate
            | ActionKind::NodeDelete
            | ActionKind::NodeUpdate
            | ActionKind::NodeJoin
            | ActionKind::NodeLeave,
            _,
        ) => "cannot add, remove or change single nodes: they are made by the group; resize it instead",
        _ => return None,
    };
    Some(format!("clusters of type {} {why}", cluster.profile_type))
}

/// What would let Muster change a cluster by itself, and why that is not possible.
fn unasked(action: ActionKind, inputs: &Value) -> Option<&'static str> {
    let sets = |key: &str| inputs.pointer(key).is_some_and(|limit| !limit.is_null());
    match action {
        ActionKind::ClusterAttachPolicy => Some("no policy can be attached to it"),
        ActionKind::ClusterUpdate if sets("/limits/idle_timeout") || sets("/limits/max_lifetime") => {
            Some("it can have no idle_timeout and no max_lifetime")
        }
        _ => None,
    }
}

/// A group that would be of another size, which is its autoscaler's affair.
fn autoscaled(cluster: &Cluster, action: ActionKind, inputs: &Value) -> Option<String> {
    if cluster.observed.autoscaled.is_empty() {
        return None;
    }
    let mut after = cluster.clone();
    match action {
        ActionKind::ClusterUpdate => update::apply_changes(&mut after, inputs).ok()?,
        ActionKind::ClusterResize | ActionKind::ClusterScaleOut | ActionKind::ClusterScaleIn => {
            let request = resize::Request::read(action, &Map::new(), inputs).ok()?;
            let present = |group: &WorkerGroup| usize::try_from(group.desired).unwrap_or(usize::MAX);
            resize::apply(&mut after, present, &request, u32::MAX).ok()?;
        }
        _ => return None,
    }
    let resized = |name: &&String| {
        let desired = |cluster: &Cluster| cluster.group(name).map(|group| group.desired);
        desired(&after) != desired(cluster)
    };
    cluster.observed.autoscaled.iter().find(resized).cloned()
}

/// Whether more than sizes and words would change.
fn changes_recipe(cluster: &Cluster, inputs: &Value) -> bool {
    let mut after = cluster.clone();
    update::apply_changes(&mut after, inputs).is_ok() && !after.is_made_like(cluster)
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::ports::provider::Operator;

    fn capable(able: bool) -> Capabilities {
        Capabilities {
            membership: Membership::Delegated(Operator { replaces_head: able, rolls: able }),
            head: true,
            workers_outlive_head: true,
            several_groups: true,
            orphans: false,
            choose_victims: able,
            update_in_place: able,
            heals_by_default: false,
            adopt: false,
            tells_activity: able,
            places: false,
            tells_machines: false,
        }
    }

    fn cluster() -> Cluster {
        sample::cluster(2, 0, None)
    }

    fn with_image() -> WorkerGroup {
        let mut group = cluster().groups[0].clone();
        group.spec.insert("image".to_owned(), json!("x"));
        group
    }

    #[rstest]
    #[case(ActionKind::ClusterResize, None, json!({"candidates": ["x"]}), "cannot choose victims")]
    #[case(ActionKind::ClusterUpdate, None, json!({"spec": {"image": "x"}}), "cannot be updated in place")]
    #[case(ActionKind::ClusterUpdate, None, json!({"groups": [with_image()]}), "cannot be updated in place")]
    #[case(ActionKind::NodeRecover, Some(NodeRole::Head), json!({}), "cannot restart their head")]
    fn what_is_missing_is_named(
        #[case] action: ActionKind,
        #[case] role: Option<NodeRole>,
        #[case] inputs: Value,
        #[case] words: &str,
    ) {
        let refused = refusal(capable(false), &cluster(), action, role, &inputs).unwrap();
        assert!(refused.starts_with(&format!("clusters of type simulated.node-1.0 {words}")), "{refused}");
        assert_eq!(refusal(capable(true), &cluster(), action, role, &inputs), None);
    }

    #[rstest]
    #[case(ActionKind::ClusterAttachPolicy, json!({"policy_id": "x"}), Some("no policy can be attached to it"))]
    #[case(ActionKind::ClusterUpdate, json!({"limits": {"max_lifetime": 5}}), Some("no max_lifetime"))]
    #[case(ActionKind::ClusterUpdate, json!({"limits": {"max_lifetime": null}}), None)]
    #[case(ActionKind::ClusterDelete, json!({}), None)]
    fn what_others_made_changes_only_when_somebody_asks(
        #[case] action: ActionKind,
        #[case] inputs: Value,
        #[case] words: Option<&str>,
    ) {
        let mut theirs = cluster();
        theirs.observed.object = Some(theirs.id.to_string());
        let refused = refusal(capable(true), &theirs, action, None, &inputs);
        match words {
            Some(words) => assert!(refused.as_ref().is_some_and(|why| why.ends_with(words)), "{refused:?}"),
            None => assert_eq!(refused, None),
        }
        assert_eq!(refusal(capable(true), &cluster(), action, None, &inputs), None, "ours is ours");
    }

    #[rstest]
    #[case::size(ActionKind::ClusterResize, json!({"adjustment_type": "EXACT_CAPACITY", "number": 5}), true)]
    #[case::out(ActionKind::ClusterScaleOut, json!({"count": 1}), true)]
    #[case::update(ActionKind::ClusterUpdate, json!({"groups": [WorkerGroup { desired: 5, ..cluster().groups[0].clone() }]}), true)]
    #[case::same_size(ActionKind::ClusterResize, json!({"adjustment_type": "EXACT_CAPACITY", "number": 2}), false)]
    #[case::bounds(ActionKind::ClusterResize, json!({"min_size": 1, "max_size": 9}), false)]
    fn sizes_of_autoscaled_groups_are_refused(
        #[case] action: ActionKind,
        #[case] inputs: Value,
        #[case] refused: bool,
    ) {
        let mut cluster = cluster();
        assert_eq!(refusal(capable(true), &cluster, action, None, &inputs), None);
        cluster.observed.autoscaled = vec![cluster.groups[0].name.clone()];
        let words = "group 'default' is scaled by its autoscaler: change its bounds, not its size";
        let told = refusal(capable(true), &cluster, action, None, &inputs);
        assert_eq!(told.as_deref(), refused.then_some(words));
    }

    #[rstest]
    #[case(ActionKind::NodeRecover, Some(NodeRole::Worker))]
    #[case(ActionKind::ClusterAddNodes, None)]
    #[case(ActionKind::NodeDelete, Some(NodeRole::Worker))]
    fn single_nodes_are_its_operators(#[case] action: ActionKind, #[case] role: Option<NodeRole>) {
        assert!(refusal(capable(true), &cluster(), action, role, &json!({})).is_some());
        let own = Capabilities { membership: Membership::Individual, ..capable(true) };
        assert_eq!(refusal(own, &cluster(), action, role, &json!({})), None);
    }

    #[rstest]
    #[case(ActionKind::ClusterResize, json!({"adjustment_type": "EXACT_CAPACITY", "number": 1, "candidates": []}))]
    #[case(ActionKind::ClusterUpdate, json!({"metadata": {"a": 1}, "groups": [WorkerGroup { desired: 5, ..cluster().groups[0].clone() }]}))]
    #[case(ActionKind::ClusterDelete, json!({}))]
    fn what_needs_nothing_special_is_accepted(#[case] action: ActionKind, #[case] inputs: Value) {
        assert_eq!(refusal(capable(false), &cluster(), action, None, &inputs), None);
    }
}

//! Refuses changes that clusters with delegated membership cannot make, before an action is stored.

use muster_core::change::{Change, RestartScope};
use muster_core::cluster::Cluster;
use muster_core::limits::LimitsChange;
use muster_core::node::NodeRole;

use crate::action_data::ActionData;
use crate::intent::recipe::changes_recipe;
use crate::intent::{Baseline, Intent};
use crate::ports::provider::{Capabilities, Membership};
use crate::reconcile::delegated::plan;

/// Returns why a change is not possible; none if it is. The message names the missing capability.
pub(crate) fn refusal(
    capabilities: Capabilities,
    cluster: &Cluster,
    change: &Change,
    role: Option<NodeRole>,
) -> Option<String> {
    let Membership::Delegated(operator) = capabilities.membership else { return None };
    if let Some(what) = external_refusal(change).filter(|_| cluster.is_external()) {
        return Some(format!(
            "cluster '{}' was not created by Muster, which changes it only on request: {what}",
            cluster.name
        ));
    }
    if let Some(group) = autoscaled(cluster, change) {
        return Some(plan::scaled_by_autoscaler(&group));
    }
    let why = match (change, role) {
        (Change::Resize(_) | Change::ScaleIn(_), _)
            if change.named_victims().is_some() && !capabilities.choose_victims =>
        {
            "cannot choose victims: their operator chooses the workers to remove"
        }
        (Change::UpdateCluster(update), _)
            if update.profile_id.is_some_and(|profile| profile != cluster.profile_id) =>
        {
            "cannot follow another profile: create another cluster from it"
        }
        (Change::UpdateCluster(_), _) if !capabilities.update_in_place && changes_recipe(cluster, change) => {
            "cannot be updated in place: delete the cluster and create another"
        }
        (Change::UpdateCluster(update), _)
            if update.restart == Some(RestartScope::Workers)
                && !operator.rolls
                && !operator.replaces_workers =>
        {
            "cannot have their workers replaced one after the other: their operator does not replace workers for a \
             changed recipe; leave out the restart (--restart-workers), and scale the group to 0 and back when its work has ended"
        }
        (Change::UpdateCluster(update), _)
            if update.restart == Some(RestartScope::Never)
                && operator.rolls
                && changes_recipe(cluster, change) =>
        {
            "cannot keep nodes with an older recipe: their operator replaces them at once; allow the restart"
        }
        (Change::RecoverNode(_), Some(NodeRole::Head)) if !operator.replaces_head => {
            "cannot restart their head: their operator cannot replace it"
        }
        (Change::RecoverNode(_), Some(NodeRole::Worker)) => {
            "cannot recover single workers: their operator recreates them"
        }
        (
            Change::AddNodes(_)
            | Change::RemoveNodes(_)
            | Change::ReplaceNodes(_)
            | Change::CreateNode(_)
            | Change::DeleteNode(_)
            | Change::UpdateNode(_)
            | Change::JoinNode
            | Change::LeaveNode,
            _,
        ) => "cannot add, remove or change single nodes: resize their group instead",
        (
            Change::CreateCluster
            | Change::DeleteCluster(_)
            | Change::UpdateCluster(_)
            | Change::Resize(_)
            | Change::ScaleOut(_)
            | Change::ScaleIn(_)
            | Change::CheckCluster(_)
            | Change::RecoverCluster(_)
            | Change::OperateCluster(_)
            | Change::AttachPolicy(_)
            | Change::DetachPolicy(_)
            | Change::UpdatePolicy(_)
            | Change::CheckNode(_)
            | Change::RecoverNode(_)
            | Change::OperateNode(_),
            _,
        ) => return None,
    };
    Some(format!("clusters of type {} {why}", cluster.profile_type))
}

/// Returns why a policy or limit is refused by which Muster would change an external cluster without a request.
fn external_refusal(change: &Change) -> Option<&'static str> {
    match change {
        Change::AttachPolicy(_) => Some("no policy can be attached to it"),
        Change::UpdateCluster(update) => {
            let LimitsChange { idle_timeout, max_lifetime } = update.limits.unwrap_or_default();
            let sets = matches!(idle_timeout, Some(Some(_))) || matches!(max_lifetime, Some(Some(_)));
            sets.then_some("it cannot have idle_timeout or max_lifetime")
        }
        _ => None,
    }
}

/// Returns a group whose size the change sets although an autoscaler decides it.
fn autoscaled(cluster: &Cluster, change: &Change) -> Option<String> {
    if cluster.observed.autoscaled.is_empty() || !change.resizes() {
        return None;
    }
    let intent = Intent { cluster, baseline: Baseline::Desired, limit: u32::MAX };
    let after = intent.after(change, &ActionData::default()).ok()?;
    let resized = |name: &&String| {
        let desired = |cluster: &Cluster| cluster.group(name).map(|group| group.desired);
        desired(&after) != desired(cluster)
    };
    cluster.observed.autoscaled.iter().find(resized).cloned()
}

#[cfg(test)]
mod tests {
    use muster_core::action::ActionKind;
    use muster_core::cluster::WorkerGroup;
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::ports::provider::OperatorCapabilities;

    fn refusal_of(
        capabilities: Capabilities,
        cluster: &Cluster,
        action: ActionKind,
        role: Option<NodeRole>,
        inputs: &Value,
    ) -> Option<String> {
        let change = Change::read(action, inputs).unwrap();
        refusal(capabilities, cluster, &change, role)
    }

    fn capable(able: bool) -> Capabilities {
        Capabilities {
            membership: Membership::Delegated(OperatorCapabilities {
                replaces_head: able,
                rolls: able,
                replaces_workers: able,
            }),
            head: true,
            workers_outlive_head: true,
            several_groups: true,
            orphans: false,
            choose_victims: able,
            update_in_place: able,
            heals_by_default: false,
            adopt: false,
            reports_activity: able,
            supports_placement: false,
            reports_machines: false,
        }
    }

    fn nodes() -> Value {
        json!({"nodes": []})
    }

    fn cluster() -> Cluster {
        sample::cluster(2, 0, None)
    }

    fn with_image() -> Value {
        json!({"name": cluster().groups[0].name, "image": "x"})
    }

    #[rstest]
    #[case(ActionKind::ClusterResize, None, json!({"candidates": ["00000000-0000-0000-0000-000000000001"]}), "cannot choose victims")]
    #[case(ActionKind::ClusterUpdate, None, json!({"head": {"image": "x"}}), "cannot be updated in place")]
    #[case(ActionKind::ClusterUpdate, None, json!({"groups": [with_image()]}), "cannot be updated in place")]
    #[case(ActionKind::NodeRecover, Some(NodeRole::Head), json!({}), "cannot restart their head")]
    #[case(ActionKind::ClusterUpdate, None, json!({"restart": "workers"}), "cannot have their workers replaced")]
    fn what_is_missing_is_named(
        #[case] action: ActionKind,
        #[case] role: Option<NodeRole>,
        #[case] inputs: Value,
        #[case] words: &str,
    ) {
        let refused = refusal_of(capable(false), &cluster(), action, role, &inputs).unwrap();
        assert!(refused.starts_with(&format!("clusters of type simulated.node-1.0 {words}")), "{refused}");
        assert_eq!(refusal_of(capable(true), &cluster(), action, role, &inputs), None);
    }

    #[test]
    fn nodes_cannot_stay_old_where_their_operator_replaces_them() {
        let inputs = json!({"groups": [with_image()], "restart": "never"});
        let refused = refusal_of(capable(true), &cluster(), ActionKind::ClusterUpdate, None, &inputs);
        assert!(refused.is_some_and(|why| why.contains("cannot keep nodes with an older recipe")));
    }

    #[rstest]
    #[case(ActionKind::ClusterAttachPolicy, json!({"policy_id": "00000000-0000-0000-0000-000000000001"}), Some("no policy can be attached to it"))]
    #[case(ActionKind::ClusterUpdate, json!({"limits": {"max_lifetime": 5}}), Some("cannot have idle_timeout or max_lifetime"))]
    #[case(ActionKind::ClusterUpdate, json!({"limits": {"max_lifetime": null}}), None)]
    #[case(ActionKind::ClusterDelete, json!({}), None)]
    fn external_clusters_change_only_on_request(
        #[case] action: ActionKind,
        #[case] inputs: Value,
        #[case] words: Option<&str>,
    ) {
        let mut theirs = cluster();
        theirs.observed.object = Some(theirs.id.to_string());
        let refused = refusal_of(capable(true), &theirs, action, None, &inputs);
        match words {
            Some(words) => assert!(refused.as_ref().is_some_and(|why| why.ends_with(words)), "{refused:?}"),
            None => assert_eq!(refused, None),
        }
        assert_eq!(refusal_of(capable(true), &cluster(), action, None, &inputs), None, "ours is ours");
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
        assert_eq!(refusal_of(capable(true), &cluster, action, None, &inputs), None);
        cluster.observed.autoscaled = vec![cluster.groups[0].name.clone()];
        let words = "group 'default' is scaled by its autoscaler: change its bounds, not its size";
        let message = refusal_of(capable(true), &cluster, action, None, &inputs);
        assert_eq!(message.as_deref(), refused.then_some(words));
    }

    #[rstest]
    #[case(ActionKind::NodeRecover, Some(NodeRole::Worker))]
    #[case(ActionKind::ClusterAddNodes, None)]
    #[case(ActionKind::NodeDelete, Some(NodeRole::Worker))]
    fn single_nodes_are_its_operators(#[case] action: ActionKind, #[case] role: Option<NodeRole>) {
        assert!(refusal_of(capable(true), &cluster(), action, role, &nodes()).is_some());
        let own = Capabilities { membership: Membership::Individual, ..capable(true) };
        assert_eq!(refusal_of(own, &cluster(), action, role, &nodes()), None);
    }

    #[rstest]
    #[case(ActionKind::ClusterResize, json!({"adjustment_type": "EXACT_CAPACITY", "number": 1, "candidates": []}))]
    #[case(ActionKind::ClusterUpdate, json!({"metadata": {"a": 1}, "groups": [WorkerGroup { desired: 5, ..cluster().groups[0].clone() }]}))]
    #[case(ActionKind::ClusterDelete, json!({}))]
    fn what_needs_nothing_special_is_accepted(#[case] action: ActionKind, #[case] inputs: Value) {
        assert_eq!(refusal_of(capable(false), &cluster(), action, None, &inputs), None);
    }
}

//! Decides which nodes get another recipe by a change. Pure.

use muster_core::change::{Change, RestartScope};
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;

use crate::intent::properties_after;
use crate::ports::provider::{Capabilities, Membership};

/// Returns true if nodes would get another recipe or another profile by a change. A change that can never be applied
/// concerns no node.
pub fn changes_recipe(cluster: &Cluster, change: &Change) -> bool {
    let differs = |after: Cluster| after.profile_id != cluster.profile_id || !after.has_same_recipe(cluster);
    properties_after(cluster, change).is_ok_and(differs)
}

/// The recipes of a cluster's nodes before and after a change.
pub(crate) struct RecipeChange<'a> {
    before: (&'a Cluster, ClusterRecipe),
    after: (&'a Cluster, ClusterRecipe),
}

impl<'a> RecipeChange<'a> {
    /// Compares a cluster and its profile before and after a change.
    pub(crate) fn between(before: (&'a Cluster, &Profile), after: (&'a Cluster, &Profile)) -> Self {
        // Types without a framework create nodes from the profile alone; the provider judges changes of the profile.
        let read = |(cluster, profile): (&'a Cluster, &Profile)| {
            (cluster, ClusterRecipe::of_cluster(cluster, profile).unwrap_or_default())
        };
        Self { before: read(before), after: read(after) }
    }

    /// Returns true if the head's recipe changes.
    pub(crate) fn concerns_head(&self) -> bool {
        self.before.1.head() != self.after.1.head()
    }

    /// Returns true if the recipe of nodes of this role, in this group, changes.
    pub(crate) fn concerns(&self, role: NodeRole, group: Option<&str>) -> bool {
        let workers = |(cluster, recipe): &(&Cluster, ClusterRecipe)| {
            recipe.workers(group.and_then(|group| cluster.group(group)))
        };
        match role {
            NodeRole::Head => self.concerns_head(),
            NodeRole::Worker => workers(&self.before) != workers(&self.after),
            NodeRole::Unknown(_) => false,
        }
    }
}

/// The nodes that an update replaces, and those that keep an older recipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// True if the head is replaced.
    pub(crate) head: bool,
    /// Nodes that are replaced, in their order.
    pub(crate) replaced: Vec<NodeId>,
    /// Nodes that run with an older recipe afterwards.
    pub(crate) outdated: Vec<NodeId>,
}

impl Replacement {
    /// Decides which nodes are replaced for a changed recipe, and which keep theirs until they are restarted.
    pub(crate) fn decide(
        change: &RecipeChange<'_>,
        nodes: &[Node],
        restart: Option<RestartScope>,
        capabilities: &Capabilities,
    ) -> Self {
        let concerned = |node: &Node| change.concerns(node.role, node.group.as_deref());
        let is_old = |node: &Node| concerned(node) || node.is_outdated();
        let replaces_all = match capabilities.membership {
            Membership::Individual => true,
            Membership::Delegated(operator) => operator.rolls,
        };
        let head = |node: &&Node| node.role == NodeRole::Head && concerned(node);
        let head = replaces_all && restart.is_none() && nodes.iter().any(|node| head(&node));
        let is_replaced = |node: &Node| match restart {
            None if head && !capabilities.workers_outlive_head => node.has_known_role(),
            None => replaces_all && concerned(node),
            Some(RestartScope::Never) => false,
            Some(RestartScope::Workers) => node.role == NodeRole::Worker && is_old(node),
        };
        let ids = |chosen: &dyn Fn(&Node) -> bool| {
            nodes.iter().filter(|node| chosen(node)).map(|node| node.id).collect()
        };
        Self {
            head,
            replaced: ids(&is_replaced),
            outdated: ids(&|node: &Node| is_old(node) && !is_replaced(node)),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::action::ActionKind;
    use muster_core::cluster::WorkerGroup;
    use muster_core::recipe::NodeRecipe;
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn given(cluster: &mut Cluster, update: &Value) {
        let update = Change::read(ActionKind::ClusterUpdate, update).unwrap();
        *cluster = properties_after(cluster, &update).unwrap();
    }

    #[rstest]
    #[case::nothing(|_: &mut Cluster| {}, (false, false))]
    #[case::sizes(|cluster: &mut Cluster| cluster.groups[0].desired = 9, (false, false))]
    #[case::what_an_api_shows(|cluster: &mut Cluster| drop(cluster.spec.insert("cluster".into(), json!({"version": "1"}))), (false, false))]
    #[case::head(|cluster: &mut Cluster| given(cluster, &json!({"head": {"image": "x"}})), (true, false))]
    #[case::all_nodes(|cluster: &mut Cluster| given(cluster, &json!({"env": {"A": "1"}})), (true, true))]
    #[case::group(
        |cluster: &mut Cluster| NodeRecipe { image: Some("x".into()), ..NodeRecipe::default() }.store_in(&mut cluster.groups[0]),
        (false, true)
    )]
    #[case::shape(|cluster: &mut Cluster| cluster.groups[0].shape.cpu = "7".parse().ok(), (false, true))]
    fn only_nodes_that_are_made_from_something_else_are_concerned(
        #[case] change: fn(&mut Cluster),
        #[case] concerned: (bool, bool),
    ) {
        let (before, profile) = (sample::cluster(2, 0, None), sample::profile());
        let mut after = before.clone();
        change(&mut after);
        let change = RecipeChange::between((&before, &profile), (&after, &profile));
        let group = Some(before.groups[0].name.as_str());
        let found = (change.concerns(NodeRole::Head, None), change.concerns(NodeRole::Worker, group));
        assert_eq!(found, concerned);
    }

    #[rstest]
    #[case::nothing(json!({}), false)]
    #[case::sizes(json!({"groups": [sample::cluster(5, 0, None).groups[0]]}), false)]
    #[case::metadata(json!({"metadata": {"a": 1}}), false)]
    #[case::head(json!({"head": {"image": "x"}}), true)]
    #[case::profile(json!({"profile_id": "00000000-0000-0000-0000-000000000009"}), true)]
    #[case::whatever_its_size_is(json!({"head": {"image": "x"}, "resize": {"adjustment_type": "CHANGE_IN_CAPACITY", "number": -9, "strict": true}}), true)]
    #[case::unknown_group(json!({"groups": [WorkerGroup { name: "other".into(), ..sample::cluster(1, 0, None).groups[0].clone() }]}), false)]
    fn a_change_of_what_nodes_are_made_from_is_recognized(#[case] inputs: Value, #[case] expected: bool) {
        let change = Change::read(ActionKind::ClusterUpdate, &inputs).unwrap();
        assert_eq!(changes_recipe(&sample::cluster(2, 0, None), &change), expected);
    }

    #[rstest]
    #[case::head_takes_workers_along("head", None, false, true, &[0, 1, 2], &[])]
    #[case::head_alone("head", None, true, true, &[0], &[2])]
    #[case::workers("group", None, false, false, &[1, 2], &[])]
    #[case::none_is_restarted("env", Some(RestartScope::Never), false, false, &[], &[0, 1, 2])]
    #[case::workers_without_head("env", Some(RestartScope::Workers), false, false, &[1, 2], &[0])]
    #[case::what_was_old("nothing", Some(RestartScope::Workers), false, false, &[2], &[])]
    #[case::nothing("nothing", None, false, false, &[], &[2])]
    fn an_update_says_which_nodes_it_replaces_and_which_stay_old(
        #[case] changed: &str,
        #[case] restart: Option<RestartScope>,
        #[case] workers_outlive_head: bool,
        #[case] head: bool,
        #[case] replaced: &[usize],
        #[case] outdated: &[usize],
    ) {
        let (before, profile) = (sample::cluster(2, 0, None), sample::profile());
        let mut after = before.clone();
        match changed {
            "head" => given(&mut after, &json!({"head": {"image": "x"}})),
            "env" => given(&mut after, &json!({"env": {"A": "1"}})),
            "group" => after.groups[0].shape.cpu = "7".parse().ok(),
            _ => {}
        }
        let group = Some(before.groups[0].name.clone());
        let mut nodes = [0, 1, 2].map(|index| Node { group: group.clone(), ..sample::node(index) });
        (nodes[0].role, nodes[0].group) = (NodeRole::Head, None);
        nodes[2].set_outdated(true);
        let change = RecipeChange::between((&before, &profile), (&after, &profile));
        let capabilities = Capabilities { workers_outlive_head, ..individual() };
        let decided = Replacement::decide(&change, &nodes, restart, &capabilities);
        let places = |ids: &[NodeId]| -> Vec<usize> {
            ids.iter().filter_map(|id| nodes.iter().position(|node| node.id == *id)).collect()
        };
        assert_eq!(
            (decided.head, places(&decided.replaced).as_slice(), places(&decided.outdated).as_slice()),
            (head, replaced, outdated)
        );
    }

    fn individual() -> Capabilities {
        Capabilities {
            membership: Membership::Individual,
            head: true,
            workers_outlive_head: false,
            several_groups: true,
            orphans: false,
            choose_victims: true,
            update_in_place: true,
            heals_by_default: true,
            adopt: false,
            reports_activity: true,
            supports_placement: false,
            reports_machines: false,
        }
    }

    #[test]
    fn another_profile_concerns_the_nodes_whose_recipe_differs() {
        let (cluster, before) = (sample::cluster(2, 0, None), sample::profile());
        let mut after = before.clone();
        after.properties = json!({"head": {"image": "x"}}).as_object().cloned().unwrap_or_default();
        let change = RecipeChange::between((&cluster, &before), (&cluster, &after));
        assert!(change.concerns_head() && !change.concerns(NodeRole::Worker, None));
    }
}

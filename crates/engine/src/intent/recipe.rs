//! Which nodes are made from something else after a change. Pure.

use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::node::NodeRole;
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;

use crate::intent::properties_after;

/// Whether nodes would be made from something else after a change, or from another profile. A change that can never be
/// applied reaches no node.
pub fn changes_recipe(cluster: &Cluster, change: &Change) -> bool {
    let differs = |after: Cluster| after.profile_id != cluster.profile_id || !after.has_same_recipe(cluster);
    properties_after(cluster, change).is_ok_and(differs)
}

/// What the nodes of a cluster are made from, before and after a change.
pub(crate) struct RecipeChange<'a> {
    before: (&'a Cluster, ClusterRecipe),
    after: (&'a Cluster, ClusterRecipe),
}

impl<'a> RecipeChange<'a> {
    /// From a cluster and its profile before to what they are after.
    pub(crate) fn between(before: (&'a Cluster, &Profile), after: (&'a Cluster, &Profile)) -> Self {
        // Nodes of types that are no framework's are made from their profile alone, whose changes the provider judges.
        let read = |(cluster, profile): (&'a Cluster, &Profile)| {
            (cluster, ClusterRecipe::of_cluster(cluster, profile).unwrap_or_default())
        };
        Self { before: read(before), after: read(after) }
    }

    /// Whether the head is made from something else.
    pub(crate) fn concerns_head(&self) -> bool {
        self.before.1.head() != self.after.1.head()
    }

    /// Whether a node of this role, in this group, is made from something else.
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

    #[test]
    fn another_profile_concerns_whoever_it_makes_differently() {
        let (cluster, before) = (sample::cluster(2, 0, None), sample::profile());
        let mut after = before.clone();
        after.properties = json!({"head": {"image": "x"}}).as_object().cloned().unwrap_or_default();
        let change = RecipeChange::between((&cluster, &before), (&cluster, &after));
        assert!(change.concerns_head() && !change.concerns(NodeRole::Worker, None));
    }
}

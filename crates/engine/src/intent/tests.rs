use muster_core::action::ActionKind;
use muster_core::change::{ClusterUpdate, Delete, NewMember};
use muster_core::ids::NodeId;
use muster_core::recipe::ClusterRecipe;
use muster_core::resize::{Adjustment, AdjustmentType, MaxSize};
use muster_core::sample;
use rstest::rstest;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::action_data::{Creation, Deletion};

const LIMIT: u32 = 10;

/// A group `default` of 3 between 1 and 6, and a group `other` of 2 without bounds.
fn cluster() -> Cluster {
    let mut cluster = sample::cluster(3, 1, Some(6));
    let other =
        WorkerGroup { name: "other".to_owned(), desired: 2, min: 0, max: None, ..cluster.groups[0].clone() };
    cluster.groups.push(other);
    cluster
}

/// One member less than the group should have.
fn members() -> Vec<Node> {
    (1..=2).map(sample::node).collect()
}

fn resize(kind: AdjustmentType, number: f64) -> Resize {
    let adjustment = Some(Adjustment { kind, number, min_step: None });
    Resize { adjustment, min_size: None, max_size: None, strict: true }
}

fn exactly(number: f64) -> Change {
    in_group(None, resize(AdjustmentType::ExactCapacity, number))
}

fn in_group(group: Option<&str>, resize: Resize) -> Change {
    Change::Resize(ResizeGroup { group: group.map(str::to_owned), resize, candidates: None })
}

fn scale(count: Option<u32>) -> Scale {
    Scale { count, ..Scale::default() }
}

fn by(number: f64) -> Change {
    in_group(None, resize(AdjustmentType::ChangeInCapacity, number))
}

fn bounds(min: u32, max: u32) -> Change {
    let resize =
        Resize { adjustment: None, min_size: Some(min), max_size: Some(MaxSize::Bound(max)), strict: true };
    in_group(None, resize)
}

fn update(update: ClusterUpdate) -> Change {
    Change::UpdateCluster(Box::new(update))
}

fn groups(groups: Value) -> Change {
    let groups = serde_json::from_value(groups).expect("changes of groups");
    update(ClusterUpdate { groups: Some(groups), ..ClusterUpdate::default() })
}

fn add(count: u128) -> Change {
    let nodes = (0..count).map(|number| NodeId::from_uuid(Uuid::from_u128(number))).collect();
    Change::AddNodes(AddNodes { nodes, group: None })
}

fn remove(nodes: &[Node]) -> Change {
    let nodes = nodes.iter().map(|node| node.id).collect();
    Change::RemoveNodes(RemoveNodes { nodes, destroy_after_deletion: None })
}

fn after(baseline: Baseline<'_>, change: &Change, decided: &ActionData) -> Result<Vec<u32>, String> {
    let cluster = cluster();
    let after = Intent { cluster: &cluster, baseline, limit: LIMIT }.after(change, decided)?;
    Ok(after.groups.iter().map(|group| group.desired).collect())
}

#[rstest]
#[case::exact(exactly(5.0), [5, 2], [5, 2])]
#[case::relative(by(2.0), [4, 2], [5, 2])]
#[case::out(Change::ScaleOut(scale(Some(2))), [4, 2], [5, 2])]
#[case::out_by_one(Change::ScaleOut(scale(None)), [3, 2], [4, 2])]
#[case::in_by_one(Change::ScaleIn(scale(None)), [1, 2], [2, 2])]
#[case::one_more(Change::CreateNode(NewMember::default()), [3, 2], [4, 2])]
#[case::added(add(2), [4, 2], [5, 2])]
#[case::another_group(in_group(Some("other"), resize(AdjustmentType::ExactCapacity, 4.0)), [3, 4], [3, 4])]
#[case::update(update(ClusterUpdate { resize: Some(resize(AdjustmentType::ChangeInCapacity, 1.0)), ..ClusterUpdate::default() }), [3, 2], [4, 2])]
#[case::group_of_an_update(groups(json!([{"name": "other", "desired": 4}, {"name": "default", "max": 4}])), [3, 4], [3, 4])]
#[case::room_for_another_group(groups(json!([{"name": "other", "desired": 8}, {"name": "default", "desired": 1}])), [1, 8], [1, 8])]
#[case::nothing(Change::DeleteCluster(Delete::default()), [3, 2], [3, 2])]
fn sizes_are_counted_from_members_or_from_the_spec(
    #[case] change: Change,
    #[case] from_members: [u32; 2],
    #[case] from_spec: [u32; 2],
) {
    let (members, decided) = (members(), ActionData::default());
    assert_eq!(after(Baseline::Members(&members), &change, &decided).unwrap(), from_members);
    assert_eq!(after(Baseline::Desired, &change, &decided).unwrap(), from_spec);
}

#[rstest]
#[case::above_max(exactly(7.0), "The target capacity (7) is greater than the cluster's max_size (6).")]
#[case::below_min(
    Change::ScaleIn(scale(Some(5))),
    "The target capacity (0) is less than the cluster's min_size (1)."
)]
#[case::above_limit(
    in_group(Some("other"), resize(AdjustmentType::ExactCapacity, 8.0)),
    "The target capacity (8) is greater than the maximum number of nodes allowed per cluster (7)."
)]
#[case::new_bounds(
    bounds(4, 5),
    "The specified min_size (4) is greater than the current desired_capacity (3) of the cluster."
)]
#[case::group_above_limit(
    groups(json!([{"name": "other", "desired": 8}])),
    "the cluster would have 11 workers: must be at most 10"
)]
#[case::group_above_max(
    groups(json!([{"name": "default", "max": 2}])),
    "The specified max_size (2) is less than the current desired_capacity (3) of the cluster."
)]
#[case::no_group(
    in_group(Some("x"), resize(AdjustmentType::ExactCapacity, 1.0)),
    "group not found: use one of default, other"
)]
fn what_bounds_do_not_allow_is_refused(#[case] change: Change, #[case] message: &str) {
    assert_eq!(after(Baseline::Desired, &change, &ActionData::default()).unwrap_err(), message);
}

#[test]
fn what_policies_decided_goes_before_the_request() {
    let decided = ActionData {
        creation: Some(Creation { count: Some(3), ..Creation::default() }),
        deletion: Some(Deletion { count: Some(0), ..Deletion::default() }),
        ..ActionData::default()
    };
    assert_eq!(after(Baseline::Desired, &Change::ScaleOut(scale(Some(1))), &decided).unwrap(), [6, 2]);
    assert_eq!(after(Baseline::Desired, &Change::ScaleIn(scale(Some(1))), &decided).unwrap(), [3, 2]);
}

#[test]
fn removed_members_make_the_cluster_smaller_unless_a_policy_says_otherwise() {
    let members = members();
    let baseline = Baseline::Members(&members);
    let mut decided = ActionData::default();
    assert_eq!(after(baseline, &remove(&members[..1]), &decided).unwrap(), [1, 2]);
    let message = "The target capacity (0) is less than the cluster's min_size (1).";
    assert_eq!(after(baseline, &remove(&members), &decided).unwrap_err(), message);
    decided.deletion().reduce_desired_capacity = Some(false);
    assert_eq!(after(baseline, &remove(&members[..1]), &decided).unwrap(), [3, 2]);
    assert_eq!(
        after(baseline, &remove(&members), &decided).unwrap_err(),
        message,
        "bounds count all the same"
    );
}

#[test]
fn an_update_changes_just_what_it_names() {
    let before = cluster();
    let changed = ClusterUpdate { name: Some("other".to_owned()), ..ClusterUpdate::default() };
    let intent = Intent { cluster: &before, baseline: Baseline::Desired, limit: LIMIT };
    let after = intent.after(&update(changed), &ActionData::default()).unwrap();
    assert_eq!(after, Cluster { name: "other".to_owned(), ..before });
}

#[test]
fn an_update_leaves_what_an_earlier_one_changed_meanwhile() {
    let mut cluster = cluster();
    let updates = [
        json!({"labels": {"keys": {"a": "1"}}, "env": {"keys": {"A": "1"}}, "groups": [{"name": "other", "desired": 5}]}),
        json!({"labels": {"keys": {"b": "2"}}, "head": {"image": "x"}, "groups": [{"name": "other", "max": 7}]}),
        json!({"env": {"keys": {"B": "2"}}, "groups": [{"name": "other", "env": {"keys": {"C": "3"}}}]}),
        json!({"groups": [{"name": "other", "image": "y", "shape": {"cpu": "2"}}]}),
    ];
    for inputs in updates {
        let change = Change::read(ActionKind::ClusterUpdate, &inputs).unwrap();
        let intent = Intent { cluster: &cluster, baseline: Baseline::Desired, limit: LIMIT };
        cluster = intent.after(&change, &ActionData::default()).unwrap();
    }
    let labels = [("a", "1"), ("b", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(cluster.labels, BTreeMap::from(labels));
    let recipe = ClusterRecipe::of_cluster(&cluster, &sample::profile()).unwrap();
    assert_eq!(json!(recipe.head()), json!({"image": "x", "env": {"A": "1", "B": "2"}}));
    let group = &cluster.groups[1];
    assert_eq!((group.desired, group.max), (5, Some(7)));
    let made = json!(recipe.workers(Some(group)));
    assert_eq!(made, json!({"image": "y", "cpu": "2", "env": {"A": "1", "B": "2", "C": "3"}}));
}

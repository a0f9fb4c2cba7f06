use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::cluster::WorkerGroup;
use crate::limits::LimitsChange;
use crate::recipe::NodeRecipe;
use crate::resize::Resize;
use crate::shape::{Shape, ShapeChange};

/// Inputs that clients and earlier versions stored, by kind: they are read and written back unchanged.
#[rstest]
#[case(ActionKind::ClusterCreate, json!({}))]
#[case(ActionKind::ClusterDelete, json!({}))]
#[case(ActionKind::ClusterDelete, json!({"force": true}))]
#[case(ActionKind::ClusterUpdate, json!({"name": "x", "timeout_seconds": 60, "metadata": {"a": null}, "profile_only": true}))]
#[case(ActionKind::ClusterUpdate, json!({"limits": {"idle_timeout": null, "max_lifetime": 5_000_000}}))]
#[case(ActionKind::ClusterUpdate, json!({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 5, "strict": true}}))]
#[case(ActionKind::ClusterUpdate, json!({"labels": {"keys": "b"}, "annotations": {"keys": {"a": null, "b": "c"}}}))]
#[case(ActionKind::ClusterUpdate, json!({"env": {}, "head": {"image": null, "shape": {"cpu": "2", "gpu": null}}}))]
#[case(ActionKind::ClusterUpdate, json!({"groups": [{"name": "g", "min": 1, "max": null, "args": []}, {"name": "h"}]}))]
#[case(ActionKind::ClusterAddNodes, json!({"nodes": ["00000000-0000-0000-0000-000000000001"]}))]
#[case(ActionKind::ClusterDelNodes, json!({"nodes": [], "destroy_after_deletion": true}))]
#[case(ActionKind::ClusterReplaceNodes, json!({"nodes": {"00000000-0000-0000-0000-000000000001": "00000000-0000-0000-0000-000000000002"}}))]
#[case(ActionKind::ClusterResize, json!({"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 12.5, "min_step": 2, "min_size": 1, "max_size": -1, "strict": false, "group": "g"}))]
#[case(ActionKind::ClusterScaleOut, json!({"count": 3}))]
#[case(ActionKind::ClusterScaleIn, json!({}))]
#[case(ActionKind::ClusterCheck, json!({"delete_check_action": "True", "more": [1]}))]
#[case(ActionKind::ClusterRecover, json!({"operation": "REBOOT", "check": true, "check_capacity": false}))]
#[case(ActionKind::ClusterOperation, json!({"operation": "reboot", "params": {"type": "SOFT"}}))]
#[case(ActionKind::ClusterAttachPolicy, json!({"policy_id": "00000000-0000-0000-0000-000000000003", "enabled": false}))]
#[case(ActionKind::ClusterDetachPolicy, json!({"policy_id": "00000000-0000-0000-0000-000000000003"}))]
#[case(ActionKind::ClusterUpdatePolicy, json!({"policy_id": "00000000-0000-0000-0000-000000000003", "enabled": true}))]
#[case(ActionKind::NodeCreate, json!({}))]
#[case(ActionKind::NodeDelete, json!({"force": true}))]
#[case(ActionKind::NodeUpdate, json!({"name": "n", "role": "r", "metadata": {}, "tainted": true}))]
#[case(ActionKind::NodeUpdate, json!({"new_profile_id": "00000000-0000-0000-0000-000000000004"}))]
#[case(ActionKind::NodeJoin, json!({}))]
#[case(ActionKind::NodeLeave, json!({}))]
#[case(ActionKind::NodeCheck, json!({"more": [1]}))]
#[case(ActionKind::NodeRecover, json!({"operation": "RECREATE", "delete_timeout": 7, "force_recreate": false}))]
#[case(ActionKind::NodeOperation, json!({"operation": "reboot", "params": null}))]
fn stored_inputs_are_read_and_written_back(#[case] kind: ActionKind, #[case] inputs: Value) {
    let change = Change::read(kind, &inputs).unwrap();
    assert_eq!((change.kind(), change.inputs()), (kind, inputs));
}

#[test]
fn groups_that_earlier_versions_stored_whole_are_read() {
    let recipe =
        NodeRecipe { image: Some("a".to_owned()), args: vec!["b".to_owned()], ..NodeRecipe::default() };
    let shape = Shape { gpu: Some(1), ..Shape::default() };
    let spec = recipe.into_spec();
    let whole = WorkerGroup { name: "g".to_owned(), desired: 2, min: 1, max: None, shape, spec };
    let change = Change::read(ActionKind::ClusterUpdate, &json!({"groups": [whole]})).unwrap();
    let node = NodeChange {
        image: Some(Some("a".to_owned())),
        env: Some(MapChange::All(BTreeMap::new())),
        args: Some(vec!["b".to_owned()]),
        labels: None,
        shape: ShapeChange { gpu: Some(Some(1)), ..ShapeChange::default() },
    };
    let group = GroupChange { name: "g".to_owned(), desired: Some(2), min: Some(1), max: Some(None), node };
    let expected = ClusterUpdate { groups: Some(vec![group]), ..ClusterUpdate::default() };
    assert_eq!(change, Change::UpdateCluster(Box::new(expected)));
}

#[test]
fn variables_that_version_1_stored_in_the_spec_are_read() {
    let inputs = json!({"name": "n", "spec": {"cluster": {"envs": {"A": "2"}, "version": "1"}}});
    let change = Change::read(ActionKind::ClusterUpdate, &inputs).unwrap();
    let env = Some(MapChange::All(BTreeMap::from([("A".to_owned(), "2".to_owned())])));
    let expected = ClusterUpdate { name: Some("n".to_owned()), env, ..ClusterUpdate::default() };
    assert_eq!(change, Change::UpdateCluster(Box::new(expected)));
}

#[rstest]
#[case(json!({"name": "n", "metadata": {}}), 1)]
#[case(json!({"labels": {"a": "b"}}), 2)]
#[case(json!({"groups": []}), 2)]
#[case(json!({"head": {}}), 2)]
#[case(json!({"head": {}, "restart": "never"}), 5)]
fn an_update_that_version_1_cannot_read_has_another_version(#[case] inputs: Value, #[case] version: u32) {
    assert_eq!(Change::read(ActionKind::ClusterUpdate, &inputs).unwrap().version(), version);
}

#[test]
fn keys_of_a_newer_version_are_ignored() {
    for kind in [ActionKind::ClusterUpdate, ActionKind::ClusterResize, ActionKind::NodeRecover] {
        Change::read(kind, &json!({"min_size": 1, "from_the_future": {"a": 1}})).unwrap();
    }
}

#[rstest]
#[case(json!({"count": "2"}), Some(2))]
#[case(json!({"count": null}), None)]
#[case(json!({}), None)]
fn a_count_may_be_text(#[case] inputs: Value, #[case] count: Option<u32>) {
    let change = Change::read(ActionKind::ClusterScaleOut, &inputs).unwrap();
    assert_eq!(change, Change::ScaleOut(Scale { count, ..Scale::default() }));
}

#[rstest]
#[case(json!({}), false)]
#[case(json!({"delete_check_action": false}), false)]
#[case(json!({"delete_check_action": true}), true)]
#[case(json!({"delete_check_action": "True"}), true)]
fn a_check_deletes_earlier_ones_if_that_is_asked_for(#[case] inputs: Value, #[case] expected: bool) {
    let Change::CheckCluster(check) = Change::read(ActionKind::ClusterCheck, &inputs).unwrap() else {
        panic!("another kind of change")
    };
    assert_eq!(check.deletes_earlier_checks(), expected);
}

#[test]
fn only_what_changes_is_stored_and_a_lifted_limit_is_null() {
    let limits = LimitsChange { idle_timeout: Some(None), max_lifetime: None };
    let update = ClusterUpdate { name: Some("x".to_owned()), limits: Some(limits), ..Default::default() };
    assert!(!update.is_empty() && ClusterUpdate::default().is_empty());
    let stored = Change::UpdateCluster(Box::new(update)).inputs();
    assert_eq!(stored, json!({"name": "x", "limits": {"idle_timeout": null}}));
}

#[rstest]
#[case(json!({"count": 0}), "0")]
#[case(json!({"count": -1}), "-1")]
#[case(json!({"count": "x"}), "x")]
#[case(json!({"count": 1.5}), "1.5")]
fn an_invalid_count_is_named(#[case] inputs: Value, #[case] given: &str) {
    let refused = Change::read(ActionKind::ClusterScaleOut, &inputs).unwrap_err();
    assert_eq!(refused, format!("Invalid count ({given}) for scaling out."));
}

#[rstest]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": "2"}), 2)]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 2.0}), 2)]
fn the_number_of_a_resize_may_be_text(#[case] inputs: Value, #[case] size: u32) {
    let resize = ResizeGroup { group: None, resize: Resize::exactly(size), candidates: None };
    assert_eq!(Change::read(ActionKind::ClusterResize, &inputs), Ok(Change::Resize(resize)));
}

#[rstest]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": "many"}), "number is 'many': must be a number")]
#[case(json!({"adjustment_type": "EXACT_CAPACITY"}), "adjustment_type needs a number")]
#[case(json!({"number": 2}), "number needs an adjustment_type")]
#[case(json!({"adjustment_type": "X", "number": 2}), "unknown variant `X`")]
fn a_resize_that_cannot_be_read_is_refused(#[case] inputs: Value, #[case] reason: &str) {
    let refused = Change::read(ActionKind::ClusterResize, &inputs).unwrap_err();
    assert!(refused.contains(reason), "{refused}");
}

#[test]
fn what_has_another_type_is_refused() {
    let refused = Change::read(ActionKind::NodeRecover, &json!({"check": "maybe"})).unwrap_err();
    assert_eq!(refused, "the inputs cannot be read: invalid type: string \"maybe\", expected a boolean");
}

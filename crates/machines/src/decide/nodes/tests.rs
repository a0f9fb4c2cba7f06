use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_core::time::Timestamp;
use rstest::rstest;
use serde_json::{from_value, to_value};

use super::*;
use crate::types::{Machine, MachineNodePool, NodeCondition};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A pool of group `g`; an entry is a node, `ready` or `maintenance`, its type, and whether it is tainted.
fn pool(entries: &[(&str, &str, &str, bool)]) -> MachineNodePool {
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, mode, of, taint)| json!({"name": name, "mode": mode, "taint": taint, "machineType": [{"name": of}]}))
        .collect();
    from_value(json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "MachineNodePool",
        "metadata": {"name": "m-node-pool", "finalizers": [keys::POOL_FINALIZER]},
        "spec": {"machineGroup": "g", "nodePool": entries, "machineTypeStock": []},
    }))
    .unwrap()
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": "7",
        "labels": {"zone": "a"}, "annotations": {"x": "y"}}, "spec": {}})
}

/// A node of group `g` and type `t` with the label of its health, tainted or not.
fn member(name: &str, group: &str, of: &str, health: &str, tainted: bool) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"] = json!({"zone": "a", keys::NODE_POOL: health, keys::MACHINE_TYPE: of});
    node["metadata"]["labels"][keys::type_key(of)] = group.into();
    node["metadata"]["annotations"][keys::MACHINE_GROUP] = group.into();
    if tainted {
        node["spec"]["taints"] = json!([
            {"key": "foreign", "effect": "NoSchedule"},
            {"key": keys::NODE_POOL, "value": health, "effect": "NoSchedule", "timeAdded": "2023-11-14T22:13:20Z"},
            {"key": keys::type_key(of), "value": group, "effect": "NoSchedule"},
        ]);
    }
    node
}

fn plan_with(pool: &MachineNodePool, nodes: &[Value], others: &[(&str, &str)]) -> NodePlan {
    let nodes: Vec<Node> = nodes.iter().map(|node| from_value(node.clone()).unwrap()).collect();
    let mut other_groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, group) in others {
        other_groups.entry(node).or_default().insert(group);
    }
    let nodes = nodes.iter().map(|node| (node.metadata.name.as_deref().unwrap(), node)).collect();
    plan_nodes(&ObservedPool { pool, nodes, other_groups, health: HealthRules::default() }, NOW)
}

/// The nodes after the writes; an apply merges, as it does with force and one manager.
fn after(plan: &NodePlan, nodes: &[Value]) -> Vec<Value> {
    let mut nodes = nodes.to_vec();
    for write in &plan.writes {
        match write {
            NodeWrite::Patch { node, patch } => {
                let node = nodes.iter_mut().find(|other| other["metadata"]["name"] == **node).unwrap();
                // To the json-patch crate, unlike to an API server, a missing list does not equal null.
                node["spec"].as_object_mut().unwrap().entry("taints").or_insert(Value::Null);
                json_patch::patch(node, patch).unwrap();
                if node["spec"]["taints"].as_array().is_none_or(Vec::is_empty) {
                    node["spec"].as_object_mut().unwrap().remove("taints");
                }
            }
            NodeWrite::Apply { node, configuration } => {
                let node = nodes.iter_mut().find(|other| other["metadata"]["name"] == **node).unwrap();
                json_patch::merge(node, configuration);
            }
        }
    }
    nodes
}

fn without_times(mut node: Value) -> Value {
    for taint in node["spec"]["taints"].as_array_mut().into_iter().flatten() {
        taint.as_object_mut().unwrap().remove("timeAdded");
    }
    if let Some(taints) = node["spec"]["taints"].as_array_mut() {
        taints.sort_by_key(ToString::to_string);
    }
    node
}

/// Applies a pass to a node, and checks that a second pass writes nothing.
#[rstest]
#[case::new(node("n"), ("n", "ready", "t", false), member("n", "g", "t", "ready", false))]
#[case::maintenance(node("n"), ("n", "maintenance", "t", false), member("n", "g", "t", "maintenance", false))]
#[case::type_changed(member("n", "g", "old", "ready", true), ("n", "ready", "t", true), member("n", "g", "t", "ready", true))]
#[case::health_changed(member("n", "g", "t", "not-ready", true), ("n", "ready", "t", true), member("n", "g", "t", "ready", true))]
#[case::leftover_of_a_group_that_lists_it_no_more(member("n", "h", "u", "ready", true), ("n", "ready", "t", true), member("n", "g", "t", "ready", true))]
fn a_member_carries_what_its_entry_says(
    #[case] before: Value,
    #[case] entry: (&str, &str, &str, bool),
    #[case] expected: Value,
) {
    let pool = pool(&[entry]);
    let nodes = [before];
    let changed = after(&plan_with(&pool, &nodes, &[]), &nodes);
    assert_eq!(without_times(changed[0].clone()), without_times(expected));
    assert_eq!(plan_with(&pool, &changed, &[]).writes, []);
}

#[test]
fn taint_true_then_false_takes_only_our_taints_off() {
    let nodes = [member("n", "g", "t", "ready", true)];
    let changed = after(&plan_with(&pool(&[("n", "ready", "t", false)]), &nodes, &[]), &nodes);
    assert_eq!(changed[0]["spec"]["taints"], json!([{"key": "foreign", "effect": "NoSchedule"}]));
}

#[test]
fn a_taint_with_a_time_of_the_published_operator_is_right() {
    let nodes = [member("n", "g", "t", "ready", true)];
    assert_eq!(plan_with(&pool(&[("n", "ready", "t", true)]), &nodes, &[]).writes, []);
}

#[test]
fn taints_are_added_under_a_test() {
    let pool = pool(&[("n", "ready", "t", true)]);
    let operations = |nodes: &[Value]| {
        let writes = plan_with(&pool, nodes, &[]).writes;
        let patch = writes.iter().find_map(|write| match write {
            NodeWrite::Patch { patch, .. } => Some(to_value(patch).unwrap()),
            NodeWrite::Apply { .. } => None,
        });
        patch.unwrap()
    };
    let ours = json!([{"key": keys::NODE_POOL, "value": "ready", "effect": "NoSchedule"},
        {"key": keys::type_key("t"), "value": "g", "effect": "NoSchedule"}]);
    assert_eq!(
        operations(&[node("n")]),
        json!([{"op": "test", "path": "/spec/taints", "value": null},
            {"op": "add", "path": "/spec/taints", "value": ours}])
    );
    let mut with_taint = node("n");
    with_taint["spec"]["taints"] = json!([{"key": "foreign", "effect": "NoSchedule"}]);
    let operations = operations(&[with_taint]);
    assert_eq!(
        operations[0],
        json!({"op": "test", "path": "/spec/taints", "value": [{"key": "foreign", "effect": "NoSchedule"}]})
    );
    assert_eq!(operations[1]["value"].as_array().unwrap().len(), 3);
}

#[test]
fn a_lost_annotation_is_restored() {
    let mut lost = member("n", "g", "t", "ready", false);
    lost["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::MACHINE_GROUP);
    let nodes = [lost];
    let changed = after(&plan_with(&pool(&[("n", "ready", "t", false)]), &nodes, &[]), &nodes);
    assert_eq!(changed[0], member("n", "g", "t", "ready", false));
}

#[rstest]
#[case::left_the_pool(false)]
#[case::pool_deleted(true)]
fn nodes_that_left_carry_nothing_of_ours(#[case] deleted: bool) {
    let mut pool = pool(&[]);
    if deleted {
        pool.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    }
    let mut label_only = node("c");
    label_only["metadata"]["labels"][keys::type_key("t")] = "g".into();
    let nodes =
        [member("a", "g", "t", "ready", true), node("b"), label_only, member("d", "h", "t", "ready", true)];
    let plan = plan_with(&pool, &nodes, &[]);
    assert_eq!(plan.cleaned, ["a", "c"]);
    assert_eq!(plan.finalizer, FinalizerStep::Keep);
    let changed = after(&plan, &nodes);
    let mut bare = node("a");
    bare["spec"]["taints"] = json!([{"key": "foreign", "effect": "NoSchedule"}]);
    assert_eq!(changed[0], bare);
    assert_eq!(changed[2], node("c"));
    assert_eq!(changed[3], nodes[3]);
    let finalizer = if deleted { FinalizerStep::Remove } else { FinalizerStep::Keep };
    assert_eq!(plan_with(&pool, &changed, &[]).finalizer, finalizer);
}

#[test]
fn the_finalizer_comes_before_the_first_write() {
    let mut pool = pool(&[("n", "ready", "t", true)]);
    pool.metadata.finalizers = None;
    let plan = plan_with(&pool, &[node("n")], &[]);
    assert_eq!((plan.finalizer, plan.writes.len()), (FinalizerStep::Add, 0));
}

#[test]
fn a_missing_node_is_reported_and_the_others_continue() {
    let pool = pool(&[("gone", "ready", "t", false), ("n", "ready", "t", false)]);
    let plan = plan_with(&pool, &[node("n")], &[]);
    assert_eq!(plan.writes.len(), 1);
    let status = plan.status.unwrap();
    let conditions: Vec<_> =
        status.node_pool.iter().map(|node| (node.name.as_str(), node.condition)).collect();
    assert_eq!(conditions, [("gone", NodeCondition::NotReady), ("n", NodeCondition::Ready)]);
    let ready = &status.conditions[0];
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Failure"));
    assert_eq!(ready.message, "failed to find node gone in Kubernetes Cluster");
}

#[test]
fn a_status_that_is_right_is_not_written() {
    let mut pool = pool(&[("n", "ready", "t", false)]);
    pool.status = plan_with(&pool, &[node("n")], &[]).status;
    assert!(pool.status.is_some());
    assert_eq!(plan_with(&pool, &[node("n")], &[]).status, None);
}

#[test]
fn the_annotation_of_another_group_wins_while_that_lists_the_node() {
    let pool = pool(&[("n", "ready", "t", true)]);
    let nodes = [member("n", "h", "u", "ready", true)];
    let plan = plan_with(&pool, &nodes, &[("n", "h")]);
    assert_eq!(plan.writes, []);
    let status = plan.status.unwrap();
    assert_eq!(status.conditions[0].message, "node n belongs to machine-group h");
    assert_eq!(status.node_pool[0].condition, NodeCondition::NotReady);
    assert!(
        !plan_with(&pool, &[node("n")], &[("n", "h")]).writes.is_empty(),
        "not annotated yet: the first wins"
    );
}

#[test]
fn a_node_that_another_group_has_taken_over_keeps_what_names_no_group() {
    let mut moved = member("n", "h", "u", "ready", true);
    moved["metadata"]["labels"][keys::type_key("t")] = "g".into();
    let nodes = [moved];
    let changed = after(&plan_with(&pool(&[]), &nodes, &[]), &nodes);
    assert_eq!(changed[0], member("n", "h", "u", "ready", true));
}

#[test]
fn a_claim_of_a_node_fails_if_the_node_has_changed() {
    let pool = pool(&[("n", "ready", "t", false)]);
    let version = |node: Value| match plan_with(&pool, &[node], &[]).writes.as_slice() {
        [NodeWrite::Apply { configuration, .. }] => configuration["metadata"]["resourceVersion"].clone(),
        other => json!(format!("{other:?}")),
    };
    assert_eq!(version(node("n")), "7");
    assert_eq!(version(member("n", "g", "t", "not-ready", false)), Value::Null);
}

#[test]
fn a_pool_without_a_group_touches_no_node() {
    let mut pool = pool(&[("n", "ready", "t", false)]);
    pool.spec.machine_group = None;
    let mut empty = node("n");
    empty["metadata"]["labels"][keys::type_key("t")] = "".into();
    let plan = plan_with(&pool, &[empty], &[]);
    assert_eq!(plan.writes, []);
    assert_eq!(plan.status.unwrap().conditions[0].status, "False");
}

#[test]
fn labels_of_users_under_our_domain_stay() {
    let mut theirs = member("n", "g", "t", "ready", false);
    theirs["metadata"]["labels"]["imperator.tenzen-y.io/rack"] = "7".into();
    let nodes = [theirs];
    let changed = after(&plan_with(&pool(&[]), &nodes, &[]), &nodes);
    assert_eq!(changed[0]["metadata"]["labels"], json!({"zone": "a", "imperator.tenzen-y.io/rack": "7"}));
}

fn machine() -> Machine {
    from_value(json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine", "metadata": {"name": "m", "uid": "u"},
        "spec": {
            "nodePool": [{"name": "n", "mode": "ready", "machineType": [{"name": "t"}]}],
            "machineTypes": [{"name": "t", "available": 1, "spec": {"cpu": 1, "memory": 1}}],
        },
    }))
    .unwrap()
}

#[test]
fn the_pool_of_a_machine_is_put_right() {
    let mut machine = machine();
    let pool = wanted_pool(&machine, "g", None).unwrap();
    assert_eq!(pool.metadata.name.as_deref(), Some("m-node-pool"));
    assert_eq!(to_value(&pool.spec.machine_type_stock).unwrap(), json!([{"name": "t"}]));
    assert_eq!(pool.group(), Some("g"));
    assert_eq!(wanted_pool(&machine, "g", Some(&pool)), None);
    let mut edited = pool.clone();
    edited.spec.node_pool.clear();
    assert_eq!(wanted_pool(&machine, "g", Some(&edited)), Some(pool.clone()));
    let mut published = pool.clone();
    published.spec.machine_group = None;
    published.spec.machine_group_name = Some("g".into());
    assert_eq!(wanted_pool(&machine, "g", Some(&published)), Some(pool));
    machine.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(wanted_pool(&machine, "g", None), None);
}

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;

/// A Machine `m` of group `g` with the type `t` on node `n1`, changed by a merge patch.
fn machine(change: &Value) -> Machine {
    let mut machine = json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "labels": {keys::MACHINE_GROUP: "g"}},
        "spec": {"nodePool": [entry("n1", &["t"])], "machineTypes": [of_type("t", &json!(null))]},
    });
    json_patch::merge(&mut machine, change);
    from_value(machine).unwrap()
}

fn entry(node: &str, types: &[&str]) -> Value {
    let types: Vec<_> = types.iter().map(|name| json!({"name": name})).collect();
    json!({"name": node, "mode": "ready", "machineType": types})
}

fn of_type(name: &str, gpu: &Value) -> Value {
    json!({"name": name, "available": 1, "spec": {"cpu": "1", "memory": "1Gi", "gpu": gpu}})
}

fn with_types(types: &[Value]) -> Value {
    json!({"spec": {"machineTypes": types}})
}

fn with_nodes(nodes: &[Value]) -> Value {
    json!({"spec": {"nodePool": nodes}})
}

fn with_gpu(gpu: &Value) -> Value {
    with_types(&[of_type("t", gpu)])
}

fn labelled(group: &str) -> Value {
    json!({"metadata": {"labels": {keys::MACHINE_GROUP: group}}})
}

/// Another Machine `o` of group `c-g` with the type `a` on node `n3`.
fn other() -> Machine {
    machine(&json!({
        "metadata": {"name": "o", "labels": {keys::MACHINE_GROUP: "c-g"}},
        "spec": {"nodePool": [entry("n3", &["a"])], "machineTypes": [of_type("a", &json!(null))]},
    }))
}

fn verdict(new: &Machine, old: Option<&Machine>) -> String {
    let other = other();
    let machines = [Some(&other), old].into_iter().flatten().collect();
    let world = ValidationWorld { machines, nodes: BTreeSet::from(["n1", "n2", "n3"]) };
    validate_machine(new, old, &world).map_or_else(|refusal| refusal.to_string(), |()| "accepted".to_owned())
}

#[rstest]
#[case::plain(json!({}), "accepted")]
#[case::no_label(json!({"metadata": {"labels": null}}), "imperator.tenzen-y.io/machine-group is must be set in .metadata.labels")]
#[case::empty_label(labelled(""), "imperator.tenzen-y.io/machine-group is must be set in .metadata.labels")]
#[case::duplicate_group(
    labelled("c-g"),
    "machineGroup label is duplicate, machineGroup must be set as unique"
)]
#[case::unknown_node(with_nodes(&[entry("n9", &["t"])]), "failed to find node n9 in Kubernetes Cluster")]
#[case::duplicate_type(with_types(&[of_type("t", &json!(null)), of_type("t", &json!(null))]), "machineType name <t> is duplicated")]
#[case::two_types(with_nodes(&[entry("n1", &["t", "t"])]), "n1; can not set multiple machineType in nodePool.machineType")]
#[case::no_type(with_nodes(&[entry("n1", &[])]), "n1; can not set multiple machineType in nodePool.machineType")]
#[case::unknown_type(with_nodes(&[entry("n1", &["u"])]), "u was not found in spec.machineTypes")]
#[case::no_nodes(with_nodes(&[]), "accepted")]
#[case::gpu(with_gpu(&json!({"type": "nvidia.com/gpu", "num": 2, "family": "ampere"})), "accepted")]
#[case::no_number(with_gpu(&json!({"type": "nvidia.com/gpu", "family": "ampere"})), "accepted")]
#[case::no_gpu_type(with_gpu(&json!({"num": 1, "family": "ampere"})), "gpu.type must be set value")]
#[case::negative_gpu(with_gpu(&json!({"type": "nvidia.com/gpu", "num": -1, "family": "a"})), "gpu.num must be set 0 or more value")]
#[case::no_selector(with_gpu(&json!({"type": "nvidia.com/gpu", "num": 1, "family": ""})), "you must set a value for either gpu.family, gpu.product or gpu.machine")]
#[case::two_selectors(with_gpu(&json!({"type": "nvidia.com/gpu", "family": "a", "machine": "b"})), "only one GPU family, product or machine cane be set")]
#[case::foreign_gpu(with_gpu(&json!({"type": "amd.com/gpu", "family": "a"})), "gpu.type is amd.com/gpu: it must begin with nvidia.com/")]
#[case::part_of_a_gpu(with_gpu(&json!({"type": "nvidia.com/gpu", "num": "500m", "family": "a"})), "gpu.num is 500m: it must be a whole number")]
#[case::half_a_gpu(with_gpu(&json!({"type": "nvidia.com/gpu", "num": "0.5", "family": "a"})), "gpu.num is 0.5: it must be a whole number")]
#[case::thousandths_of_gpus(with_gpu(&json!({"type": "nvidia.com/gpu", "num": "2000m", "family": "a"})), "accepted")]
#[case::malformed_gpu(with_gpu(&json!({"type": "nvidia.com/g p u", "family": "a"})), "gpu.type is 'nvidia.com/g p u': it has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit")]
#[case::malformed_family(with_gpu(&json!({"type": "nvidia.com/gpu", "family": "a b!"})), "gpu.family is 'a b!': it has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit")]
#[case::node_twice(with_nodes(&[entry("n1", &["t"]), entry("n1", &["t"])]), "node n1 is listed more than once in spec.nodePool")]
#[case::node_of_another(with_nodes(&[entry("n3", &["t"])]), "node n3 belongs to machine-group c-g: remove it there first")]
#[case::reserved_name(json!({"spec": {"nodePool": [], "machineTypes": [of_type("node-pool", &json!(null))]}}), "machineType name 'node-pool' is reserved: 'imperator.tenzen-y.io/node-pool' is a key of its own; choose another name")]
#[case::collision(json!({"spec": {"nodePool": [], "machineTypes": [of_type("a-c", &json!(null))]}}), "'a-c-g', the name of the reservation of a-c, is that of another in machine-group c-g")]
#[case::long_name(json!({"metadata": {"name": "m".repeat(244)}}), "the name of the Machine has 244 characters: at most 243 are possible; shorten it")]
#[case::negative_cpu(with_types(&[json!({"name": "t", "available": 1, "spec": {"cpu": -1, "memory": 1}})]), "cpu of machineType t is -1: it must be a quantity of 0 or more")]
fn a_new_machine_is_checked(#[case] change: Value, #[case] expected: &str) {
    assert_eq!(verdict(&machine(&change), None), expected);
}

#[rstest]
#[case::a_node_that_was_there_may_be_missing(with_nodes(&[entry("gone", &["t"])]), with_nodes(&[entry("gone", &["t"]), entry("n2", &["t"])]), "accepted")]
#[case::a_new_one_may_not(with_nodes(&[entry("gone", &["t"])]), with_nodes(&[entry("gone", &["t"]), entry("lost", &["t"])]), "failed to find node lost in Kubernetes Cluster")]
#[case::shared_before(with_nodes(&[entry("n3", &["t"])]), with_nodes(&[entry("n3", &["t"]), entry("n2", &["t"])]), "accepted")]
#[case::group_changed(json!({}), labelled("h"), "label imperator.tenzen-y.io/machine-group was 'g' and cannot be changed to 'h': create another Machine")]
#[case::an_old_name_stays(with_types(&[of_type("t", &json!(null)), of_type("9x", &json!(null))]), with_types(&[of_type("t", &json!(null)), of_type("9x", &json!(null)), of_type("v", &json!(null))]), "accepted")]
fn an_update_is_checked_for_what_it_adds(#[case] old: Value, #[case] new: Value, #[case] expected: &str) {
    assert_eq!(verdict(&machine(&new), Some(&machine(&old))), expected);
}

#[test]
fn a_machine_that_goes_is_never_checked() {
    let mut going = machine(&json!({"metadata": {"labels": null}}));
    going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(verdict(&going, Some(&machine(&json!({})))), "accepted");
}

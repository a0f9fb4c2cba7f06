use rstest::rstest;

use super::*;

/// A tier as Domino returns it, with changes.
fn domino(change: impl FnOnce(&mut Value)) -> HardwareTier {
    let mut tier = json!({
        "id": "small-k8s", "name": "Small", "nodePool": "default",
        "hwtResources": {
            "cores": 1.0, "coresLimit": null, "memory": {"value": 4.0, "unit": "GiB"}, "memoryLimit": null,
        },
        "gpuConfiguration": null,
        "computeClusterRestrictions": {
            "restrictToSpark": false, "restrictToRay": false, "restrictToDask": false, "restrictToMpi": false,
        },
    });
    change(&mut tier);
    HardwareTier::from_domino(&tier).expect("a tier")
}

fn shape(change: impl FnOnce(&mut Value)) -> Result<Value, String> {
    domino(change).shape.map(|shape| serde_json::to_value(shape).expect("a shape"))
}

#[test]
fn a_tier_of_domino_is_a_shape_with_a_label_and_a_selector() {
    let tier = domino(|_| ());
    assert_eq!((tier.id.as_str(), tier.name.as_str()), ("small-k8s", "Small"));
    assert_eq!(tier.label.as_deref(), Some("small-k8s"));
    assert!(tier.allows("rayclusters"));
    let expected = json!({
        "cpu": "1", "memory": "4Gi", "limits": {"memory": "4Gi"}, "selectors": {NODE_POOL: "default"},
    });
    assert_eq!(shape(|_| ()), Ok(expected));
}

#[rstest]
#[case("GiB", json!(4.0), "4Gi")]
#[case("GB", json!(4), "4G")]
#[case("MiB", json!(512.0), "512Mi")]
#[case("MB", json!(500), "500M")]
#[case("TiB", json!(1.5), "1536Gi")]
#[case("Gi", json!(2), "2Gi")]
#[case("B", json!(2_000_000), "2M")]
fn units_of_memory_become_those_of_kubernetes(
    #[case] unit: &str,
    #[case] value: Value,
    #[case] written: &str,
) {
    let shape = shape(|tier| tier["hwtResources"]["memory"] = json!({"value": value, "unit": unit}));
    assert_eq!(shape.expect("a shape")["memory"], written);
}

#[rstest]
#[case::limits(json!({"hwtResources": {"cores": 0.5, "coresLimit": 2.0, "memory": {"value": 1, "unit": "GiB"}, "memoryLimit": {"value": 2, "unit": "GiB"}}}),
    "limits", json!({"cpu": "2", "memory": "2Gi"}))]
#[case::part_of_a_core(json!({"hwtResources": {"cores": 0.5, "memory": {"value": 1, "unit": "GiB"}}}), "cpu", json!("500m"))]
#[case::gpu(json!({"gpuConfiguration": {"numberOfGpus": 2, "gpuKey": "amd.com/gpu"}}), "gpu", json!(2))]
#[case::gpu_key(json!({"gpuConfiguration": {"numberOfGpus": 2, "gpuKey": "amd.com/gpu"}}), "gpu_resource", json!("amd.com/gpu"))]
#[case::no_gpu(json!({"gpuConfiguration": {"numberOfGpus": 0}}), "gpu", json!(null))]
#[case::no_pool(json!({"nodePool": null}), "selectors", json!(null))]
#[case::no_id(json!({"id": ""}), "selectors", json!(null))]
fn all_that_a_tier_has_is_in_its_shape(#[case] change: Value, #[case] key: &str, #[case] value: Value) {
    let shape = shape(|tier| {
        for (key, value) in change.as_object().expect("a map") {
            tier[key] = value.clone();
        }
    });
    assert_eq!(shape.expect("a shape")[key], value);
}

#[rstest]
#[case::unit(json!({"hwtResources": {"cores": 1, "memory": {"value": 1, "unit": "gigs"}}}), "'gigs' is not a unit of memory")]
#[case::no_memory(json!({"hwtResources": {"cores": 1}}), "memory is missing")]
#[case::no_cores(json!({"hwtResources": {"memory": {"value": 1, "unit": "GiB"}}}), "cores is missing")]
#[case::nothing(json!({"hwtResources": null}), "cores is missing")]
#[case::part_of_a_gpu(json!({"gpuConfiguration": {"numberOfGpus": 0.5}}), "numberOfGpus is 0.5")]
#[case::gpu_as_a_flag(json!({"gpuConfiguration": {"numberOfGpus": true}}), "numberOfGpus is true")]
#[case::negative(json!({"hwtResources": {"cores": -1, "memory": {"value": 1, "unit": "GiB"}}}), "cores: ")]
fn a_tier_that_cannot_be_used_says_why(#[case] change: Value, #[case] begins: &str) {
    let why = shape(|tier| {
        for (key, value) in change.as_object().expect("a map") {
            tier[key] = value.clone();
        }
    });
    let why = why.expect_err("it cannot be used");
    assert!(why.starts_with(begins), "{why}");
}

#[rstest]
#[case("computeClusterRestrictions")]
#[case("hwtComputeClusterRestrictions")]
fn a_tier_may_be_restricted_to_kinds_of_clusters(#[case] key: &str) {
    let tier = domino(|tier| tier[key] = json!({"restrictToRay": true, "restrictToMpi": true}));
    assert_eq!(tier.restricted_to, ["rayclusters", "mpicluster"]);
    assert!(tier.allows("rayclusters") && !tier.allows("daskclusters"));
}

#[test]
fn a_change_of_tier_sets_everything_that_tiers_set() {
    let change = domino(|_| ()).change().expect("a change");
    let mut shape = Shape {
        gpu: Some(1),
        gpu_resource: Some("amd.com/gpu".to_owned()),
        limits: UpperLimits { cpu: "9".parse().ok(), ..UpperLimits::default() },
        selectors: [(NODE_POOL.to_owned(), "gpus".to_owned())].into(),
        ..Shape::default()
    };
    change.shape.apply(&mut shape);
    assert_eq!(Ok(shape), domino(|_| ()).shape);
    let mut labels = BTreeMap::from([("kept".to_owned(), "yes".to_owned())]);
    change.labels.expect("a label").apply(&mut labels);
    assert_eq!(labels.get(TIER_LABEL).map(String::as_str), Some("small-k8s"));
    assert_eq!(labels.len(), 2);
}

#[rstest]
#[case::of_domino(domino(|tier| tier["id"] = json!("")))]
#[case::of_a_shape(HardwareTier::from_shape("small", Shape::default()))]
fn a_change_to_a_tier_without_a_label_removes_that_of_the_previous_tier(#[case] tier: HardwareTier) {
    let mut recipe = crate::recipe::NodeRecipe::default();
    domino(|_| ()).change().expect("a change").apply(&mut recipe);
    recipe.pod.labels.insert("kept".to_owned(), "yes".to_owned());
    tier.change().expect("a change").apply(&mut recipe);
    assert_eq!(recipe.pod.labels, BTreeMap::from([("kept".to_owned(), "yes".to_owned())]));
}

#[test]
fn a_tier_without_a_name_is_none() {
    assert_eq!(HardwareTier::from_domino(&json!({"id": "a"})), None);
    assert_eq!(HardwareTier::from_domino(&json!(3)), None);
}

//! Updates that name a hardware tier.

use muster_core::change::{GroupChange, NodeChange};
use muster_core::recipe::NodeRecipe;
use muster_core::tier::{HardwareTier, NODE_POOL, TIER_LABEL};

use super::*;

/// A tier as Domino describes it, with accelerators or without.
fn tier(id: &str, accelerators: u32) -> HardwareTier {
    let described = json!({
        "id": id,
        "name": id,
        "nodePool": format!("{id}-pool"),
        "hwtResources": {
            "cores": 1.5,
            "coresLimit": 2,
            "memory": {"value": 4, "unit": "GiB"},
            "memoryLimit": {"value": 6, "unit": "GiB"},
        },
        "gpuConfiguration": {"numberOfGpus": accelerators, "gpuKey": "amd.com/gpu"},
    });
    HardwareTier::from_domino(&described).expect("a tier")
}

/// The part of an object that describes a node of the tier.
fn stored(id: &str, accelerators: u32) -> Value {
    let mut node = json!({
        "labels": {TIER_LABEL: id, "theirs": "stays"},
        "nodeSelector": {NODE_POOL: format!("{id}-pool"), "theirs": "stays"},
        "resources": {
            "requests": {"cpu": "1500m", "memory": "4Gi", "ephemeral-storage": "1Gi"},
            "limits": {"cpu": "2", "memory": "6Gi"},
        },
    });
    if accelerators > 0 {
        for side in ["requests", "limits"] {
            node["resources"][side]["amd.com/gpu"] = accelerators.to_string().into();
        }
    }
    node
}

/// An object whose head and workers have this tier.
fn of_tier(id: &str, accelerators: u32) -> Value {
    object(|object| {
        object["spec"]["head"] = stored(id, accelerators);
        object["spec"]["worker"] = stored(id, accelerators);
        object["spec"]["worker"]["replicas"] = 3.into();
    })
}

fn with(recipe: &NodeRecipe, change: &NodeChange) -> NodeRecipe {
    let mut after = recipe.clone();
    change.apply(&mut after);
    let mut shape = after.shape();
    change.shape.apply(&mut shape);
    after.with_shape(shape)
}

/// The patch by which the node `head` or `worker` gets a tier, while the rows have the recipe of the tier `before`.
fn assigned(node: &str, before: &NodeRecipe, tier: &HardwareTier, object: &Value) -> Value {
    let change = tier.change().expect("a possible tier");
    let (mut recipe, mut update) = (ClusterRecipe::default(), ClusterUpdate::default());
    if node == "head" {
        recipe.head = before.clone();
        update.head = Some(change.clone());
    } else {
        recipe.worker = before.clone();
        let group =
            GroupChange { name: "default".to_owned(), node: change.clone(), ..GroupChange::default() };
        update.groups = Some(vec![group]);
    }
    let (cluster, mut after) = (cluster(), recipe.clone());
    let changed = if node == "head" { &mut after.head } else { &mut after.worker };
    *changed = with(before, &change);
    let plan = |recipe| DesiredCluster { cluster: &cluster, recipe };
    let projection = RAY.read_object(&RAY_CLUSTER, object).expect("a cluster");
    let writes = RAY.apply_update(&update, plan(&recipe), plan(&after), &[&projection]);
    let writes = writes.expect("it is possible").expect("updates are compared with objects");
    let [write @ ObjectWrite { operation: WriteOperation::GuardedMerge(body), .. }] = writes.as_slice()
    else {
        panic!("one merge patch: {writes:?}")
    };
    assert_eq!(write.is_empty(), *body == json!({}));
    body.clone()
}

/// Applies a merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return *object = patch.clone() };
    if !object.is_object() {
        *object = json!({});
    }
    let object = object.as_object_mut().expect("a map");
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[rstest]
#[case::tier(&["labels", TIER_LABEL], json!("other"))]
#[case::no_tier(&["labels", TIER_LABEL], json!(null))]
#[case::pool(&["nodeSelector", NODE_POOL], json!("other"))]
#[case::no_pool(&["nodeSelector", NODE_POOL], json!(null))]
#[case::cpu(&["resources", "requests", "cpu"], json!("1"))]
#[case::memory(&["resources", "requests", "memory"], json!("5Gi"))]
#[case::limit_of_cpu(&["resources", "limits", "cpu"], json!("3"))]
#[case::no_limit_of_cpu(&["resources", "limits", "cpu"], json!(null))]
#[case::limit_of_memory(&["resources", "limits", "memory"], json!("8Gi"))]
#[case::no_limits(&["resources", "limits"], json!(null))]
#[case::accelerators(&["resources", "limits", "amd.com/gpu"], json!(4))]
#[case::no_accelerators(&["resources", "requests", "amd.com/gpu"], json!(null))]
#[case::other_accelerators(&["resources", "requests", "nvidia.com/gpu"], json!(1))]
fn the_present_tier_restores_what_others_changed(
    #[case] path: &[&str],
    #[case] changed: Value,
    #[values("head", "worker")] node: &str,
) {
    let (gpus, before) = (tier("gpus", 2), of_tier("gpus", 2));
    let recipe = with(&NodeRecipe::default(), &gpus.change().expect("a possible tier"));
    let mut object = before.clone();
    let mut patch = changed;
    for key in path.iter().rev() {
        patch = json!({*key: patch});
    }
    merge(&mut object["spec"][node], &patch);
    let written = assigned(node, &recipe, &gpus, &object);
    let parts: Vec<&String> = written["spec"].as_object().expect("a patch").keys().collect();
    assert_eq!(parts, [node]);
    merge(&mut object, &written);
    assert_eq!(object, before);
}

#[rstest]
#[case::of_this_row(true)]
#[case::of_domino_alone(false)]
fn the_present_tier_of_an_unchanged_object_writes_nothing(
    #[case] is_known: bool,
    #[values("head", "worker")] node: &str,
) {
    let gpus = tier("gpus", 2);
    let known = with(&NodeRecipe::default(), &gpus.change().expect("a possible tier"));
    let recipe = if is_known { known } else { NodeRecipe::default() };
    let mut object = of_tier("gpus", 2);
    assert_eq!(assigned(node, &recipe, &gpus, &object), json!({}));
    // Other notations of the same amounts.
    object["spec"][node]["resources"] = json!({
        "requests": {"cpu": 1.5, "memory": "4096Mi", "amd.com/gpu": 2},
        "limits": {"cpu": 2, "memory": "6442450944", "amd.com/gpu": 2},
    });
    assert_eq!(assigned(node, &recipe, &gpus, &object), json!({}));
}

#[rstest]
#[case::of_this_row(true)]
#[case::of_domino_alone(false)]
fn a_tier_replaces_all_settings_of_the_previous_one(
    #[case] is_known: bool,
    #[values("head", "worker")] node: &str,
) {
    let (gpus, small) = (tier("gpus", 2), tier("small", 0));
    let known = with(&NodeRecipe::default(), &gpus.change().expect("a possible tier"));
    let recipe = if is_known { known } else { NodeRecipe::default() };
    let mut object = of_tier("gpus", 2);
    let written = assigned(node, &recipe, &small, &object);
    merge(&mut object, &written);
    let mut wanted = of_tier("gpus", 2);
    merge(&mut wanted["spec"][node], &stored("small", 0));
    for side in ["requests", "limits"] {
        wanted["spec"][node]["resources"][side].as_object_mut().expect("a map").remove("amd.com/gpu");
    }
    assert_eq!(object, wanted);
}

#[test]
fn a_tier_of_a_compute_template_removes_the_tier_of_domino() {
    let template = HardwareTier::from_shape("small", tier("small", 0).shape.expect("a shape"));
    let mut object = of_tier("gpus", 2);
    let written = assigned("worker", &NodeRecipe::default(), &template, &object);
    merge(&mut object, &written);
    assert_eq!(object["spec"]["worker"]["labels"], json!({"theirs": "stays"}));
}

#[test]
fn an_unusual_accelerator_of_the_previous_tier_is_removed() {
    let mut unusual = tier("unusual", 1);
    let shape = unusual.shape.as_mut().expect("a shape");
    shape.gpu_resource = Some("habana.ai/gaudi".to_owned());
    let recipe = with(&NodeRecipe::default(), &unusual.change().expect("a possible tier"));
    let mut object = of_tier("unusual", 0);
    let written = assigned("worker", &recipe, &unusual, &object);
    merge(&mut object, &written);
    assert_eq!(object["spec"]["worker"]["resources"]["limits"]["habana.ai/gaudi"], "1");
    let written = assigned("worker", &recipe, &tier("unusual", 0), &object);
    merge(&mut object, &written);
    assert_eq!(object["spec"]["worker"], of_tier("unusual", 0)["spec"]["worker"]);
}

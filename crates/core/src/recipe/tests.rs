use rstest::rstest;
use serde_json::json;

use super::*;

fn recipe(properties: &Value) -> Result<ClusterRecipe, String> {
    ClusterRecipe::from_stored(properties.as_object().expect("a map"))
}

fn group(shape: Shape, own: NodeRecipe) -> WorkerGroup {
    WorkerGroup { name: "g".into(), desired: 1, min: 0, max: None, shape, spec: own.into_spec() }
}

#[test]
fn a_group_says_more_than_all_workers_and_these_more_than_the_cluster() {
    let recipe = recipe(&json!({
        "image": "all",
        "worker": {"cpu": "1", "memory": "1Gi", "env": {"A": "worker", "B": "worker"}, "args": ["--x"]},
    }))
    .unwrap();
    let own = NodeRecipe { env: BTreeMap::from([("A".into(), "group".into())]), ..NodeRecipe::default() };
    let shape = Shape { cpu: "2".parse().ok(), ..Shape::default() };
    let made = recipe.workers(Some(&group(shape, own)));
    assert_eq!(made.shape(), Shape { cpu: "2".parse().ok(), memory: "1Gi".parse().ok(), ..Shape::default() });
    assert_eq!(made.env, BTreeMap::from([("A".into(), "group".into()), ("B".into(), "worker".into())]));
    assert_eq!((made.image.as_deref(), made.args.as_slice()), (Some("all"), &["--x".to_owned()][..]));
}

#[test]
fn a_variable_has_one_value_whether_it_is_given_or_in_another_object() {
    let secret = json!({"kind": "secret", "name": "s", "key": "k"});
    let recipe = recipe(&json!({
        "worker": {"env": {"A": "all"}, "pod": {"env_from": {"B": secret, "C": secret}}},
    }))
    .unwrap();
    let own = json!({"env": {"B": "own"}, "pod": {"env_from": {"A": secret}}});
    let made = recipe.workers(Some(&group(Shape::default(), NodeRecipe::deserialize(own).unwrap())));
    assert_eq!(made.env, BTreeMap::from([("B".into(), "own".into())]));
    assert_eq!(made.pod.env_from.keys().collect::<Vec<_>>(), ["A", "C"]);
}

#[test]
fn a_head_takes_nothing_from_workers() {
    let recipe = recipe(&json!({"image": "all", "head": {"image": "own"}, "worker": {"cpu": 3}})).unwrap();
    assert_eq!(recipe.head(), NodeRecipe { image: Some("own".into()), ..NodeRecipe::default() });
}

#[test]
fn stored_properties_of_a_newer_version_are_passed_over() {
    let newer = json!({"image": "all", "colour": 1, "head": {"image": "own", "pod": {"colour": 2}}});
    let known = json!({"image": "all", "head": {"image": "own"}});
    assert_eq!(recipe(&newer), recipe(&known));
}

#[test]
fn what_a_newer_version_keeps_with_a_group_stays() {
    let mut group = group(Shape::default(), NodeRecipe::default());
    let own = json!({"image": "old", "colour": 1, "pod": {"labels": {"a": "b"}, "shade": 2}});
    group.spec.insert(NODE.to_owned(), own);
    let kept = NodeRecipe::stored_in(&group);
    assert_eq!((kept.image.as_deref(), kept.pod.labels.len()), (Some("old"), 1));
    NodeRecipe { image: Some("new".to_owned()), ..kept }.store_in(&mut group);
    let expected = json!({"image": "new", "colour": 1, "pod": {"labels": {"a": "b"}, "shade": 2}});
    assert_eq!(group.spec[NODE], expected);
    NodeRecipe::default().store_in(&mut group);
    assert_eq!(group.spec[NODE], json!({"colour": 1, "pod": {"shade": 2}}));
}

#[test]
fn a_shape_reaches_nodes_whole() {
    let shape = json!({
        "cpu": "2", "limits": {"cpu": "4"}, "gpu": 1, "gpu_resource": "amd.com/gpu",
        "extended_resources": {"vpc.amazonaws.com/efa": 1},
        "tolerations": [{"key": "k", "operator": "Exists"}], "selectors": {"zone": "a"},
    });
    let recipe = recipe(&json!({"head": shape, "worker": {"memory": "1Gi"}})).unwrap();
    assert_eq!(serde_json::to_value(recipe.head().shape()).unwrap(), shape);
    let stored = group(Shape::deserialize(&shape).unwrap(), NodeRecipe::default());
    let mut expected = shape;
    expected["memory"] = "1Gi".into();
    assert_eq!(serde_json::to_value(recipe.workers(Some(&stored)).shape()).unwrap(), expected);
}

#[test]
fn what_only_spark_has_is_refused_for_others() {
    let recipe = recipe(&json!({"spark": {"metrics": "jolokia", "expose_ui": false}})).unwrap();
    assert_eq!(recipe.check_framework(Framework::Spark), Ok(()));
    let refusal = "spark is for Spark alone, and this cluster runs dask: leave it out";
    assert_eq!(recipe.check_framework(Framework::Dask), Err(refusal.to_owned()));
    assert_eq!(ClusterRecipe::default().check_framework(Framework::Dask), Ok(()));
}

#[rstest]
#[case(json!({"worker": {"pod": {"labels": {"muster.dev/node": "x"}}}}), Some("label of the workers' pods"))]
#[case(json!({"head": {"pod": {"annotations": {"a.muster.dev/b": "x"}}}}), Some("annotation of the head's pod"))]
#[case(json!({"service_annotations": {"muster.dev/b": "x"}}), Some("annotation of the head's Service"))]
#[case(json!({"worker": {"pod": {"labels": {"team/muster.dev": "x"}}}}), None)]
fn keys_that_only_muster_writes_are_refused(#[case] given: Value, #[case] refused: Option<&str>) {
    let why = ClusterRecipe::from_request(given.as_object().unwrap()).err();
    assert_eq!(why.is_some(), refused.is_some(), "{why:?}");
    assert!(why.unwrap_or_default().contains(refused.unwrap_or_default()));
}

#[test]
fn what_is_not_known_is_named() {
    let asked = |properties: Value| ClusterRecipe::from_request(properties.as_object().unwrap());
    let nested = asked(json!({"head": {"limits": {"cpu": "1", "colour": "1"}}})).unwrap_err();
    assert_eq!(nested, "unknown property 'head.limits.colour'");
    let nested = asked(json!({"worker": {"tolerations": [{"kez": "1"}]}})).unwrap_err();
    assert_eq!(nested, "unknown property 'worker.tolerations.0.kez'");
    let why = asked(json!({"wrker": {}})).unwrap_err();
    assert!(why.contains("unknown field `wrker`, expected one of `provider`"), "{why}");
    assert!(recipe(&json!({"head": {"cpu": "much"}})).unwrap_err().contains("much"));
}

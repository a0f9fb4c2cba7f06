use muster_core::cluster::Cluster;
use muster_core::recipe::ClusterRecipe;
use muster_core::sample;
use rstest::rstest;
use serde_json::json;

use super::super::flavor::Deed;
use super::*;

/// As Domino makes one and its operator leaves it, but for most of it.
fn object(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "metadata": {
            "name": "ray-68d3e28f",
            "labels": {"dominodatalab.com/starting-user-id": "60faf443e43b3c7a6f5f5eea"},
        },
        "spec": {
            "image": {"repository": "rayproject/ray", "tag": "2.36.0"},
            "autoscaling": {"minReplicas": 2, "maxReplicas": 5, "averageCPUUtilization": 80},
            "head": {"resources": {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"cpu": "2"}}},
            "worker": {"replicas": 3, "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}},
        },
        "status": {"clusterStatus": "Running", "nodes": ["ray-68d3e28f-ray-head-0"], "workerReplicas": 3},
    });
    change(&mut object);
    object
}

fn words(change: impl FnOnce(&mut Value)) -> Words {
    RAY.read(&RAY_CLUSTER, &object(change)).expect("a cluster")
}

fn as_it_is(_: &mut Value) {}

/// How many there shall be, between which bounds, and where an autoscaler stops.
type Numbers = (u32, Option<(u32, Option<u32>)>, Option<u32>);

#[test]
fn an_object_says_how_many_and_from_what() {
    let words = words(as_it_is);
    assert_eq!((words.cluster.as_str(), words.noticed, words.refused.len()), ("ray-68d3e28f", true, 0));
    let group = &words.groups[0];
    assert_eq!((group.name.as_str(), group.desired), ("default", 3));
    assert_eq!((group.bounds, group.floor), (Some((0, Some(5))), Some(2)));
    // As the image stands in pods.
    assert_eq!(group.made_from.image, "docker.io/rayproject/ray:2.36.0");
    assert_eq!(words.head.shape.cpu, "2".parse().ok());
    assert_eq!(words.autoscaler, None);
}

#[rstest]
#[case::no_autoscaler(json!({"autoscaling": null}), Some((3, None, None)))]
#[case::no_least(json!({"autoscaling": {"maxReplicas": 5}}), Some((3, Some((0, Some(5))), None)))]
#[case::no_number(json!({"worker": {"resources": {}}}), Some((1, Some((0, Some(5))), Some(2))))]
#[case::only_the_least(json!({"worker": null}), Some((2, Some((0, Some(5))), Some(2))))]
#[case::no_workers(json!({"worker": null, "autoscaling": null}), None)]
fn what_is_not_said_is_not_made_up(#[case] spec: Value, #[case] group: Option<Numbers>) {
    let words = words(|object| {
        for (key, value) in spec.as_object().expect("a map") {
            object["spec"][key] = value.clone();
        }
    });
    assert_eq!(words.groups.first().map(|group| (group.desired, group.bounds, group.floor)), group);
}

#[rstest]
#[case::cpu("head", json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}), Some("head has a lower limit of cpu"))]
#[case::memory("worker", json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}}), Some("worker has a lower limit of memory"))]
#[case::gpu("worker", json!({"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": "1"}}), Some("worker has a lower limit of nvidia.com/gpu"))]
#[case::fine("worker", json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}), None)]
fn what_its_operator_passes_over_in_silence_is_told(
    #[case] node: &str,
    #[case] resources: Value,
    #[case] begins: Option<&str>,
) {
    let words = words(|object| object["spec"][node]["resources"] = resources);
    match begins {
        None => assert_eq!(words.refused, Vec::<String>::new()),
        Some(begins) => assert!(words.refused[0].starts_with(begins), "{:?}", words.refused),
    }
}

fn resized(words: &Words, change: Resize<'_>) -> Result<Value, String> {
    let steps = RAY.resize("ray-68d3e28f", &[words], &[change])?;
    let [Step { kind, name, deed: Deed::Overlay(body) }] = steps.as_slice() else {
        panic!("one merge patch: {steps:?}")
    };
    assert_eq!((*kind, name.as_str()), (&RAY_CLUSTER, "ray-68d3e28f"));
    Ok(body.clone())
}

fn to(desired: u32) -> Resize<'static> {
    Resize { group: "default", desired: Some(desired), bounds: None, victims: &[] }
}

#[rstest]
#[case::more(4, json!({"worker": {"replicas": 4}, "autoscaling": {"minReplicas": 4}}))]
#[case::fewer(1, json!({"worker": {"replicas": 1}, "autoscaling": {"minReplicas": 1}}))]
#[case::none(0, json!({"worker": {"replicas": 0}, "autoscaling": {"minReplicas": 1}}))]
fn the_autoscaler_stops_where_the_size_is(#[case] desired: u32, #[case] spec: Value) {
    assert_eq!(resized(&words(as_it_is), to(desired)), Ok(json!({"spec": spec})));
}

#[rstest]
#[case::at_the_size(json!({"minReplicas": 3, "maxReplicas": 5}), 3, false)]
#[case::below_the_size(json!({"minReplicas": 2, "maxReplicas": 5}), 3, true)]
#[case::no_least(json!({"maxReplicas": 5}), 3, true)]
#[case::none_of_none(json!({"maxReplicas": 5}), 0, false)]
#[case::one_of_none(json!({"minReplicas": 1, "maxReplicas": 5}), 0, false)]
#[case::no_autoscaler(json!(null), 3, false)]
fn an_autoscaler_that_may_go_below_the_size_is_noticed(
    #[case] autoscaling: Value,
    #[case] size: u32,
    #[case] differs: bool,
) {
    let words = words(|object| {
        object["spec"]["autoscaling"] = autoscaling;
        object["spec"]["worker"]["replicas"] = size.into();
    });
    assert_eq!(words.groups[0].floor_differs, differs);
}

#[test]
fn without_workers_only_the_least_number_is_written() {
    let words = words(|object| object["spec"]["worker"] = json!(null));
    assert_eq!(resized(&words, to(4)), Ok(json!({"spec": {"autoscaling": {"minReplicas": 4}}})));
}

#[test]
fn what_is_not_there_is_not_made() {
    let alone = words(|object| object["spec"]["autoscaling"] = json!(null));
    assert_eq!(resized(&alone, to(4)), Ok(json!({"spec": {"worker": {"replicas": 4}}})));
    let bounds = Resize { desired: None, bounds: Some((2, Some(9))), ..to(0) };
    assert_eq!(resized(&alone, bounds), Ok(json!({})));
    let no_least = words(|object| object["spec"]["autoscaling"] = json!({"maxReplicas": 5}));
    assert_eq!(resized(&no_least, to(0)), Ok(json!({"spec": {"worker": {"replicas": 0}}})));
}

#[rstest]
#[case::a_largest((0, Some(9)), Ok(json!({"spec": {"autoscaling": {"maxReplicas": 9}}})))]
#[case::a_least((2, Some(9)), Err("2 as the least size is not possible"))]
#[case::no_largest((0, None), Err("a Domino cluster with an autoscaler needs a largest size"))]
fn of_bounds_only_the_upper_one_can_be_written(
    #[case] bounds: (u32, Option<u32>),
    #[case] written: Result<Value, &str>,
) {
    let change = Resize { desired: None, bounds: Some(bounds), ..to(0) };
    match (resized(&words(as_it_is), change), written) {
        (Ok(body), Ok(wanted)) => assert_eq!(body, wanted),
        (Err(why), Err(begins)) => assert!(why.starts_with(begins), "{why}"),
        (written, wanted) => panic!("{written:?}, and not {wanted:?}"),
    }
}

fn cluster() -> Cluster {
    let mut cluster = sample::cluster(3, 0, Some(5));
    cluster.object_name = "ray-68d3e28f".to_owned();
    cluster.namespace = "domino-compute".to_owned();
    cluster
}

fn remade(properties: &Value, words: &Words) -> Result<Value, String> {
    changed(properties, properties, words)
}

/// What is written when a recipe becomes another.
fn changed(before: &Value, after: &Value, words: &Words) -> Result<Value, String> {
    let read =
        |recipe: &Value| ClusterRecipe::from_stored(recipe.as_object().expect("a map")).expect("a recipe");
    let (before, after, cluster) = (read(before), read(after), cluster());
    let plan = |recipe| Plan { cluster: &cluster, recipe };
    let steps = RAY.remake(plan(&before), plan(&after), &[words])?;
    let [Step { deed: Deed::Overlay(body), .. }] = steps.as_slice() else {
        panic!("one merge patch: {steps:?}")
    };
    Ok(body.clone())
}

#[test]
fn only_what_becomes_another_is_written_and_no_limit_is_left_below_its_request() {
    let as_now = json!({"image": "rayproject/ray:2.36.0", "head": {"cpu": "2"}, "worker": {"cpu": "1", "memory": "4Gi"}});
    assert_eq!(remade(&as_now, &words(as_it_is)), Ok(json!({})));
    let larger = json!({"head": {"cpu": "2"}, "worker": {"cpu": "2", "memory": "8Gi", "gpu": 1}});
    let resources = json!({
        "requests": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": null, "memory": "8Gi", "nvidia.com/gpu": "1"},
    });
    assert_eq!(remade(&larger, &words(as_it_is)), Ok(json!({"spec": {"worker": {"resources": resources}}})));
}

#[test]
fn a_tier_replaces_all_that_the_one_before_gave() {
    let of_another_tier = words(|object| {
        object["spec"]["worker"] = json!({
            "replicas": 3,
            "labels": {"dominodatalab.com/hardware-tier-id": "gpu"},
            "nodeSelector": {"dominodatalab.com/node-pool": "gpus"},
            "resources": {
                "requests": {"cpu": "2", "memory": "4Gi", "amd.com/gpu": 1},
                "limits": {"cpu": "4", "memory": "4Gi", "amd.com/gpu": 1},
            },
        });
    });
    let tier = json!({"worker": {
        "cpu": "2", "memory": "4Gi", "limits": {"memory": "8Gi"},
        "pod": {"labels": {"dominodatalab.com/hardware-tier-id": "small"}},
    }});
    let written = json!({
        "labels": {"dominodatalab.com/hardware-tier-id": "small"},
        "nodeSelector": {"dominodatalab.com/node-pool": null},
        "resources": {
            "requests": {"cpu": "2", "memory": "4Gi", "amd.com/gpu": null},
            "limits": {"cpu": null, "memory": "8Gi", "amd.com/gpu": null},
        },
    });
    assert_eq!(changed(&json!({}), &tier, &of_another_tier), Ok(json!({"spec": {"worker": written}})));
    let of_this_tier = words(|object| {
        object["spec"]["worker"]["resources"]["requests"] = json!({"cpu": "2", "memory": "4Gi"});
    });
    assert_eq!(changed(&tier, &tier, &of_this_tier), Ok(json!({})), "the same tier again is no change");
}

#[test]
fn accelerators_that_are_not_wanted_any_more_are_given_back() {
    let words = words(|object| {
        object["spec"]["worker"]["resources"]["limits"] = json!({"nvidia.com/gpu": 1});
    });
    let body = remade(&json!({"worker": {"cpu": "1", "memory": "4Gi"}}), &words).expect("it is possible");
    let resources = &body["spec"]["worker"]["resources"];
    assert_eq!(resources["limits"], json!({"cpu": null, "memory": "4Gi", "nvidia.com/gpu": null}));
    assert_eq!(resources["requests"]["nvidia.com/gpu"], json!(null));
}

#[rstest]
#[case("mine/ray:2", json!({"registry": null, "repository": "mine/ray", "tag": "2"}))]
#[case("quay.io:8443/mine/ray:2", json!({"registry": "quay.io:8443", "repository": "mine/ray", "tag": "2"}))]
fn another_image_is_written_in_parts(#[case] image: &str, #[case] parts: Value) {
    let body = remade(&json!({"image": image}), &words(as_it_is));
    assert_eq!(body, Ok(json!({"spec": {"image": parts}})));
}

#[rstest]
#[case::digest(json!({"image": "mine/ray@sha256:12ab"}), "image 'mine/ray@sha256:12ab' is not possible")]
#[case::two_images(json!({"head": {"image": "a:1"}, "worker": {"image": "b:1"}}), "all of a Domino cluster has one image")]
#[case::variables(json!({"worker": {"env": {"A": "1"}}}), "variables and arguments of a Domino cluster are Domino's")]
fn what_domino_has_no_word_for_is_refused(#[case] properties: Value, #[case] begins: &str) {
    let why = remade(&properties, &words(as_it_is)).expect_err("it is refused");
    assert!(why.starts_with(begins), "{why}");
}

#[rstest]
#[case("ray", "docker.io/library/ray:latest")]
#[case("rayproject/ray:2.36.0", "docker.io/rayproject/ray:2.36.0")]
#[case("localhost/ray:1", "localhost/ray:1")]
#[case("quay.io/ray@sha256:12ab", "quay.io/ray@sha256:12ab")]
fn images_are_compared_by_their_full_names(#[case] image: &str, #[case] full: &str) {
    assert_eq!(image::in_full(image), full);
}

#[rstest]
#[case(&RAY, "head", "ray://x-ray-client.demo.svc:10001", "RAY_ADDRESS")]
#[case(&DASK, "scheduler", "tcp://x-dask-scheduler.demo.svc:8786", "DASK_SCHEDULER_ADDRESS")]
#[case(&SPARK, "master", "spark://x-spark-master.demo.svc:7077", "SPARK_MASTER")]
fn each_framework_has_its_own_words(
    #[case] flavor: &Domino,
    #[case] head: &str,
    #[case] address: &str,
    #[case] variable: &str,
) {
    let member = |component: &str| {
        let labels = [("app.kubernetes.io/instance", "x"), ("app.kubernetes.io/component", component)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        flavor.member(&labels).map(|member| (member.role, member.group, member.keeps_name))
    };
    assert_eq!(member(head), Some((NodeRole::Head, None, true)));
    assert_eq!(member("worker"), Some((NodeRole::Worker, Some("default".to_owned()), true)));
    assert_eq!(member("none"), None);
    let name = format!("app.kubernetes.io/name={}", flavor.framework());
    assert!(flavor.pods().ends_with(&name), "{}", flavor.pods());
    let variables = flavor.environment(&flavor.endpoints("demo", "x"), None);
    assert_eq!(variables.get(variable).map(String::as_str), Some(address));
}

#[test]
fn a_cluster_belongs_to_whom_domino_started_it_for() {
    let labels = [(STARTED_BY.to_owned(), "60faf443".to_owned())].into();
    let owner = RAY.owner(&labels);
    assert_eq!((owner.scheme.as_str(), owner.id.as_str()), ("domino", "60faf443"));
    assert_eq!(RAY.owner(&BTreeMap::new()), Owner::default());
}

#[test]
fn new_ones_come_from_domino() {
    let (cluster, recipe) = (cluster(), ClusterRecipe::default());
    let why = SPARK.manifests(Plan { cluster: &cluster, recipe: &recipe }).expect_err("it is refused");
    assert_eq!(why, "clusters of flavor domino are created by Domino: start one there, and it is found here");
}

use muster_core::cluster::Cluster;
use muster_core::recipe::ClusterRecipe;
use muster_core::sample;
use rstest::rstest;
use serde_json::json;

use super::super::flavor::WriteOperation;
use super::*;

/// An object as Domino creates it and its operator leaves it, reduced to a few fields.
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

fn parse(change: impl FnOnce(&mut Value)) -> ObjectProjection {
    RAY.read_object(&RAY_CLUSTER, &object(change)).expect("a cluster")
}

fn as_it_is(_: &mut Value) {}

/// The desired size, its bounds, and the autoscaler's floor.
type Numbers = (u32, Option<(u32, Option<u32>)>, Option<u32>);

#[test]
fn an_object_has_the_size_and_template_of_its_workers() {
    let projection = parse(as_it_is);
    assert_eq!(
        (projection.cluster.as_str(), projection.acknowledged, projection.rejections.len()),
        ("ray-68d3e28f", true, 0)
    );
    let group = &projection.groups[0];
    assert_eq!((group.name.as_str(), group.desired), ("default", 3));
    assert_eq!((group.bounds, group.floor), (Some((0, Some(5))), Some(2)));
    // The image has the full name that pods have.
    assert_eq!(group.template.image, "docker.io/rayproject/ray:2.36.0");
    assert_eq!(projection.head.shape.cpu, "2".parse().ok());
    assert_eq!(projection.autoscaler, None);
}

#[rstest]
#[case::no_autoscaler(json!({"autoscaling": null}), Some((3, None, None)))]
#[case::no_least(json!({"autoscaling": {"maxReplicas": 5}}), Some((3, Some((0, Some(5))), None)))]
#[case::no_number(json!({"worker": {"resources": {}}}), Some((1, Some((0, Some(5))), Some(2))))]
#[case::only_the_least(json!({"worker": null}), Some((2, Some((0, Some(5))), Some(2))))]
#[case::beyond_32_bits(json!({"autoscaling": {"maxReplicas": 5_000_000_000_u64}}), Some((3, Some((0, Some(u32::MAX))), None)))]
#[case::beyond_64_bits(json!({"autoscaling": {"maxReplicas": 1e19}}), Some((3, Some((0, Some(u32::MAX))), None)))]
#[case::with_a_point(json!({"autoscaling": {"maxReplicas": 5.0}}), Some((3, Some((0, Some(5))), None)))]
#[case::no_workers(json!({"worker": null, "autoscaling": null}), None)]
fn missing_fields_have_defaults_or_are_none(#[case] spec: Value, #[case] group: Option<Numbers>) {
    let projection = parse(|object| {
        for (key, value) in spec.as_object().expect("a map") {
            object["spec"][key] = value.clone();
        }
    });
    assert_eq!(projection.groups.first().map(|group| (group.desired, group.bounds, group.floor)), group);
}

#[rstest]
#[case::cpu("head", json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}), Some("head has a lower limit of cpu"))]
#[case::memory("worker", json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}}), Some("worker has a lower limit of memory"))]
#[case::gpu("worker", json!({"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": "1"}}), Some("worker has a lower limit of nvidia.com/gpu"))]
#[case::fine("worker", json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m"}}), None)]
fn an_object_that_the_operator_silently_ignores_is_rejected(
    #[case] node: &str,
    #[case] resources: Value,
    #[case] begins: Option<&str>,
) {
    let projection = parse(|object| object["spec"][node]["resources"] = resources);
    match begins {
        None => assert_eq!(projection.rejections, Vec::<String>::new()),
        Some(begins) => assert!(projection.rejections[0].starts_with(begins), "{:?}", projection.rejections),
    }
}

fn resized(projection: &ObjectProjection, change: GroupResize<'_>) -> Result<Value, String> {
    let steps = RAY.resize_groups("ray-68d3e28f", &[projection], &[change])?;
    let [ObjectWrite { kind, name, operation: WriteOperation::GuardedMerge(body) }] = steps.as_slice() else {
        panic!("one merge patch: {steps:?}")
    };
    assert_eq!((*kind, name.as_str()), (&RAY_CLUSTER, "ray-68d3e28f"));
    Ok(body.clone())
}

fn to(desired: u32) -> GroupResize<'static> {
    GroupResize { group: "default", desired: Some(desired), bounds: None, victims: &[] }
}

#[rstest]
#[case::more(4, json!({"worker": {"replicas": 4}, "autoscaling": {"minReplicas": 4}}))]
#[case::fewer(1, json!({"worker": {"replicas": 1}, "autoscaling": {"minReplicas": 1}}))]
#[case::none(0, json!({"worker": {"replicas": 0}, "autoscaling": {"minReplicas": 1}}))]
fn a_resize_moves_the_autoscalers_floor(#[case] desired: u32, #[case] spec: Value) {
    assert_eq!(resized(&parse(as_it_is), to(desired)), Ok(json!({"spec": spec})));
}

#[rstest]
#[case::at_the_size(json!({"minReplicas": 3, "maxReplicas": 5}), 3, false)]
#[case::below_the_size(json!({"minReplicas": 2, "maxReplicas": 5}), 3, true)]
#[case::no_least(json!({"maxReplicas": 5}), 3, true)]
#[case::none_of_none(json!({"maxReplicas": 5}), 0, false)]
#[case::one_of_none(json!({"minReplicas": 1, "maxReplicas": 5}), 0, false)]
#[case::no_autoscaler(json!(null), 3, false)]
fn a_floor_below_the_size_is_detected(#[case] autoscaling: Value, #[case] size: u32, #[case] differs: bool) {
    let projection = parse(|object| {
        object["spec"]["autoscaling"] = autoscaling;
        object["spec"]["worker"]["replicas"] = size.into();
    });
    assert_eq!(projection.groups[0].floor_differs, differs);
}

#[test]
fn without_workers_only_the_floor_is_written() {
    let projection = parse(|object| object["spec"]["worker"] = json!(null));
    assert_eq!(resized(&projection, to(4)), Ok(json!({"spec": {"autoscaling": {"minReplicas": 4}}})));
}

#[test]
fn missing_parts_are_not_added() {
    let alone = parse(|object| object["spec"]["autoscaling"] = json!(null));
    assert_eq!(resized(&alone, to(4)), Ok(json!({"spec": {"worker": {"replicas": 4}}})));
    let bounds = GroupResize { desired: None, bounds: Some((2, Some(9))), ..to(0) };
    assert_eq!(resized(&alone, bounds), Ok(json!({})));
    let no_least = parse(|object| object["spec"]["autoscaling"] = json!({"maxReplicas": 5}));
    assert_eq!(resized(&no_least, to(0)), Ok(json!({"spec": {"worker": {"replicas": 0}}})));
}

#[rstest]
#[case::a_largest((0, Some(9)), Ok(json!({"spec": {"autoscaling": {"maxReplicas": 9}}})))]
#[case::a_least((2, Some(9)), Err("2 as the least size is not possible"))]
#[case::no_largest((0, None), Err("a Domino cluster with an autoscaler needs a largest size"))]
fn only_the_upper_bound_can_be_written(
    #[case] bounds: (u32, Option<u32>),
    #[case] written: Result<Value, &str>,
) {
    let change = GroupResize { desired: None, bounds: Some(bounds), ..to(0) };
    match (resized(&parse(as_it_is), change), written) {
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

fn remade(properties: &Value, projection: &ObjectProjection) -> Result<Value, String> {
    changed(&json!({}), properties, projection)
}

/// The patch of a changed recipe.
fn changed(before: &Value, after: &Value, projection: &ObjectProjection) -> Result<Value, String> {
    let read =
        |recipe: &Value| ClusterRecipe::from_stored(recipe.as_object().expect("a map")).expect("a recipe");
    let (before, after, cluster) = (read(before), read(after), cluster());
    let plan = |recipe| DesiredCluster { cluster: &cluster, recipe };
    let steps = RAY.change_recipe(plan(&before), plan(&after), &[projection])?;
    let [ObjectWrite { operation: WriteOperation::GuardedMerge(body), .. }] = steps.as_slice() else {
        panic!("one merge patch: {steps:?}")
    };
    Ok(body.clone())
}

#[test]
fn only_differences_are_written_and_no_limit_stays_below_its_request() {
    let as_now = json!({"image": "rayproject/ray:2.36.0", "head": {"cpu": "2"}, "worker": {"cpu": "1", "memory": "4Gi"}});
    assert_eq!(remade(&json!({"image": "rayproject/ray:2.36.0"}), &parse(as_it_is)), Ok(json!({})));
    assert_eq!(changed(&as_now, &as_now, &parse(as_it_is)), Ok(json!({})));
    let larger = json!({"head": {"cpu": "2"}, "worker": {"cpu": "2", "memory": "8Gi", "gpu": 1}});
    let resources = json!({
        "requests": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": null, "memory": "8Gi", "nvidia.com/gpu": "1"},
    });
    assert_eq!(
        changed(&as_now, &larger, &parse(as_it_is)),
        Ok(json!({"spec": {"worker": {"resources": resources}}}))
    );
}

#[test]
fn nodes_that_an_update_does_not_name_keep_what_others_changed() {
    let before = json!({"head": {"cpu": "1", "memory": "4Gi"}, "worker": {"cpu": "1", "memory": "4Gi"}});
    let mut after = before.clone();
    after["worker"]["cpu"] = json!("2");
    let body = changed(&before, &after, &parse(as_it_is)).expect("it is possible");
    let parts: Vec<&String> = body["spec"].as_object().expect("a map").keys().collect();
    assert_eq!(parts, ["worker"], "the head's limit of cpu and its image were changed by others");
}

#[test]
fn accelerators_that_are_not_requested_any_more_are_removed() {
    let projection = parse(|object| {
        object["spec"]["worker"]["resources"]["limits"] = json!({"nvidia.com/gpu": 1});
    });
    let body =
        remade(&json!({"worker": {"cpu": "1", "memory": "4Gi"}}), &projection).expect("it is possible");
    let resources = &body["spec"]["worker"]["resources"];
    assert_eq!(resources["limits"], json!({"cpu": null, "memory": "4Gi", "nvidia.com/gpu": null}));
    assert_eq!(resources["requests"]["nvidia.com/gpu"], json!(null));
}

#[rstest]
#[case("mine/ray:2", json!({"registry": null, "repository": "mine/ray", "tag": "2"}))]
#[case("quay.io:8443/mine/ray:2", json!({"registry": "quay.io:8443", "repository": "mine/ray", "tag": "2"}))]
fn another_image_is_written_in_parts(#[case] image: &str, #[case] parts: Value) {
    let body = remade(&json!({"image": image}), &parse(as_it_is));
    assert_eq!(body, Ok(json!({"spec": {"image": parts}})));
}

#[rstest]
#[case::digest(json!({"image": "mine/ray@sha256:12ab"}), "image 'mine/ray@sha256:12ab' is not possible")]
#[case::two_images(json!({"head": {"image": "a:1"}, "worker": {"image": "b:1"}}), "all nodes of a Domino cluster have one image")]
#[case::variables(json!({"worker": {"env": {"A": "1"}}}), "variables and arguments of a Domino cluster are Domino's")]
fn settings_without_a_field_in_dominos_objects_are_refused(#[case] properties: Value, #[case] begins: &str) {
    let why = remade(&properties, &parse(as_it_is)).expect_err("it is refused");
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
fn each_framework_has_its_own_labels_and_addresses(
    #[case] flavor: &DominoFlavor,
    #[case] head: &str,
    #[case] address: &str,
    #[case] variable: &str,
) {
    let member = |component: &str| {
        let labels = [("app.kubernetes.io/instance", "x"), ("app.kubernetes.io/component", component)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        flavor.read_member(&labels).map(|member| (member.role, member.group, member.keeps_name))
    };
    assert_eq!(member(head), Some((NodeRole::Head, None, true)));
    assert_eq!(member("worker"), Some((NodeRole::Worker, Some("default".to_owned()), true)));
    assert_eq!(member("none"), None);
    let name = format!("app.kubernetes.io/name={}", flavor.framework());
    assert!(flavor.pod_selector().ends_with(&name), "{}", flavor.pod_selector());
    let variables = flavor.client_environment(&flavor.endpoints("demo", "x"), None);
    assert_eq!(variables.get(variable).map(String::as_str), Some(address));
}

#[test]
fn a_cluster_is_owned_by_the_user_who_started_it_in_domino() {
    let labels = [(STARTED_BY.to_owned(), "60faf443".to_owned())].into();
    let owner = RAY.owner(&labels);
    assert_eq!((owner.scheme.as_str(), owner.id.as_str()), ("domino", "60faf443"));
    assert_eq!(RAY.owner(&BTreeMap::new()), Owner::default());
}

#[test]
fn clusters_are_created_by_domino_only() {
    let (cluster, recipe) = (cluster(), ClusterRecipe::default());
    let why =
        SPARK.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect_err("it is refused");
    assert_eq!(
        why,
        "clusters of flavor domino are created by Domino: start one there, and Muster will discover it"
    );
}

mod tiers;

use muster_core::cluster::Cluster;
use rstest::rstest;

use super::super::flavor::Victim;
use super::super::sample::{self, recipe};
use super::*;

fn cluster() -> Cluster {
    let mut cluster = sample::cluster(2, 1, Some(5));
    cluster.user = "3cpo@example.org".to_owned();
    cluster.groups[0].name = "small".to_owned();
    cluster
}

fn made(properties: &Value) -> Value {
    let (cluster, recipe) = (cluster(), recipe(properties));
    let manifests =
        KubeRay.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect("it can be made");
    manifests.into_iter().next().expect("a root").body
}

#[test]
fn a_new_cluster_is_as_kuberays_api_server_creates_it() {
    let made = made(&json!({
        "version": "2.46.0",
        "head": {"cpu": "2", "memory": "4Gi", "env": {"A": "1"}},
        "worker": {"cpu": "2", "memory": "4Gi", "gpu": 1},
    }));
    assert_eq!((&made["apiVersion"], &made["kind"]), (&json!("ray.io/v1"), &json!("RayCluster")));
    let labels = json!({
        "app.kubernetes.io/managed-by": "kuberay-apiserver", "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster-name": "fred", "ray.io/environment": "DEV", "ray.io/user": "3cpo-example.org",
        "ray.io/version": "2.46.0",
    });
    let raw = json!({
        "muster.dev/user": "3cpo@example.org",
        "ray.io/creation-timestamp": "1970-01-01 00:00:00.000001 +0000 UTC",
    });
    assert_eq!(
        made["metadata"],
        json!({"name": "fred", "namespace": "demo", "labels": labels, "annotations": raw})
    );
    let head = &made["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        *head,
        json!({
            "name": "ray-head", "image": "rayproject/ray:2.46.0", "imagePullPolicy": "IfNotPresent",
            "env": [
                {"name": "MY_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "A", "value": "1"},
            ],
            "ports": [
                {"name": "redis", "containerPort": 6379}, {"name": "head", "containerPort": 10001},
                {"name": "dashboard", "containerPort": 8265}, {"name": "metrics", "containerPort": 8080},
            ],
            "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "2", "memory": "4Gi"}},
        })
    );
    let group = &made["spec"]["workerGroupSpecs"][0];
    let numbers = [&group["groupName"], &group["replicas"], &group["minReplicas"], &group["maxReplicas"]];
    assert_eq!(numbers, [&json!("small"), &json!(2), &json!(1), &json!(5)]);
    let worker = &group["template"]["spec"]["containers"][0];
    assert_eq!(worker["resources"]["limits"]["nvidia.com/gpu"], "1");
    assert_eq!(worker["lifecycle"]["preStop"]["exec"]["command"], json!(["/bin/sh", "-c", "ray stop"]));
}

#[test]
fn pods_have_the_settings_of_their_group() {
    let made = made(&json!({
        "environment": "STAGING",
        "head": {"pod": {
            "service_type": "NodePort",
            "start_parameters": {"metrics-export-port": "8080", "dashboard-host": "127.0.0.1"},
            "annotations": {"a": "1"},
        }},
        "worker": {"shape": "large", "pod": {
            "labels": {"l": "2"},
            "service_account": "robot",
            "image_pull_secret": "key",
            "volumes": [{"name": "data", "path": "/data", "of": {"claim": "disk"}}],
        }},
    }));
    assert_eq!(made["metadata"]["labels"]["ray.io/environment"], "STAGING");
    let head = &made["spec"]["headGroupSpec"];
    assert_eq!(head["serviceType"], "NodePort");
    let parameters = json!({"metrics-export-port": "8080", "dashboard-host": "127.0.0.1"});
    assert_eq!(head["rayStartParams"], parameters);
    let annotations = json!({"a": "1", "ray.io/compute-image": ""});
    assert_eq!(head["template"]["metadata"], json!({"annotations": annotations}));
    let worker = &made["spec"]["workerGroupSpecs"][0]["template"];
    let annotations = json!({"ray.io/compute-image": "", "ray.io/compute-template": "large"});
    assert_eq!(worker["metadata"], json!({"annotations": annotations, "labels": {"l": "2"}}));
    let spec = &worker["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["imagePullSecrets"]),
        (&json!("robot"), &json!([{"name": "key"}]))
    );
    let claim = json!({"claimName": "disk", "readOnly": false});
    assert_eq!(spec["volumes"], json!([{"name": "data", "persistentVolumeClaim": claim}]));
    let mount = json!([{"name": "data", "mountPath": "/data", "readOnly": false}]);
    assert_eq!(spec["containers"][0]["volumeMounts"], mount);
}

#[rstest]
#[case::old(json!({"version": "2.46.0"}), json!(null))]
#[case::new(json!({"version": "2.52.1"}), json!({"mode": "token"}))]
#[case::image(json!({"image": "rayproject/ray:2.53.0-py312"}), json!({"mode": "token"}))]
#[case::own_image(json!({"image": "mine/ray:latest"}), json!(null))]
#[case::default(json!({}), json!({"mode": "token"}))]
#[case::without(json!({"version": "2.55.0", "token": false}), json!(null))]
#[case::required_of_an_old_version(json!({"version": "2.46.0", "token": true}), json!(null))]
fn a_token_is_required_where_ray_supports_tokens(#[case] properties: Value, #[case] options: Value) {
    assert_eq!(made(&properties)["spec"]["authOptions"], options);
}

#[rstest]
#[case::of_the_head(json!({"head": {"image": "rayproject/ray:2.46.0-py312"}}), json!("2.46.0"), json!(null))]
#[case::not_of_the_cluster(
    json!({"image": "rayproject/ray:2.53.0", "head": {"image": "rayproject/ray:2.46.0"}}), json!("2.46.0"), json!(null)
)]
#[case::of_a_head_that_supports_tokens(
    json!({"image": "mine/ray:latest", "head": {"image": "host:5000/ray:2.53.0-gpu@sha256:12ab"}}),
    json!("2.53.0"),
    json!({"mode": "token"})
)]
#[case::no_version(json!({"head": {"image": "mine/ray:latest"}}), json!(null), json!(null))]
#[case::a_port(json!({"head": {"image": "host:5000/ray"}}), json!(null), json!(null))]
#[case::a_digest(json!({"head": {"image": "ray@sha256:2.53.0"}}), json!(null), json!(null))]
#[case::a_date(json!({"head": {"image": "mine/ray:2026.11.19"}}), json!(null), json!(null))]
#[case::not_a_number(json!({"head": {"image": "mine/ray:2.53.final"}}), json!(null), json!(null))]
#[case::given(
    json!({"version": "2.55.0", "head": {"image": "mine/ray:latest"}}), json!("2.55.0"), json!({"mode": "token"})
)]
#[case::given_with_an_image_of_an_older_version(
    json!({"version": "2.55.0", "head": {"image": "rayproject/ray:2.46.0"}}), json!("2.55.0"), json!(null)
)]
fn the_version_is_that_of_the_image_of_the_head(
    #[case] properties: Value,
    #[case] version: Value,
    #[case] options: Value,
) {
    let spec = &made(&properties)["spec"];
    assert_eq!((&spec["rayVersion"], &spec["authOptions"]), (&version, &options));
}

/// The operations of an update on version and token, for an object with this version.
fn version_operations(observed: &str, before: &Value, after: &Value, is_external: bool) -> Value {
    let groups = json!([{"groupName": "small"}]);
    let object =
        json!({"metadata": {"name": "fred"}, "spec": {"rayVersion": observed, "workerGroupSpecs": groups}});
    let mut cluster = cluster();
    cluster.observed.object = is_external.then(|| cluster.id.to_string());
    let (before, after) = (recipe(before), recipe(after));
    let plan = |recipe| DesiredCluster { cluster: &cluster, recipe };
    let projection = project::project_object(&object);
    let steps = KubeRay.change_recipe(plan(&before), plan(&after), &[&projection]).expect("it is possible");
    let WriteOperation::JsonPatch(patch) = &steps[0].operation else { panic!("a patch: {steps:?}") };
    let is_of_version = |operation: &&Value| {
        let path = operation["path"].as_str().expect("a path");
        ["/spec/rayVersion", "/spec/authOptions", "/metadata/labels/ray.io~1version"].contains(&path)
    };
    patch.iter().filter(is_of_version).cloned().collect()
}

fn head_image(image: &str) -> Value {
    json!({"head": {"image": image}})
}

fn added(field: &str, value: &Value) -> Value {
    json!({"op": "add", "path": format!("/spec/{field}"), "value": value})
}

fn removed(field: &str) -> Value {
    json!({"op": "remove", "path": format!("/spec/{field}")})
}

fn label(version: &str) -> Value {
    json!({"op": "add", "path": "/metadata/labels/ray.io~1version", "value": version})
}

#[test]
fn an_update_of_the_heads_image_updates_version_and_token() {
    let (old, new) = (head_image("rayproject/ray:2.46.0"), head_image("rayproject/ray:2.53.0"));
    let own = head_image("mine/ray:latest");
    let (token, none) = (json!({"mode": "token"}), json!({}));
    let version = |version: &str| added("rayVersion", &json!(version));
    let cases = [
        (
            "2.46.0",
            &old,
            &new,
            false,
            json!([label("2.53.0"), version("2.53.0"), added("authOptions", &token)]),
        ),
        (
            "2.53.0",
            &new,
            &old,
            false,
            json!([label("2.46.0"), version("2.46.0"), added("authOptions", &none), removed("authOptions")]),
        ),
        (
            "2.53.0",
            &new,
            &own,
            false,
            json!([
                label(""),
                version(""),
                removed("rayVersion"),
                added("authOptions", &none),
                removed("authOptions")
            ]),
        ),
        ("", &own, &old, false, json!([label("2.46.0"), version("2.46.0")])),
        ("2.46.0", &old, &old, false, json!([])),
        // Others have written the token and the labels of an external cluster.
        ("2.46.0", &old, &new, true, json!([version("2.53.0")])),
        ("2.46.0", &old, &own, true, json!([])),
    ];
    for (observed, before, after, is_external, expected) in cases {
        let written = version_operations(observed, before, after, is_external);
        assert_eq!(written, expected, "{before} to {after}");
    }
}

#[test]
fn a_given_version_stays_until_an_update_of_the_image_has_another() {
    let of_image = |image: &str| json!({"version": "2.46.0", "head": {"image": image}});
    let old = of_image("mine/ray:first");
    assert_eq!(version_operations("2.46.0", &old, &of_image("mine/ray:second"), false), json!([]));
    let workers =
        json!({"version": "2.46.0", "head": {"image": "mine/ray:first"}, "worker": {"image": "x:2.53.0"}});
    assert_eq!(version_operations("2.46.0", &old, &workers, false), json!([]));
    let written = version_operations("2.46.0", &old, &of_image("rayproject/ray:2.47.1"), false);
    assert_eq!(written, json!([label("2.47.1"), added("rayVersion", &json!("2.47.1"))]));
}

#[test]
fn an_empty_version_is_stored_as_given_and_the_default_image_is_used() {
    let without = made(&json!({"version": "", "token": false}));
    assert_eq!((&without["spec"]["rayVersion"], &without["spec"]["authOptions"]), (&json!(""), &json!(null)));
    assert_eq!(without["metadata"]["labels"]["ray.io/version"], "");
    let image =
        |made: &Value| made["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&without), image(&made(&json!({}))));
}

#[test]
fn a_group_without_a_bound_is_written_and_read_without_one() {
    let (mut cluster, recipe) = (cluster(), recipe(&json!({})));
    cluster.groups[0].max = None;
    let mut made =
        KubeRay.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect("it can be made");
    let mut root = made.remove(0).body;
    assert_eq!(root["spec"]["workerGroupSpecs"][0]["maxReplicas"], json!(null));
    // The API server fills in this default.
    root["spec"]["workerGroupSpecs"][0]["maxReplicas"] = json!(i32::MAX);
    assert_eq!(project::project_object(&root).groups[0].bounds, Some((1, None)));
}

fn parse(group: &Value) -> ObjectProjection {
    project::project_object(&json!({"metadata": {"name": "fred"}, "spec": {"workerGroupSpecs": [{}, group]}}))
}

#[rstest]
#[case::plain(json!({"groupName": "g", "replicas": 3, "minReplicas": 1, "maxReplicas": 9}), 3, Some((1, Some(9))))]
#[case::no_numbers(json!({"groupName": "g"}), 0, Some((0, None)))]
#[case::below_zero_is_none(json!({"groupName": "g", "replicas": -1, "minReplicas": 2}), 2, Some((2, None)))]
#[case::kept_within_bounds(json!({"groupName": "g", "replicas": 9, "maxReplicas": 4}), 4, Some((0, Some(4))))]
#[case::several_hosts(json!({"groupName": "g", "replicas": 2, "maxReplicas": 3, "numOfHosts": 4}), 8, Some((0, Some(12))))]
#[case::suspended(json!({"groupName": "g", "replicas": 2, "suspend": true}), 0, Some((0, None)))]
fn a_group_is_read_as_the_operator_reads_it(
    #[case] group: Value,
    #[case] desired: u32,
    #[case] bounds: Option<(u32, Option<u32>)>,
) {
    let group = &parse(&group).groups[1];
    assert_eq!((group.index, group.desired, group.bounds), (1, desired, bounds));
}

#[test]
fn crossed_bounds_are_rejected_because_the_operator_ignores_them() {
    let refused = parse(&json!({"groupName": "g", "minReplicas": 3, "maxReplicas": 2})).rejections;
    assert!(refused[0].starts_with("group 'g' has more minReplicas than maxReplicas"), "{refused:?}");
}

#[test]
fn a_shrinking_group_names_its_victims_in_the_same_write() {
    let projection = parse(&json!({"groupName": "g", "replicas": 3}));
    let victims = [Victim { pod: "g-worker-abc".to_owned(), controller: None }];
    let change = GroupResize { group: "g", desired: Some(2), bounds: None, victims: &victims };
    let steps = KubeRay.resize_groups("fred", &[&projection], &[change]).expect("it is possible");
    let operations = json!([
        {"op": "test", "path": "/spec/workerGroupSpecs/1/groupName", "value": "g"},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/replicas", "value": 2},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/scaleStrategy", "value": {"workersToDelete": ["g-worker-abc"]}},
    ]);
    let [ObjectWrite { operation: WriteOperation::JsonPatch(patch), .. }] = steps.as_slice() else {
        panic!("one patch: {steps:?}")
    };
    assert_eq!(json!(patch), operations);
}

#[test]
fn names_of_victims_are_removed_afterwards() {
    let named = json!({"groupName": "g", "scaleStrategy": {"workersToDelete": ["x"]}});
    let steps = KubeRay.clean_up_resize("fred", &[&parse(&named)]);
    let [ObjectWrite { operation: WriteOperation::JsonPatch(patch), .. }] = steps.as_slice() else {
        panic!("one patch: {steps:?}")
    };
    assert_eq!(patch[1]["path"], "/spec/workerGroupSpecs/1/scaleStrategy/workersToDelete");
    assert_eq!(KubeRay.clean_up_resize("fred", &[&parse(&json!({"groupName": "g"}))]), []);
}

#[test]
fn a_group_of_several_hosts_is_resized_by_all_of_them() {
    let projection = parse(&json!({"groupName": "g", "replicas": 1, "numOfHosts": 4}));
    let change = |desired| GroupResize { group: "g", desired: Some(desired), bounds: None, victims: &[] };
    let why = KubeRay.resize_groups("fred", &[&projection], &[change(6)]).expect_err("it is not");
    assert_eq!(why, "group 'g' grows and shrinks by 4 at once: 6 is not possible");
    assert!(KubeRay.resize_groups("fred", &[&projection], &[change(8)]).is_ok());
}

#[test]
fn pods_are_members_by_their_labels() {
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let worker =
        labels(&[("ray.io/cluster", "fred"), ("ray.io/node-type", "worker"), ("ray.io/group", "small")]);
    let member = KubeRay.read_member(&worker).expect("a member");
    assert_eq!((member.role, member.group.as_deref()), (NodeRole::Worker, Some("small")));
    let job = labels(&[("ray.io/cluster", "fred"), ("ray.io/node-type", "redis-cleanup")]);
    assert_eq!(KubeRay.read_member(&job), None);
}

#[test]
fn only_differences_of_a_recipe_are_written() {
    let projection = parse(&json!({"groupName": "small", "replicas": 3}));
    let old = recipe(&json!({"worker": {"args": ["--num-gpus=0", "--block"]}}));
    let new = recipe(&json!({"worker": {"image": "mine:2", "args": ["--num-cpus=2", "--block"]}}));
    let cluster = cluster();
    let plan = |recipe| DesiredCluster { cluster: &cluster, recipe };
    let steps = KubeRay.change_recipe(plan(&old), plan(&new), &[&projection]).expect("it is possible");
    let [
        ObjectWrite { operation: WriteOperation::JsonPatch(patch), .. },
        ObjectWrite { operation: WriteOperation::PodChanges(containers), .. },
    ] = steps.as_slice()
    else {
        panic!("a patch and containers: {steps:?}")
    };
    let operations: Vec<Value> = containers.iter().flat_map(|change| change.operations(&json!({}))).collect();
    let image = "/spec/workerGroupSpecs/1/template/spec/containers/0/image";
    assert_eq!(operations, [json!({"op": "add", "path": image, "value": "mine:2"})]);
    let written = json!([
        {"op": "test", "path": "/spec/workerGroupSpecs/1/groupName", "value": "small"},
        {
            "op": "add", "value": "mine:2",
            "path": "/spec/workerGroupSpecs/1/template/metadata/annotations/ray.io~1compute-image",
        },
        {"op": "add", "path": "/spec/workerGroupSpecs/1/rayStartParams/num-gpus", "value": ""},
        {"op": "remove", "path": "/spec/workerGroupSpecs/1/rayStartParams/num-gpus"},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/rayStartParams/num-cpus", "value": "2"},
    ]);
    assert_eq!(json!(patch), written);
}

#[rstest]
#[case::usual(json!({}), json!({}), false)]
#[case::by_options(json!({"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}), json!({}), true)]
#[case::by_the_old_annotation(json!({}), json!({"ray.io/ft-enabled": "true"}), true)]
#[case::disabled_by_annotation(json!({}), json!({"ray.io/ft-enabled": "false"}), false)]
fn a_head_is_durable_if_its_object_says_so(
    #[case] spec: Value,
    #[case] annotations: Value,
    #[case] durable: bool,
) {
    let object = json!({"metadata": {"name": "fred", "annotations": annotations}, "spec": spec});
    let projection = KubeRay.read_object(&RAY_CLUSTER, &object).expect("it is one");
    assert_eq!(projection.durable_head, durable);
}

#[test]
fn the_message_of_a_quota_is_one_line() {
    let message = "FailedCreateWorkerPod\npods \"x\" is forbidden: exceeded quota: few";
    let condition = json!({"type": "ReplicaFailure", "status": "True", "message": message});
    let object = json!({"metadata": {"name": "fred"}, "status": {"conditions": [condition]}});
    let projection = KubeRay.read_object(&RAY_CLUSTER, &object).expect("it is one");
    assert_eq!(projection.pending, [message.replace('\n', ": ")]);
}

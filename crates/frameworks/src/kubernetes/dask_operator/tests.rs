use muster_core::cluster::Cluster;
use rstest::rstest;

use super::super::flavor::Victim;
use super::super::projection::{GroupProjection, merge_groups};
use super::super::sample::{self, recipe};
use super::*;

fn cluster() -> Cluster {
    let mut cluster = sample::cluster(2, 0, None);
    cluster.labels.insert("team".to_owned(), "red".to_owned());
    cluster
}

#[test]
fn a_new_cluster_is_one_complete_object() {
    let recipe = recipe(&json!({
        "head": {"memory": "4Gi", "args": ["--no-show"]},
        "worker": {"cpu": "2", "memory": "4Gi", "gpu": 1, "env": {"A": "1"}, "args": ["--nthreads", "4"]},
    }));
    let cluster = cluster();
    let [manifest] = DaskOperator
        .manifests(DesiredCluster { cluster: &cluster, recipe: &recipe })
        .expect("it can be made")
        .try_into()
        .expect("one object");
    let health = json!({"port": "http-dashboard", "path": "/health"});
    let shape = json!({"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"});
    let port =
        |name: &str, port: u16| json!({"name": name, "protocol": "TCP", "port": port, "targetPort": name});
    assert_eq!(
        manifest.body,
        json!({
            "apiVersion": "kubernetes.dask.org/v1", "kind": "DaskCluster",
            "metadata": {"name": "fred", "namespace": "demo", "labels": {"team": "red", "muster.dev/user": "ann"}},
            "spec": {
                "idleTimeout": 0,
                "scheduler": {
                    "spec": {"enableServiceLinks": false, "containers": [{
                        "name": "scheduler", "image": "daskdev/dask:2026.8.0", "imagePullPolicy": "IfNotPresent",
                        "args": ["dask", "scheduler", "--host", "0.0.0.0", "--no-show"],
                        "env": [{"name": "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES", "value": crate::dask::ROUTES}],
                        "ports": [
                            {"name": "tcp-comm", "containerPort": 8786},
                            {"name": "http-dashboard", "containerPort": 8787},
                        ],
                        "readinessProbe": {"httpGet": health, "periodSeconds": 1, "timeoutSeconds": 300},
                        "livenessProbe": {"httpGet": health, "initialDelaySeconds": 15, "periodSeconds": 20},
                        "resources": {
                            "limits": {"cpu": "1", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "4Gi"},
                        },
                    }]},
                    "service": {
                        "type": "ClusterIP",
                        "selector": {"dask.org/cluster-name": "fred", "dask.org/component": "scheduler"},
                        "ports": [port("tcp-comm", 8786), port("http-dashboard", 8787)],
                    },
                },
                "worker": {
                    "replicas": 2,
                    "spec": {"enableServiceLinks": false, "containers": [{
                        "name": "worker", "image": "daskdev/dask:2026.8.0", "imagePullPolicy": "IfNotPresent",
                        "args": [
                            "dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--dashboard-address", ":8788",
                            "--nthreads", "4",
                        ],
                        "env": [{"name": "A", "value": "1"}],
                        "ports": [{"name": "http-dashboard", "containerPort": 8788}],
                        "readinessProbe": {"httpGet": health, "periodSeconds": 5, "timeoutSeconds": 300},
                        "resources": {"limits": shape, "requests": shape},
                    }]},
                },
            },
        })
    );
}

#[test]
fn pods_have_the_settings_of_their_group_but_no_labels_of_their_own() {
    let made = |properties: &Value| {
        DaskOperator.manifests(DesiredCluster { cluster: &cluster(), recipe: &recipe(properties) })
    };
    let mut created = made(&json!({
        "environment": "TESTING",
        "version": "2026.8.0",
        "head": {"pod": {"service_type": "LoadBalancer"}},
        "worker": {"pod": {"service_account": "robot"}},
    }))
    .expect("it can be made");
    let body = created.remove(0).body;
    let known = json!({
        "team": "red", "muster.dev/user": "ann", "muster.dev/version": "2026.8.0", "muster.dev/environment": "TESTING",
    });
    assert_eq!(body["metadata"]["labels"], known);
    assert_eq!(body["spec"]["scheduler"]["service"]["type"], "LoadBalancer");
    assert_eq!(body["spec"]["worker"]["spec"]["serviceAccountName"], "robot");
    let why = made(&json!({"worker": {"pod": {"labels": {"a": "1"}}}})).expect_err("they would be lost");
    assert!(
        why.starts_with("labels and annotations of a group's pods are not possible with flavor"),
        "{why}"
    );
}

#[test]
fn a_group_of_another_name_is_refused() {
    let (mut cluster, recipe) = (cluster(), recipe(&json!({})));
    cluster.groups[0].name = "small".to_owned();
    let why = DaskOperator
        .manifests(DesiredCluster { cluster: &cluster, recipe: &recipe })
        .expect_err("it is refused");
    assert_eq!(why, "the worker group of a cluster of flavor dask-operator is called 'default', not 'small'");
}

/// A root as its operator leaves it, reduced to a few fields.
fn root(status: &Value) -> ObjectProjection {
    let object = json!({
        "metadata": {"name": "fred", "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]},
        "spec": {
            "scheduler": {"spec": {"containers": [{"image": "s", "resources": {"limits": {"cpu": "1"}}}]}},
            "worker": {"replicas": 2, "spec": {"containers": [{"image": "old"}]}},
        },
        "status": status,
    });
    DaskOperator.read_object(&CLUSTER, &object).expect("a cluster")
}

fn worker_group(name: &str, worker: &Value) -> ObjectProjection {
    let object = json!({"metadata": {"name": name}, "spec": {"cluster": "fred", "worker": worker}});
    DaskOperator.read_object(&WORKER_GROUP, &object).expect("a group")
}

fn autoscaler() -> ObjectProjection {
    let spec = json!({"cluster": "fred", "minimum": 1, "maximum": 8});
    let object = json!({"metadata": {"name": "adapts"}, "spec": spec});
    DaskOperator.read_object(&AUTOSCALER, &object).expect("an autoscaler")
}

#[test]
fn the_number_of_a_group_object_overrides_that_of_the_root() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 5})));
    let desired = |objects: &[&ObjectProjection]| {
        merge_groups(objects).iter().map(|group| (group.name.clone(), group.desired)).collect::<Vec<_>>()
    };
    assert_eq!(desired(&[&root]), [("default".to_owned(), 2)]);
    let more = worker_group("fred-big", &json!({"replicas": 1}));
    assert_eq!(desired(&[&root, &more, &group]), [("default".to_owned(), 5), ("big".to_owned(), 1)]);
}

#[rstest]
#[case("fred-default", "default")]
#[case("fred-gpu-large", "gpu-large")]
#[case("freddy-default", "freddy-default")]
#[case("extra", "extra")]
#[case("fred-", "fred-")]
fn group_names_have_no_prefix_of_the_cluster(#[case] object: &str, #[case] group: &str) {
    let projection = worker_group(object, &json!({}));
    let GroupProjection { name, desired, bounds, .. } = &projection.groups[0];
    assert_eq!((projection.cluster.as_str(), projection.object.as_str()), ("fred", object));
    assert_eq!((name.as_str(), *desired, *bounds), (group, 1, None));
}

#[test]
fn an_autoscaler_scales_the_default_group_between_its_bounds() {
    let projection = autoscaler();
    let said = projection.autoscaler.expect("it is one");
    assert_eq!((said.group.as_deref(), said.bounds), (Some("default"), Some((1, Some(8)))));
    assert_eq!(projection.cluster, "fred");
}

#[test]
fn a_deployment_explains_its_missing_pods() {
    let message = "pods \"x\" is forbidden: exceeded quota: few, requested: cpu=2";
    let object = json!({
        "metadata": {"name": "fred-default-worker-0a1b2c3d4e", "labels": {"dask.org/cluster-name": "fred"}},
        "status": {"conditions": [
            {"type": "Progressing", "status": "True", "message": "ReplicaSet is progressing"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message},
        ]},
    });
    let projection = DaskOperator.read_object(&DEPLOYMENT, &object).expect("of a cluster");
    assert_eq!((projection.cluster.as_str(), projection.pending), ("fred", vec![message.to_owned()]));
    assert_eq!(projection.groups, []);
    assert_eq!(DaskOperator.read_object(&DEPLOYMENT, &json!({"metadata": {"name": "x"}})), None);
}

#[test]
fn a_rejected_cluster_names_the_log_of_its_operator() {
    assert!(root(&json!({"phase": "Error"})).rejections[0].contains("see its log for the reason"));
    assert_eq!(root(&json!({"phase": "Pending"})).rejections, Vec::<String>::new());
}

#[rstest]
#[case::nothing(json!({"metadata": {"name": "fred"}}), false)]
#[case::finalizer(json!({"metadata": {"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]}}), true)]
#[case::annotation(json!({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "{}"}}}), true)]
#[case::phase(json!({"status": {"phase": "Created"}}), true)]
#[case::others(json!({"metadata": {"finalizers": ["foregroundDeletion"], "annotations": {"a": "b"}}}), false)]
fn an_object_is_acknowledged_once_its_operator_has_marked_it(
    #[case] object: Value,
    #[case] acknowledged: bool,
) {
    assert_eq!(
        DaskOperator.read_object(&CLUSTER, &object).map(|object| object.acknowledged),
        Some(acknowledged)
    );
}

fn steps(objects: &[&ObjectProjection], change: GroupResize<'_>) -> Vec<(String, String, Value)> {
    let steps = DaskOperator.resize_groups("fred", objects, &[change]).expect("it is possible");
    let plain = |ObjectWrite { kind, name, operation }| match operation {
        WriteOperation::JsonPatch(operations) => (kind.kind.to_owned(), name, json!(operations)),
        WriteOperation::Delete => (kind.kind.to_owned(), name, json!("delete")),
        operation => panic!("none of these: {operation:?}"),
    };
    steps.into_iter().map(plain).collect()
}

fn step(kind: &str, name: &str, what: Value) -> (String, String, Value) {
    (kind.to_owned(), name.to_owned(), what)
}

#[test]
fn chosen_workers_are_deleted_before_the_number_falls() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 3})));
    let victim = |controller: &str| Victim { pod: "x".to_owned(), controller: Some(controller.to_owned()) };
    let victims = [victim("fred-default-worker-0a1b2c3d4e-7c9f8d6b5c"), victim("of-others-7c9f8d6b5c")];
    let change = GroupResize { group: "default", desired: Some(1), bounds: None, victims: &victims };
    let lowered = json!([{"op": "add", "path": "/spec/worker/replicas", "value": 1}]);
    assert_eq!(
        steps(&[&root, &group], change),
        [
            step("Deployment", "fred-default-worker-0a1b2c3d4e", json!("delete")),
            step("DaskWorkerGroup", "fred-default", lowered),
        ]
    );
}

#[test]
fn bounds_are_written_only_to_an_autoscaler() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 3})));
    let bounds = Some((2, Some(9)));
    let change = GroupResize { group: "default", desired: None, bounds, victims: &[] };
    // An empty patch: the writer adds the fence.
    let nothing = step("DaskWorkerGroup", "fred-default", json!([]));
    assert_eq!(steps(&[&root, &group], change), std::slice::from_ref(&nothing));
    let rebound = json!([
        {"op": "add", "path": "/spec/minimum", "value": 2}, {"op": "add", "path": "/spec/maximum", "value": 9},
    ]);
    let adapts = autoscaler();
    assert_eq!(
        steps(&[&root, &adapts, &group], change),
        [step("DaskAutoscaler", "adapts", rebound), nothing]
    );
    let endless = GroupResize { bounds: Some((2, None)), ..change };
    let why =
        DaskOperator.resize_groups("fred", &[&root, &adapts, &group], &[endless]).expect_err("it is not");
    assert_eq!(why, "the autoscaler of group 'default' needs a largest size");
}

#[test]
fn the_roots_number_is_never_written() {
    let root = root(&json!({}));
    let change = GroupResize { group: "default", desired: Some(1), bounds: None, victims: &[] };
    let why =
        DaskOperator.resize_groups("fred", &[&root], &[change]).expect_err("there is nothing to write to");
    assert_eq!(why, "there is no DaskWorkerGroup of group 'default'");
}

#[test]
fn another_recipe_is_written_to_the_group_and_to_the_root() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 3})));
    let (cluster, old) = (cluster(), recipe(&json!({"image": "mine:1", "worker": {"env": {"A": "1"}}})));
    let new = recipe(&json!({"image": "mine:2"}));
    let plan = |recipe| DesiredCluster { cluster: &cluster, recipe };
    let steps = DaskOperator.change_recipe(plan(&old), plan(&new), &[&root, &group]).expect("it is possible");
    let container =
        json!({"image": "mine:1", "env": [{"name": "A", "value": "1"}, {"name": "THEIRS", "value": "1"}]});
    let spec = json!({"containers": [container]});
    let object = json!({"spec": {"worker": {"spec": spec}, "scheduler": {"spec": spec}}});
    let operations = |step: &ObjectWrite| -> Vec<Value> {
        let WriteOperation::PodChanges(changes) = &step.operation else { panic!("containers: {step:?}") };
        changes.iter().flat_map(|change| change.operations(&object)).collect()
    };
    let image = |part: &str| json!({"op": "add", "path": format!("/spec/{part}/spec/containers/0/image"), "value": "mine:2"});
    // A removed variable is deleted; those of others, and unchanged ones, stay.
    let env = json!({
        "op": "add", "path": "/spec/worker/spec/containers/0/env", "value": [{"name": "THEIRS", "value": "1"}],
    });
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["fred-default", "fred"]);
    assert_eq!(operations(&steps[0]), [image("worker"), env.clone()]);
    assert_eq!(operations(&steps[1]), [image("scheduler"), image("worker"), env]);
}

#[test]
fn another_recipe_of_a_scheduler_that_exists_is_refused() {
    let (cluster, old) = (cluster(), recipe(&json!({"worker": {"env": {"A": "1"}}})));
    let refusal = |new: Value| {
        let (cluster, new) = (&cluster, recipe(&new));
        let (old, new) = (DesiredCluster { cluster, recipe: &old }, DesiredCluster { cluster, recipe: &new });
        DaskOperator.check_recipe_change(old, new).err()
    };
    assert_eq!(refusal(json!({"worker": {"env": {"A": "2"}}})), None);
    let why = refusal(json!({"head": {"env": {"A": "1"}}})).expect("its operator would not act");
    assert!(why.starts_with("the Dask operator does not apply another image"), "{why}");
}

#[test]
fn pods_are_members_by_their_labels() {
    let member = |pairs: &[(&str, &str)]| {
        let labels =
            pairs.iter().map(|(key, value)| (format!("dask.org/{key}"), (*value).to_owned())).collect();
        DaskOperator.read_member(&labels).map(|member| (member.cluster, member.role, member.group))
    };
    let worker = [("cluster-name", "fred"), ("component", "worker"), ("workergroup-name", "fred-default")];
    assert_eq!(member(&worker), Some(("fred".to_owned(), NodeRole::Worker, Some("default".to_owned()))));
    let scheduler = [("cluster-name", "fred"), ("component", "scheduler")];
    assert_eq!(member(&scheduler), Some(("fred".to_owned(), NodeRole::Head, None)));
    assert_eq!(member(&[("cluster-name", "fred"), ("component", "job-runner")]), None);
}

#[test]
fn the_environment_of_clients_has_the_address_of_the_scheduler() {
    let endpoints = DaskOperator.endpoints("demo", "fred");
    let variables = DaskOperator.client_environment(&endpoints, None);
    assert_eq!(variables["DASK_SCHEDULER_ADDRESS"], "tcp://fred-scheduler.demo.svc:8786");
    assert_eq!(endpoints.get(Endpoints::DASHBOARD), Some("http://fred-scheduler.demo.svc:8787/status"));
}

#[test]
fn an_autoscaler_is_an_object_of_its_own_between_the_bounds_of_the_group() {
    let recipe = recipe(&json!({"autoscaler": {}}));
    let unbounded = cluster();
    let refused = DaskOperator
        .manifests(DesiredCluster { cluster: &unbounded, recipe: &recipe })
        .expect_err("no bound");
    assert_eq!(refused, "an autoscaler needs a bound: give max_replicas of group 'default'");

    let cluster = sample::cluster(2, 1, Some(5));
    let made = DaskOperator
        .manifests(DesiredCluster { cluster: &cluster, recipe: &recipe })
        .expect("it can be made");
    let [root, autoscaler] = made.try_into().expect("two objects");
    assert_eq!((autoscaler.kind, autoscaler.owned), (&AUTOSCALER, true));
    assert_eq!(autoscaler.body["spec"], json!({"cluster": "fred", "minimum": 1, "maximum": 5}));

    // A creation that was interrupted between the two is incomplete.
    let parse =
        |manifest: &Manifest| DaskOperator.read_object(manifest.kind, &manifest.body).expect("of a cluster");
    let (root, autoscaler) = (parse(&root), parse(&autoscaler));
    assert!(!DaskOperator.is_complete(&[&root]));
    assert_eq!(DaskOperator.missing_objects("fred", &[&root]), ["DaskAutoscaler 'fred' (its autoscaler)"]);
    assert!(DaskOperator.is_complete(&[&root, &autoscaler]));
    assert_eq!(autoscaler.autoscaler.and_then(|autoscaler| autoscaler.bounds), Some((1, Some(5))));
}

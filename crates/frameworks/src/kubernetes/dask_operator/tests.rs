use muster_core::cluster::Cluster;
use rstest::rstest;

use super::super::flavor::Victim;
use super::super::sample::{self, recipe};
use super::super::words::{GroupWords, groups};
use super::*;

fn cluster() -> Cluster {
    let mut cluster = sample::cluster(2, 0, None);
    cluster.labels.insert("team".to_owned(), "red".to_owned());
    cluster
}

#[test]
fn what_is_made_is_one_object_with_all_that_its_operator_needs() {
    let recipe = recipe(&json!({
        "head": {"memory": "4Gi", "args": ["--no-show"]},
        "worker": {"cpu": "2", "memory": "4Gi", "gpu": 1, "env": {"A": "1"}, "args": ["--nthreads", "4"]},
    }));
    let cluster = cluster();
    let [manifest] = DaskOperator
        .manifests(Plan { cluster: &cluster, recipe: &recipe })
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
fn pods_have_what_their_groups_say_but_no_labels_of_their_own() {
    let made = |properties: &Value| {
        DaskOperator.manifests(Plan { cluster: &cluster(), recipe: &recipe(properties) })
    };
    let mut made_so = made(&json!({
        "environment": "TESTING",
        "version": "2026.8.0",
        "head": {"pod": {"service_type": "LoadBalancer"}},
        "worker": {"pod": {"service_account": "robot"}},
    }))
    .expect("it can be made");
    let body = made_so.remove(0).body;
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
fn a_group_that_its_operator_would_call_otherwise_is_refused() {
    let (mut cluster, recipe) = (cluster(), recipe(&json!({})));
    cluster.groups[0].name = "small".to_owned();
    let why = DaskOperator.manifests(Plan { cluster: &cluster, recipe: &recipe }).expect_err("it is refused");
    assert_eq!(why, "the worker group of a cluster of flavor dask-operator is called 'default', not 'small'");
}

/// As its operator leaves them, but for most of it.
fn root(status: &Value) -> Words {
    let object = json!({
        "metadata": {"name": "fred", "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]},
        "spec": {
            "scheduler": {"spec": {"containers": [{"image": "s", "resources": {"limits": {"cpu": "1"}}}]}},
            "worker": {"replicas": 2, "spec": {"containers": [{"image": "old"}]}},
        },
        "status": status,
    });
    DaskOperator.read(&CLUSTER, &object).expect("a cluster")
}

fn worker_group(name: &str, worker: &Value) -> Words {
    let object = json!({"metadata": {"name": name}, "spec": {"cluster": "fred", "worker": worker}});
    DaskOperator.read(&WORKER_GROUP, &object).expect("a group")
}

fn autoscaler() -> Words {
    let spec = json!({"cluster": "fred", "minimum": 1, "maximum": 8});
    let object = json!({"metadata": {"name": "adapts"}, "spec": spec});
    DaskOperator.read(&AUTOSCALER, &object).expect("an autoscaler")
}

#[test]
fn the_groups_object_is_the_truth_and_not_the_root_whose_number_drifts() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 5})));
    let desired = |words: &[&Words]| {
        groups(words).iter().map(|group| (group.name.clone(), group.desired)).collect::<Vec<_>>()
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
fn groups_are_called_without_the_clusters_name(#[case] object: &str, #[case] group: &str) {
    let words = worker_group(object, &json!({}));
    let GroupWords { name, desired, bounds, .. } = &words.groups[0];
    assert_eq!((words.cluster.as_str(), words.object.as_str()), ("fred", object));
    assert_eq!((name.as_str(), *desired, *bounds), (group, 1, None));
}

#[test]
fn an_autoscaler_decides_on_the_default_group_between_its_bounds() {
    let words = autoscaler();
    let said = words.autoscaler.expect("it is one");
    assert_eq!((said.group.as_deref(), said.bounds), (Some("default"), Some((1, Some(8)))));
    assert_eq!(words.cluster, "fred");
}

#[test]
fn a_deployment_tells_why_it_makes_no_pods() {
    let message = "pods \"x\" is forbidden: exceeded quota: few, requested: cpu=2";
    let object = json!({
        "metadata": {"name": "fred-default-worker-0a1b2c3d4e", "labels": {"dask.org/cluster-name": "fred"}},
        "status": {"conditions": [
            {"type": "Progressing", "status": "True", "message": "ReplicaSet is progressing"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message},
        ]},
    });
    let words = DaskOperator.read(&DEPLOYMENT, &object).expect("of a cluster");
    assert_eq!((words.cluster.as_str(), words.pending), ("fred", vec![message.to_owned()]));
    assert_eq!(words.groups, []);
    assert_eq!(DaskOperator.read(&DEPLOYMENT, &json!({"metadata": {"name": "x"}})), None);
}

#[test]
fn a_cluster_that_its_operator_refuses_says_where_to_look() {
    assert!(root(&json!({"phase": "Error"})).refused[0].contains("its log says why"));
    assert_eq!(root(&json!({"phase": "Pending"})).refused, Vec::<String>::new());
}

#[rstest]
#[case::nothing(json!({"metadata": {"name": "fred"}}), false)]
#[case::finalizer(json!({"metadata": {"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]}}), true)]
#[case::annotation(json!({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": "{}"}}}), true)]
#[case::phase(json!({"status": {"phase": "Created"}}), true)]
#[case::others(json!({"metadata": {"finalizers": ["foregroundDeletion"], "annotations": {"a": "b"}}}), false)]
fn its_operator_leaves_a_mark_on_what_it_has_seen(#[case] object: Value, #[case] noticed: bool) {
    assert_eq!(DaskOperator.read(&CLUSTER, &object).map(|words| words.noticed), Some(noticed));
}

fn steps(words: &[&Words], change: Resize<'_>) -> Vec<(String, String, Value)> {
    let steps = DaskOperator.resize("fred", words, &[change]).expect("it is possible");
    let plain = |Step { kind, name, deed }| match deed {
        Deed::Patch(operations) => (kind.kind.to_owned(), name, json!(operations)),
        Deed::Delete => (kind.kind.to_owned(), name, json!("delete")),
        deed => panic!("none of these: {deed:?}"),
    };
    steps.into_iter().map(plain).collect()
}

fn step(kind: &str, name: &str, what: Value) -> (String, String, Value) {
    (kind.to_owned(), name.to_owned(), what)
}

#[test]
fn those_that_were_chosen_are_gone_before_the_number_falls() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 3})));
    let victim = |controller: &str| Victim { pod: "x".to_owned(), controller: Some(controller.to_owned()) };
    let victims = [victim("fred-default-worker-0a1b2c3d4e-7c9f8d6b5c"), victim("somebody-elses-7c9f8d6b5c")];
    let change = Resize { group: "default", desired: Some(1), bounds: None, victims: &victims };
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
fn bounds_are_written_where_there_is_an_autoscaler_and_are_the_rows_elsewhere() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 3})));
    let bounds = Some((2, Some(9)));
    let change = Resize { group: "default", desired: None, bounds, victims: &[] };
    // Nothing but the fence, which whoever writes adds.
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
    let endless = Resize { bounds: Some((2, None)), ..change };
    let why = DaskOperator.resize("fred", &[&root, &adapts, &group], &[endless]).expect_err("it is not");
    assert_eq!(why, "the autoscaler of group 'default' needs a largest size");
}

#[test]
fn the_roots_number_is_never_written() {
    let root = root(&json!({}));
    let change = Resize { group: "default", desired: Some(1), bounds: None, victims: &[] };
    let why = DaskOperator.resize("fred", &[&root], &[change]).expect_err("there is nothing to write to");
    assert_eq!(why, "there is no DaskWorkerGroup of group 'default'");
}

#[test]
fn another_recipe_is_written_to_the_group_and_to_the_root() {
    let (root, group) = (root(&json!({})), worker_group("fred-default", &json!({"replicas": 3})));
    let (cluster, old) = (cluster(), recipe(&json!({"image": "mine:1", "worker": {"env": {"A": "1"}}})));
    let new = recipe(&json!({"image": "mine:2"}));
    let plan = |recipe| Plan { cluster: &cluster, recipe };
    let steps = DaskOperator.remake(plan(&old), plan(&new), &[&root, &group]).expect("it is possible");
    let container =
        json!({"image": "mine:1", "env": [{"name": "A", "value": "1"}, {"name": "THEIRS", "value": "1"}]});
    let spec = json!({"containers": [container]});
    let object = json!({"spec": {"worker": {"spec": spec}, "scheduler": {"spec": spec}}});
    let operations = |step: &Step| -> Vec<Value> {
        let Deed::Pods(changes) = &step.deed else { panic!("containers: {step:?}") };
        changes.iter().flat_map(|change| change.operations(&object)).collect()
    };
    let image = |part: &str| json!({"op": "add", "path": format!("/spec/{part}/spec/containers/0/image"), "value": "mine:2"});
    // A variable that is not wanted any more goes; what others added, and what stays as it was, is not touched.
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
        let (old, new) = (Plan { cluster, recipe: &old }, Plan { cluster, recipe: &new });
        DaskOperator.check_remake(old, new).err()
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
        DaskOperator.member(&labels).map(|member| (member.cluster, member.role, member.group))
    };
    let worker = [("cluster-name", "fred"), ("component", "worker"), ("workergroup-name", "fred-default")];
    assert_eq!(member(&worker), Some(("fred".to_owned(), NodeRole::Worker, Some("default".to_owned()))));
    let scheduler = [("cluster-name", "fred"), ("component", "scheduler")];
    assert_eq!(member(&scheduler), Some(("fred".to_owned(), NodeRole::Head, None)));
    assert_eq!(member(&[("cluster-name", "fred"), ("component", "job-runner")]), None);
}

#[test]
fn programs_are_told_where_the_scheduler_is() {
    let endpoints = DaskOperator.endpoints("demo", "fred");
    let variables = DaskOperator.environment(&endpoints, None);
    assert_eq!(variables["DASK_SCHEDULER_ADDRESS"], "tcp://fred-scheduler.demo.svc:8786");
    assert_eq!(endpoints.get(Endpoints::DASHBOARD), Some("http://fred-scheduler.demo.svc:8787/status"));
}

#[test]
fn an_autoscaler_is_an_object_of_its_own_between_the_bounds_of_the_group() {
    let recipe = recipe(&json!({"autoscaler": {}}));
    let unbounded = cluster();
    let refused =
        DaskOperator.manifests(Plan { cluster: &unbounded, recipe: &recipe }).expect_err("no bound");
    assert_eq!(refused, "an autoscaler needs a bound: give max_replicas of group 'default'");

    let cluster = sample::cluster(2, 1, Some(5));
    let made = DaskOperator.manifests(Plan { cluster: &cluster, recipe: &recipe }).expect("it can be made");
    let [root, autoscaler] = made.try_into().expect("two objects");
    assert_eq!((autoscaler.kind, autoscaler.owned), (&AUTOSCALER, true));
    assert_eq!(autoscaler.body["spec"], json!({"cluster": "fred", "minimum": 1, "maximum": 5}));

    // A creation that was interrupted between the two is not whole.
    let words = |manifest: &Manifest| DaskOperator.read(manifest.kind, &manifest.body).expect("of a cluster");
    let (root, autoscaler) = (words(&root), words(&autoscaler));
    assert!(!DaskOperator.is_whole(&[&root]));
    assert_eq!(DaskOperator.missing("fred", &[&root]), ["DaskAutoscaler 'fred' (its autoscaler)"]);
    assert!(DaskOperator.is_whole(&[&root, &autoscaler]));
    assert_eq!(autoscaler.autoscaler.and_then(|autoscaler| autoscaler.bounds), Some((1, Some(5))));
}

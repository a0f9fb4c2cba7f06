use muster_core::cluster::Cluster;
use muster_core::recipe::ClusterRecipe;
use rstest::rstest;
use serde_json::json;

use super::super::flavor::{Victim, WriteOperation};
use super::super::object::SERVICE;
use super::super::sample::{self, recipe};
use super::*;

fn cluster() -> Cluster {
    let mut cluster = sample::cluster(2, 0, None);
    cluster.labels.insert("ephemeral".to_owned(), "bob-1".to_owned());
    cluster
}

fn made(properties: &Value) -> Vec<Manifest> {
    let (cluster, recipe) = (cluster(), recipe(properties));
    Native.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect("it can be made")
}

fn body(properties: &Value, name: &str) -> Value {
    let named = |manifest: Manifest| manifest.body;
    made(properties).into_iter().map(named).find(|body| body["metadata"]["name"] == name).expect("it is made")
}

fn container(properties: &Value, name: &str) -> Value {
    body(properties, name)["spec"]["template"]["spec"]["containers"][0].clone()
}

#[test]
fn all_other_objects_are_owned_by_the_root_and_the_workers_come_last() {
    let made = made(&json!({}));
    let made: Vec<_> = made
        .iter()
        .map(|manifest| (manifest.kind, manifest.body["metadata"]["name"].as_str(), manifest.owned))
        .collect();
    assert_eq!(
        made,
        [
            (&DEPLOYMENT, Some("fred-m"), false),
            (&SERVICE, Some("fred"), true),
            (&SERVICE, Some("fred-ui"), true),
            (&DEPLOYMENT, Some("fred-w"), true),
        ]
    );
}

#[test]
fn pods_have_the_settings_of_their_group_and_the_labels_of_their_selector() {
    let recipe = json!({
        "head": {"pod": {"service_type": "NodePort", "annotations": {"a": "1"}}},
        "worker": {"pod": {"labels": {"l": "2", "oshinko-type": "master"}, "image_pull_secret": "key"}},
    });
    assert_eq!(body(&recipe, "fred")["spec"]["type"], "NodePort");
    assert_eq!(body(&recipe, "fred-m")["spec"]["template"]["metadata"]["annotations"], json!({"a": "1"}));
    let worker = body(&recipe, "fred-w")["spec"]["template"].clone();
    let labels = json!({"l": "2", "oshinko-type": "worker", "oshinko-cluster": "fred"});
    assert_eq!(worker["metadata"], json!({"labels": labels}));
    assert_eq!(worker["spec"]["imagePullSecrets"], json!([{"name": "key"}]));
}

#[test]
fn every_object_has_labels_of_its_cluster_and_app() {
    for (name, kind) in [("fred-m", "master"), ("fred", "master"), ("fred-ui", "webui"), ("fred-w", "worker")]
    {
        let labels = json!({
            "oshinko-cluster": "fred", "oshinko-type": kind, "ephemeral": "bob-1", "muster.dev/user": "ann",
        });
        assert_eq!(body(&json!({}), name)["metadata"]["labels"], labels, "{name}");
    }
    let config = body(&json!({}), "fred-m")["metadata"]["annotations"]["oshinko-config"].clone();
    let config: Value = serde_json::from_str(config.as_str().expect("a text")).expect("JSON");
    let said = json!({
        "MastersCount": 1, "WorkersCount": 2, "SparkImage": "apache/spark:4.3.0", "ExposeWebUI": "true",
        "Metrics": "false",
    });
    assert_eq!(config, said);
}

fn with_settings() -> Value {
    json!({"spark": {
        "config_name": "big", "master_config": "masters", "worker_config": "team.workers", "metrics": "prometheus",
        "expose_ui": false,
    }})
}

#[test]
fn the_master_records_the_settings_that_the_cluster_was_made_with() {
    let config = body(&with_settings(), "fred-m")["metadata"]["annotations"]["oshinko-config"].clone();
    let config: Value = serde_json::from_str(config.as_str().expect("a text")).expect("JSON");
    let expected = json!({
        "MastersCount": 1, "WorkersCount": 2, "SparkImage": "apache/spark:4.3.0", "ExposeWebUI": "false",
        "Metrics": "prometheus", "ConfigName": "big", "SparkMasterConfig": "masters",
        "SparkWorkerConfig": "team.workers",
    });
    assert_eq!(config, expected);
}

#[rstest]
#[case::master("fred-m", "masters", "masters")]
#[case::names_of_volumes_have_no_dots("fred-w", "spark-config", "team.workers")]
fn configuration_files_are_mounted_read_only_and_named_to_the_image(
    #[case] deployment: &str,
    #[case] volume: &str,
    #[case] map: &str,
) {
    let spec = body(&with_settings(), deployment)["spec"]["template"]["spec"].clone();
    assert_eq!(spec["volumes"], json!([{"name": volume, "configMap": {"name": map}}]));
    let mount = json!({"name": volume, "mountPath": "/etc/oshinko-spark-configs", "readOnly": true});
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    let variables = spec["containers"][0]["env"].as_array().expect("variables");
    for (name, value) in [
        ("UPDATE_SPARK_CONF_DIR", "/etc/oshinko-spark-configs"),
        ("SPARK_CONF_DIR", "/etc/oshinko-spark-configs"),
        ("SPARK_METRICS_ON", "prometheus"),
    ] {
        assert!(variables.contains(&json!({"name": name, "value": value})), "{name}: {variables:?}");
    }
}

#[test]
fn metrics_have_a_port_of_the_master_and_a_service() {
    let port = json!({"name": "spark-metrics", "containerPort": 7777});
    let ports = |name: &str| container(&with_settings(), name)["ports"].clone();
    assert_eq!(ports("fred-m").as_array().and_then(|ports| ports.last()).cloned(), Some(port.clone()));
    assert!(!ports("fred-w").as_array().is_some_and(|ports| ports.contains(&port)));
    let service = body(&with_settings(), "fred-metrics");
    assert_eq!(service["metadata"]["labels"]["oshinko-type"], "master");
    let expected = json!({
        "selector": {"oshinko-cluster": "fred", "oshinko-type": "master"},
        "ports": [{"name": "spark-metrics", "port": 7777, "targetPort": "spark-metrics"}],
    });
    assert_eq!(service["spec"], expected);
    let names: Vec<Value> =
        made(&with_settings()).iter().map(|one| one.body["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["fred-m", "fred", "fred-ui", "fred-metrics", "fred-w"]);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"spark": {"metrics": "false", "expose_ui": true}}))]
fn without_settings_nothing_is_added(#[case] properties: Value) {
    let names: Vec<Value> =
        made(&properties).iter().map(|one| one.body["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["fred-m", "fred", "fred-ui", "fred-w"]);
    for name in ["fred-m", "fred-w"] {
        assert_eq!(container(&properties, name), container(&json!({}), name));
    }
}

#[test]
fn a_name_is_too_long_only_with_metrics() {
    let (mut cluster, plain, metrics) = (cluster(), recipe(&json!({})), recipe(&with_settings()));
    cluster.object_name = "a".repeat(56);
    assert!(Native.manifests(DesiredCluster { cluster: &cluster, recipe: &plain }).is_ok());
    let why =
        Native.manifests(DesiredCluster { cluster: &cluster, recipe: &metrics }).expect_err("it is refused");
    assert!(why.contains("would have 64 characters, and 63 are possible: choose a shorter name"), "{why}");
}

#[test]
fn a_resize_keeps_the_recorded_settings() {
    let read =
        |name: &str| Native.read_object(&DEPLOYMENT, &body(&with_settings(), name)).expect("of a cluster");
    let (root, workers) = (read("fred-m"), read("fred-w"));
    let change = GroupResize { group: "default", desired: Some(7), bounds: None, victims: &[] };
    let steps = Native.resize_groups("fred", &[&root, &workers], &[change]).expect("it is possible");
    let Some(ObjectWrite { operation: WriteOperation::Merge(merge), .. }) = steps.last() else {
        panic!("a merge: {steps:?}")
    };
    let config = merge["metadata"]["annotations"]["oshinko-config"].as_str().expect("a text");
    let config: Value = serde_json::from_str(config).expect("JSON");
    assert_eq!((&config["WorkersCount"], &config["Metrics"]), (&json!(7), &json!("prometheus")));
    assert_eq!((&config["ConfigName"], &config["ExposeWebUI"]), (&json!("big"), &json!("false")));
}

#[test]
fn a_missing_service_for_metrics_is_named_if_metrics_are_on() {
    let (cluster, recipe) = (sample::cluster(2, 0, None), recipe(&with_settings()));
    let made =
        Native.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect("it can be made");
    let projections = |without: &str| -> Vec<ObjectProjection> {
        let there = made.iter().filter(|one| one.body["metadata"]["name"] != without);
        there.map(|one| Native.read_object(one.kind, &one.body).expect("it is a part")).collect()
    };
    let missing =
        |without: &str| Native.missing_objects("fred", &projections(without).iter().collect::<Vec<_>>());
    assert_eq!(missing(""), Vec::<String>::new());
    assert_eq!(missing("fred-metrics"), ["Service 'fred-metrics' (its metrics)"]);
    assert_eq!(missing("fred"), ["Service 'fred' (its address)"]);
}

#[test]
fn each_deployment_selects_only_its_own_pods() {
    for (name, kind) in [("fred-m", "master"), ("fred-w", "worker")] {
        let spec = &body(&json!({}), name)["spec"];
        let labels = json!({"oshinko-cluster": "fred", "oshinko-type": kind});
        assert_eq!(spec["selector"], json!({"matchLabels": labels}));
        assert_eq!(spec["template"]["metadata"]["labels"], labels);
    }
    let service = body(&json!({}), "fred-ui");
    assert_eq!(
        service["spec"],
        json!({
            "selector": {"oshinko-cluster": "fred", "oshinko-type": "master"},
            "ports": [{"name": "spark-webui", "port": 8080, "targetPort": "spark-webui"}],
        })
    );
}

#[test]
fn the_container_of_a_master_is_complete() {
    let page = json!({"port": "spark-webui", "path": "/json/"});
    let shape = json!({"cpu": "1", "memory": "2Gi"});
    assert_eq!(
        container(&json!({"head": {"args": ["--properties-file", "x"]}}), "fred-m"),
        json!({
            "name": "master", "image": "apache/spark:4.3.0", "imagePullPolicy": "IfNotPresent",
            "command": ["/opt/spark/bin/spark-class", "org.apache.spark.deploy.master.Master"],
            "args": [
                "--host", "$(POD_IP)", "--port", "7077", "--webui-port", "8080", "--properties-file", "x",
            ],
            "env": [
                {"name": "OSHINKO_SPARK_CLUSTER", "value": "fred"},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "SPARK_NO_DAEMONIZE", "value": "1"},
                {"name": "SPARK_DAEMON_MEMORY", "value": "1024m"},
                {"name": "SPARK_DAEMON_JAVA_OPTS", "value": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
                    -XX:-UsePerfData -Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false \
                    -Dspark.decommission.enabled=true"},
            ],
            "ports": [
                {"name": "spark-master", "containerPort": 7077}, {"name": "spark-webui", "containerPort": 8080},
            ],
            "readinessProbe": {"httpGet": page, "periodSeconds": 2, "timeoutSeconds": 5},
            "livenessProbe": {"httpGet": page, "initialDelaySeconds": 30, "periodSeconds": 20, "timeoutSeconds": 10},
            "resources": {"limits": shape, "requests": shape},
        })
    );
    let spec = &body(&json!({}), "fred-m")["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]), (&json!(1), &json!({"type": "Recreate"})));
    assert_eq!(spec["template"]["spec"]["enableServiceLinks"], false);
}

#[test]
fn a_worker_connects_to_the_service_and_drains_before_it_ends() {
    let worker = container(&json!({"worker": {"cpu": "1500m", "env": {"A": "1"}}}), "fred-w");
    assert_eq!(
        worker["args"],
        json!([
            "spark://fred:7077",
            "--host",
            "$(POD_IP)",
            "--cores",
            "2",
            "--memory",
            "1536m",
            "--webui-port",
            "8081",
        ])
    );
    let variables = worker["env"].as_array().expect("variables");
    let value =
        |name: &str| variables.iter().find(|variable| variable["name"] == name).map(|it| it["value"].clone());
    assert_eq!(value("SPARK_MASTER_ADDRESS"), Some(json!("spark://fred:7077")));
    assert_eq!(value("SPARK_MASTER_UI_ADDRESS"), Some(json!("http://fred-ui:8080")));
    assert_eq!(value("A"), Some(json!("1")));
    let options = value("SPARK_DAEMON_JAVA_OPTS").expect("options").to_string();
    assert!(options.contains("preferConfiguredMasterAddress=true"), "{options}");
    let before = worker["lifecycle"]["preStop"]["exec"]["command"][2].as_str().expect("a command");
    assert!(before.starts_with("kill -PWR 1; "), "{before}");
    let spec = &body(&json!({}), "fred-w")["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["template"]["spec"]["terminationGracePeriodSeconds"]),
        (&json!(2), &json!(60))
    );
}

#[rstest]
#[case("2Gi", "1536m")]
#[case("8Gi", "7680m")]
#[case::little("600Mi", "300m")]
fn executors_have_the_memory_that_the_worker_does_not_need(#[case] memory: &str, #[case] left: &str) {
    assert_eq!(container(&json!({"worker": {"memory": memory}}), "fred-w")["args"][6], left);
}

#[test]
fn a_name_that_no_service_can_have_is_refused() {
    let (mut cluster, recipe) = (cluster(), recipe(&json!({})));
    cluster.object_name = "1st".to_owned();
    let why =
        Native.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect_err("it is refused");
    assert_eq!(why, "'1st' cannot be the name of a Service, which begins with a letter");
}

/// A Deployment as its controller leaves it, reduced to a few fields.
fn deployment(name: &str, kind: &str, replicas: &Value, conditions: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"oshinko-cluster": "fred", "oshinko-type": kind}},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"image": "spark:1", "resources": {"limits": {"cpu": "2"}}}]}},
        },
        "status": {"observedGeneration": 1, "conditions": conditions},
    })
}

fn parse(name: &str, kind: &str, replicas: u32) -> ObjectProjection {
    Native
        .read_object(&DEPLOYMENT, &deployment(name, kind, &json!(replicas), &json!([])))
        .expect("of a cluster")
}

#[test]
fn a_cluster_is_named_by_its_label_and_not_by_its_root() {
    let (root, workers) = (parse("fred-m", "master", 1), parse("fred-w", "worker", 3));
    assert_eq!((root.cluster.as_str(), root.object.as_str()), ("fred", "fred-m"));
    assert_eq!((root.head.image.as_str(), root.suspended, root.acknowledged), ("spark:1", false, true));
    assert_eq!((workers.cluster.as_str(), workers.groups[0].desired), ("fred", 3));
    assert_eq!((workers.groups[0].name.as_str(), workers.groups[0].bounds), ("default", None));
    assert!(parse("fred-m", "master", 0).suspended);
    assert_eq!(Native.read_object(&DEPLOYMENT, &json!({"metadata": {"name": "x"}})), None);
}

#[test]
fn a_master_alone_is_not_a_complete_cluster() {
    let (root, workers) = (parse("fred-m", "master", 1), parse("fred-w", "worker", 3));
    assert!(!Native.is_complete(&[&root]));
    assert!(Native.is_complete(&[&root, &workers]));
}

#[test]
fn a_deployment_explains_its_missing_pods() {
    let conditions = json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: few"}]);
    let workers = Native.read_object(&DEPLOYMENT, &deployment("fred-w", "worker", &json!(3), &conditions));
    assert_eq!(workers.expect("of a cluster").pending, ["exceeded quota: few"]);
}

#[test]
fn deployments_are_distinguished_by_their_labels() {
    let part = |kind: &str| {
        let object = deployment("x", kind, &json!(1), &json!([]));
        WATCHED.iter().find(|watched| watched.matches(&DEPLOYMENT, &object)).map(|watched| watched.role)
    };
    assert_eq!(
        (part("master"), part("worker"), part("webui")),
        (Some(ObjectRole::Root), Some(ObjectRole::Detail), None)
    );
}

#[test]
fn chosen_workers_have_the_lowest_deletion_cost_before_the_number_falls() {
    let (root, workers) = (parse("fred-m", "master", 1), parse("fred-w", "worker", 3));
    let victims = [Victim { pod: "fred-w-abc-1".to_owned(), controller: Some("fred-w-abc".to_owned()) }];
    let change = GroupResize { group: "default", desired: Some(2), bounds: None, victims: &victims };
    let steps = Native.resize_groups("fred", &[&root, &workers], &[change]).expect("it is possible");
    let [cost, number, record] = steps.try_into().expect("three steps");
    let body = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1000"}}});
    assert_eq!(
        (cost.kind.kind, cost.name.as_str(), cost.operation),
        ("Pod", "fred-w-abc-1", WriteOperation::Merge(body))
    );
    let lowered = vec![json!({"op": "add", "path": "/spec/replicas", "value": 2})];
    assert_eq!((number.name.as_str(), number.operation), ("fred-w", WriteOperation::JsonPatch(lowered)));
    let WriteOperation::Merge(body) = record.operation else { panic!("a merge: {record:?}") };
    let config = body["metadata"]["annotations"]["oshinko-config"].as_str().expect("a text");
    assert_eq!((record.name.as_str(), config.contains(r#""WorkersCount":2"#)), ("fred-m", true));
}

#[test]
fn a_changed_recipe_is_written_to_both_deployments() {
    let (root, workers) = (parse("fred-m", "master", 1), parse("fred-w", "worker", 3));
    let (cluster, recipe) = (cluster(), recipe(&json!({"image": "mine:2", "worker": {"memory": "8Gi"}})));
    let old = ClusterRecipe::default();
    let plan = |recipe| DesiredCluster { cluster: &cluster, recipe };
    let steps = Native.change_recipe(plan(&old), plan(&recipe), &[&root, &workers]).expect("it is possible");
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["fred-w", "fred-m"]);
    let WriteOperation::PodChanges(changes) = &steps[0].operation else { panic!("containers") };
    let operations: Vec<Value> = changes.iter().flat_map(|change| change.operations(&json!({}))).collect();
    let path = "/spec/template/spec/containers/0";
    assert_eq!(operations[0], json!({"op": "add", "path": format!("{path}/image"), "value": "mine:2"}));
    // The memory for executors is in the worker's arguments.
    let args =
        operations.iter().find(|operation| operation["path"] == format!("{path}/args")).expect("they differ");
    assert_eq!(args["value"][6], "7680m");
}

#[test]
fn pods_are_members_by_their_labels() {
    let member = |kind: &str| {
        let labels = [("oshinko-cluster", "fred"), ("oshinko-type", kind)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Native.read_member(&labels).map(|member| (member.cluster, member.role, member.group))
    };
    assert_eq!(member("worker"), Some(("fred".to_owned(), NodeRole::Worker, Some("default".to_owned()))));
    assert_eq!(member("master"), Some(("fred".to_owned(), NodeRole::Head, None)));
    assert_eq!(member("webui"), None);
}

#[test]
fn the_environment_of_clients_has_the_address_of_the_master() {
    let endpoints = Native.endpoints("demo", "fred");
    assert_eq!(Native.client_environment(&endpoints, None)["SPARK_MASTER"], "spark://fred.demo.svc:7077");
    assert_eq!(endpoints.get(Endpoints::DASHBOARD), Some("http://fred-ui.demo.svc:8080/"));
}

#[test]
fn missing_objects_are_named_with_their_part() {
    let (cluster, recipe) = (sample::cluster(2, 0, None), recipe(&json!({})));
    let made =
        Native.manifests(DesiredCluster { cluster: &cluster, recipe: &recipe }).expect("it can be made");
    let read = |manifest: &Manifest| Native.read_object(manifest.kind, &manifest.body).expect("it is a part");
    let all: Vec<ObjectProjection> = made.iter().map(read).collect();
    let missing = |object: &[&ObjectProjection]| Native.missing_objects("fred", object);
    assert_eq!(missing(&all.iter().collect::<Vec<_>>()), Vec::<String>::new());
    let named =
        ["Deployment 'fred-w' (its workers)", "Service 'fred' (its address)", "Service 'fred-ui' (its page)"];
    assert_eq!(missing(&[&all[0]]), named);
}

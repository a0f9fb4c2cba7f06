//! The manifests of a new Spark cluster.

use muster_core::cluster::WorkerGroup;
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use serde_json::{Value, json};

use super::settings::{self, METRICS_PORT};
use super::{CLUSTER, CONFIG, MASTER, TYPE, WEB_UI, WORKER, metrics_service};
use crate::kubernetes::flavor::DesiredCluster;
use crate::kubernetes::metadata::{metadata, only_group};
use crate::kubernetes::object::{DEPLOYMENT, Manifest, ResourceKind, SERVICE};
use crate::kubernetes::pod::{self, Container};
use crate::spark::{DAEMON_MEMORY, DECOMMISSION, LIGHT, MASTER_OPTIONS};

/// The part of a pod's memory that the worker process itself needs, in MiB: its heap, and the same amount outside of
/// it.
const OVERHEAD: u64 = 2 * DAEMON_MEMORY;

/// A worker reconnects to the configured address of the Service, and not to the address of the last master's pod.
const WORKER_OPTIONS: &str = "-Dspark.worker.preferConfiguredMasterAddress=true";

/// The hook that drains a worker: SIGPWR decommissions it, and the loop waits until its executors have finished their
/// tasks, moved their blocks and exited. The brackets keep grep from finding itself.
const DRAIN: &str =
    "kill -PWR 1; while grep -qs '[C]oarseGrainedExecutorBackend' /proc/[0-9]*/cmdline; do sleep 1; done";

/// The longest name of a Service: a DNS label.
const LONGEST_SERVICE: usize = 63;

/// Seconds that a worker has to drain.
const GRACE: u64 = 60;

/// Renders the root first and the workers last: once the Deployment of the workers exists, the cluster is complete.
pub(super) fn manifests(plan: DesiredCluster<'_>, flavor: &str) -> Result<Vec<Manifest>, String> {
    let DesiredCluster { cluster, recipe } = plan;
    let group = only_group(cluster, flavor)?;
    let name = &cluster.object_name;
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(format!("'{name}' cannot be the name of a Service, which begins with a letter"));
    }
    let master = master(recipe, name);
    let image = master["containers"][0]["image"].as_str().unwrap_or_default();
    let config = settings::config(recipe, group.desired, image);
    let ui = format!("{name}-ui");
    let root = Manifest {
        owned: false,
        ..deployment(plan, &format!("{name}-m"), MASTER, &config, &master_spec(plan, &master))
    };
    let mut all = vec![
        root,
        service(plan, name, MASTER, "spark-master", 7077),
        service(plan, &ui, WEB_UI, "spark-webui", 8080),
    ];
    if recipe.spark.served_metrics().is_some() {
        let (port, number) = METRICS_PORT;
        let own = metrics_service(name);
        if own.len() > LONGEST_SERVICE {
            return Err(format!(
                "the name of Service '{own}' would have {} characters, and {LONGEST_SERVICE} are possible: choose a shorter name, \
                 or leave metrics out",
                own.len()
            ));
        }
        all.push(service(plan, &own, MASTER, port, number));
    }
    all.push(deployment(plan, &format!("{name}-w"), WORKER, "", &worker_spec(plan, group)));
    Ok(all)
}

fn master_spec(plan: DesiredCluster<'_>, pod: &Value) -> Value {
    let (labels, node) = (labels(&plan.cluster.object_name, MASTER), plan.recipe.head());
    json!({
        "replicas": 1,
        // During a rolling update, each of two masters would have a part of the workers.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": pod_metadata(&labels, &node), "spec": pod},
    })
}

fn worker_spec(plan: DesiredCluster<'_>, group: &WorkerGroup) -> Value {
    let DesiredCluster { cluster, recipe } = plan;
    let labels = labels(&cluster.object_name, WORKER);
    let node = recipe.workers(Some(group));
    let mut spec = worker(recipe, &node, &cluster.object_name);
    spec["terminationGracePeriodSeconds"] = GRACE.into();
    json!({
        "replicas": group.desired,
        "selector": {"matchLabels": labels},
        "template": {"metadata": pod_metadata(&labels, &node), "spec": spec},
    })
}

/// Disables service links: Spark would read the variables of a cluster called `spark-master` as settings.
fn pod_spec(container: &Value, node: &NodeRecipe) -> Value {
    pod::with_pod_settings(json!({"containers": [container], "enableServiceLinks": false}), node)
}

/// Returns the users' labels and annotations of a pod, with the labels of its selector.
fn pod_metadata(chosen_by: &Value, node: &NodeRecipe) -> Value {
    let mut labels = json!(node.pod.labels);
    for (key, value) in chosen_by.as_object().into_iter().flatten() {
        labels[key] = value.clone();
    }
    let mut metadata = json!({"labels": labels});
    if !node.pod.annotations.is_empty() {
        metadata["annotations"] = json!(node.pod.annotations);
    }
    metadata
}

/// Returns the spec of the master's pod.
pub(super) fn master(recipe: &ClusterRecipe, cluster: &str) -> Value {
    let files = recipe.spark.master_config.as_ref();
    let node = settings::with_files(recipe.head(), files);
    let arguments = ["--host", "$(POD_IP)", "--port", "7077", "--webui-port", "8080"];
    let mut ports = vec![pod::port("spark-master", 7077), pod::port("spark-webui", 8080)];
    ports.extend(recipe.spark.served_metrics().map(|_| pod::port(METRICS_PORT.0, METRICS_PORT.1)));
    let heap = (mebibytes(&node) / 2).max(DAEMON_MEMORY);
    let mut environment = environment(cluster, heap, &format!("{LIGHT} {MASTER_OPTIONS}"));
    environment.extend(settings::variables(&recipe.spark, files));
    let mut container = container(recipe, &node, MASTER, environment, ports);
    set_command(&mut container, "master.Master", &arguments, &node);
    probe(&mut container, "spark-webui");
    pod_spec(&container, &node)
}

/// Returns the spec of a worker's pod.
pub(super) fn worker(recipe: &ClusterRecipe, node: &NodeRecipe, cluster: &str) -> Value {
    let address = format!("spark://{cluster}:7077");
    let files = recipe.spark.worker_config.as_ref();
    let node = &settings::with_files(node.clone(), files);
    let (cores, memory) = (pod::cores(&node.shape()).to_string(), format!("{}m", executor_memory(node)));
    let arguments =
        [&address, "--host", "$(POD_IP)", "--cores", &cores, "--memory", &memory, "--webui-port", "8081"];
    let mut environment = environment(cluster, DAEMON_MEMORY, &format!("{LIGHT} {WORKER_OPTIONS}"));
    environment.extend([
        pod::variable("SPARK_MASTER_ADDRESS", &address),
        pod::variable("SPARK_MASTER_UI_ADDRESS", &format!("http://{cluster}-ui:8080")),
        // Executors do not inherit the options of the worker process.
        pod::variable("JAVA_TOOL_OPTIONS", DECOMMISSION),
    ]);
    environment.extend(settings::variables(&recipe.spark, files));
    let mut container = container(recipe, node, WORKER, environment, vec![pod::port("spark-webui", 8081)]);
    set_command(&mut container, "worker.Worker", &arguments, node);
    probe(&mut container, "spark-webui");
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", DRAIN]}}});
    pod_spec(&container, node)
}

fn container(
    recipe: &ClusterRecipe,
    node: &NodeRecipe,
    name: &str,
    environment: Vec<Value>,
    ports: Vec<Value>,
) -> Value {
    let pinned = || pod::pinned(include_str!("../../../pins/spark.txt"), "pyspark");
    let image = format!("apache/spark:{}", recipe.version.as_deref().unwrap_or_else(pinned));
    Container { name, image: &image, node, environment, ports }.json()
}

fn environment(cluster: &str, heap: u64, options: &str) -> Vec<Value> {
    vec![
        pod::variable("OSHINKO_SPARK_CLUSTER", cluster),
        pod::field("POD_IP", "status.podIP"),
        pod::variable("SPARK_NO_DAEMONIZE", "1"),
        pod::variable("SPARK_DAEMON_MEMORY", &format!("{heap}m")),
        pod::variable("SPARK_DAEMON_JAVA_OPTS", options),
    ]
}

/// Sets the command of a container: a script that replaces itself by the Java process, which then is process 1.
fn set_command(container: &mut Value, class: &str, own: &[&str], node: &NodeRecipe) {
    container["command"] = json!(["/opt/spark/bin/spark-class", format!("org.apache.spark.deploy.{class}")]);
    container["args"] = own.iter().copied().chain(node.args.iter().map(String::as_str)).collect();
}

fn probe(container: &mut Value, port: &str) {
    let page = json!({"port": port, "path": "/json/"});
    container["readinessProbe"] = json!({"httpGet": page, "periodSeconds": 2, "timeoutSeconds": 5});
    container["livenessProbe"] =
        json!({"httpGet": page, "initialDelaySeconds": 30, "periodSeconds": 20, "timeoutSeconds": 10});
}

/// Returns the memory of a node in MiB, Spark's unit.
fn mebibytes(node: &NodeRecipe) -> u64 {
    pod::memory(&node.shape()).bytes() >> 20
}

/// Returns the part of a worker's memory that is left for executors, in MiB.
fn executor_memory(node: &NodeRecipe) -> u64 {
    let all = mebibytes(node);
    all.saturating_sub(OVERHEAD).max(all / 2).max(1)
}

fn labels(cluster: &str, kind: &str) -> Value {
    json!({CLUSTER: cluster, TYPE: kind})
}

fn deployment(plan: DesiredCluster<'_>, name: &str, kind: &str, config: &str, spec: &Value) -> Manifest {
    let annotations: &[(&str, &str)] = if config.is_empty() { &[] } else { &[(CONFIG, config)] };
    manifest(&DEPLOYMENT, plan, name, kind, annotations, spec)
}

fn service(plan: DesiredCluster<'_>, name: &str, kind: &str, port: &str, number: u16) -> Manifest {
    let mut spec = json!({
        "selector": labels(&plan.cluster.object_name, MASTER),
        "ports": [{"name": port, "port": number, "targetPort": port}],
    });
    if let Some(service) = plan.recipe.head().pod.service_type {
        spec["type"] = service.into();
    }
    manifest(&SERVICE, plan, name, kind, &[], &spec)
}

fn manifest(
    kind: &'static ResourceKind,
    plan: DesiredCluster<'_>,
    name: &str,
    part: &str,
    annotations: &[(&str, &str)],
    spec: &Value,
) -> Manifest {
    let labels = [(CLUSTER, plan.cluster.object_name.as_str()), (TYPE, part)];
    let body = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": metadata(plan, name, &labels, annotations),
        "spec": spec,
    });
    Manifest { kind, body, owned: true }
}

//! The `RayCluster` of a new cluster, as KubeRay's own API server would create it.

use std::collections::BTreeMap;

use muster_core::cluster::WorkerGroup;
use muster_core::recipe::{Autoscaler, NodeRecipe};
use muster_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::version::{self, RAY_VERSION};
use super::{RAY_CLUSTER, RAY_USER};
use crate::kubernetes::flavor::DesiredCluster;
use crate::kubernetes::metadata::USER;
use crate::kubernetes::object::Manifest;
use crate::kubernetes::pod::{self, Container};

/// The annotation with the time of creation, as KubeRay's own API server writes it.
const CREATED: &str = "ray.io/creation-timestamp";

/// The annotation of clusters that serve applications.
const SERVES: &str = "ray.io/enable-serve-service";

const HEAD: &str = "ray-head";
const WORKER: &str = "ray-worker";

pub(super) fn manifests(plan: DesiredCluster<'_>) -> Result<Vec<Manifest>, String> {
    let DesiredCluster { cluster, recipe } = plan;
    let groups: Result<Vec<Value>, String> =
        cluster.groups.iter().map(|group| worker_group(plan, group)).collect();
    let mut spec = json!({"headGroupSpec": head(plan)?, "workerGroupSpecs": groups?});
    if let Some(service) = recipe.head().pod.service_type {
        spec["headGroupSpec"]["serviceType"] = service.into();
    }
    if recipe.ingress {
        spec["headGroupSpec"]["enableIngress"] = true.into();
    }
    if !recipe.service_annotations.is_empty() {
        spec["headServiceAnnotations"] = json!(recipe.service_annotations);
    }
    if let Some(autoscaler) = &recipe.autoscaler {
        spec["enableInTreeAutoscaling"] = true.into();
        let options = autoscaler_options(autoscaler);
        if !options.is_empty() {
            spec["autoscalerOptions"] = Value::Object(options);
        }
    }
    let version = version::of_new_cluster(recipe);
    if let Some(version) = &version {
        spec["rayVersion"] = version.as_str().into();
    }
    if let Some(options) = version::token(recipe, version.as_deref()) {
        spec["authOptions"] = options;
    }
    Ok(vec![manifest(plan, &version.unwrap_or_default(), &spec)])
}

/// Labels and annotations are those of KubeRay's own API server, so that each finds the clusters of the other.
fn manifest(plan: DesiredCluster<'_>, version: &str, spec: &Value) -> Manifest {
    let cluster = plan.cluster;
    let user = pod::label_safe(&cluster.user);
    let mut metadata = json!({"name": cluster.object_name, "namespace": cluster.namespace, "labels": {
        "app.kubernetes.io/managed-by": "kuberay-apiserver",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster-name": cluster.object_name,
        "ray.io/environment": plan.recipe.environment.as_deref().unwrap_or("DEV"),
        RAY_USER: user,
        RAY_VERSION: pod::label_safe(version),
    }, "annotations": {CREATED: go_time(cluster.init_at)}});
    if user != cluster.user {
        metadata["annotations"][USER] = cluster.user.as_str().into();
    }
    let body = json!({
        "apiVersion": RAY_CLUSTER.api_version(),
        "kind": RAY_CLUSTER.kind,
        "metadata": metadata,
        "spec": spec,
    });
    Manifest { kind: &RAY_CLUSTER, body, owned: false }
}

/// Returns a time as Go prints it.
fn go_time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.micros()).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%S%.f +0000 UTC").to_string()
}

fn autoscaler_options(autoscaler: &Autoscaler) -> Map<String, Value> {
    let Autoscaler {
        idle_timeout_seconds,
        upscaling_mode,
        image,
        image_pull_policy,
        cpu,
        memory,
        env,
        env_from,
        volumes,
    } = autoscaler;
    let amounts = (cpu.is_some() || memory.is_some()).then(|| {
        let cpu = cpu.map_or_else(|| "500m".to_owned(), |cpu| cpu.to_string());
        let memory = memory.map_or_else(|| "512Mi".to_owned(), |memory| memory.to_string());
        let amounts = json!({"cpu": cpu, "memory": memory});
        json!({"limits": amounts, "requests": amounts})
    });
    let list = |items: Vec<Value>| (!items.is_empty()).then_some(Value::Array(items));
    let options = [
        ("idleTimeoutSeconds", idle_timeout_seconds.map(Value::from)),
        ("upscalingMode", upscaling_mode.clone().map(Value::from)),
        ("image", image.clone().map(Value::from)),
        ("imagePullPolicy", image_pull_policy.clone().map(Value::from)),
        ("resources", amounts),
        ("env", list(env.iter().map(|(name, value)| pod::variable(name, value)).collect())),
        ("envFrom", list(env_from.iter().filter_map(pod::whole_source).collect())),
        ("volumeMounts", list(volumes.iter().map(pod::mount).collect())),
    ];
    options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the image of nodes that have none of their own.
pub(super) fn default_image(version: Option<&str>) -> String {
    let given = version.filter(|version| !version.is_empty());
    let version = given.unwrap_or_else(|| pod::pinned(include_str!("../../../pins/ray.txt"), "ray"));
    format!("rayproject/ray:{version}")
}

fn head_template(node: &NodeRecipe, version: Option<&str>, serves: bool) -> Value {
    let serve_ports = [pod::port("dashboard-agent", 52365), pod::port("serve", 8000)];
    let ports = [("redis", 6379), ("head", 10001), ("dashboard", 8265), ("metrics", 8080)];
    let ports = ports.map(|(name, number)| pod::port(name, number)).into_iter();
    let container = Container {
        name: HEAD,
        image: &default_image(version),
        node,
        environment: vec![pod::field("MY_POD_IP", "status.podIP")],
        ports: ports.chain(serve_ports.into_iter().filter(|_| serves)).collect(),
    };
    template(&container.json(), node)
}

fn worker_template(node: &NodeRecipe, version: Option<&str>) -> Value {
    let container = Container {
        name: WORKER,
        image: &default_image(version),
        node,
        environment: vec![
            pod::variable("RAY_DISABLE_DOCKER_CPU_WARNING", "1"),
            pod::variable("TYPE", "worker"),
            pod::amount("CPU_REQUEST", WORKER, "requests.cpu"),
            pod::amount("CPU_LIMITS", WORKER, "limits.cpu"),
            pod::amount("MEMORY_REQUESTS", WORKER, "requests.memory"),
            pod::amount("MEMORY_LIMITS", WORKER, "limits.memory"),
            pod::field("MY_POD_NAME", "metadata.name"),
            pod::field("MY_POD_IP", "status.podIP"),
        ],
        // KubeRay's own API server writes this port.
        ports: vec![json!({"containerPort": 80})],
    };
    let mut container = container.json();
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}});
    template(&container, node)
}

fn template(container: &Value, node: &NodeRecipe) -> Value {
    let image = node.image.clone().unwrap_or_default();
    let mut annotations = BTreeMap::from([("ray.io/compute-image".to_owned(), image)]);
    annotations.extend(node.shape.clone().map(|shape| ("ray.io/compute-template".to_owned(), shape)));
    annotations.extend(node.pod.annotations.clone());
    let mut metadata = json!({"annotations": annotations});
    if !node.pod.labels.is_empty() {
        metadata["labels"] = json!(node.pod.labels);
    }
    let spec = pod::with_pod_settings(json!({"containers": [container]}), node);
    json!({"metadata": metadata, "spec": spec})
}

/// Returns the head group: start parameters and pod template.
pub(super) fn head(plan: DesiredCluster<'_>) -> Result<Value, String> {
    let node = plan.recipe.head();
    let serves = plan.cluster.annotations.get(SERVES).is_some_and(|value| value == "true");
    // A user who gives parameters gives all of them.
    let own: &[_] = if node.pod.start_parameters.is_empty() { &[("dashboard-host", "0.0.0.0")] } else { &[] };
    Ok(json!({
        "rayStartParams": start_parameters(&node, own)?,
        "template": head_template(&node, plan.recipe.version.as_deref(), serves),
    }))
}

/// Returns the start parameters and pod template of a worker group.
pub(super) fn workers(plan: DesiredCluster<'_>, group: Option<&WorkerGroup>) -> Result<Value, String> {
    let node = plan.recipe.workers(group);
    Ok(json!({
        "rayStartParams": start_parameters(&node, &[])?,
        "template": worker_template(&node, plan.recipe.version.as_deref()),
    }))
}

fn worker_group(plan: DesiredCluster<'_>, group: &WorkerGroup) -> Result<Value, String> {
    let mut spec = workers(plan, Some(group))?;
    spec["groupName"] = group.name.as_str().into();
    spec["replicas"] = group.desired.into();
    spec["minReplicas"] = group.min.into();
    // The operator reads a missing number as no bound.
    if let Some(max) = group.max {
        spec["maxReplicas"] = max.into();
    }
    Ok(spec)
}

/// Returns the arguments of `ray start` as the operator expects them: a map of names to values.
pub(super) fn start_parameters(node: &NodeRecipe, own: &[(&str, &str)]) -> Result<Value, String> {
    let mut parameters: BTreeMap<String, String> =
        own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    parameters.extend(node.pod.start_parameters.clone());
    for argument in &node.args {
        let named = argument.strip_prefix("--").and_then(|rest| {
            let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        });
        let Some((name, value)) = named else {
            return Err(format!("argument '{argument}' is not possible: write --name=value"));
        };
        parameters.insert(name, value);
    }
    Ok(json!(parameters))
}

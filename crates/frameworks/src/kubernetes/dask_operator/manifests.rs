//! The manifests of a new Dask cluster: a root, from which the operator creates all but an autoscaler.

use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use serde_json::{Value, json};

use super::{AUTOSCALED, AUTOSCALER, CLUSTER, CLUSTER_NAME};
use crate::dask::{ROUTES, ROUTES_VARIABLE};
use crate::kubernetes::flavor::DesiredCluster;
use crate::kubernetes::metadata::{metadata, only_group};
use crate::kubernetes::object::Manifest;
use crate::kubernetes::pod::{self, Container};

pub(super) fn manifests(plan: DesiredCluster<'_>, flavor: &str) -> Result<Vec<Manifest>, String> {
    let DesiredCluster { cluster, recipe } = plan;
    let group = only_group(cluster, flavor)?;
    let (head, workers) = (recipe.head(), recipe.workers(Some(group)));
    for node in [&head, &workers] {
        if !(node.pod.labels.is_empty() && node.pod.annotations.is_empty()) {
            return Err(format!(
                "labels and annotations of a group's pods are not possible with flavor {flavor}: its operator copies \
                 those of the cluster to all of them"
            ));
        }
    }
    let marks: &[_] = if recipe.autoscaler.is_some() { &[(AUTOSCALED, "true")] } else { &[] };
    let body = json!({
        "apiVersion": CLUSTER.api_version(),
        "kind": CLUSTER.kind,
        // The operator copies these to every object that it creates.
        "metadata": metadata(plan, &cluster.object_name, &[], marks),
        "spec": {
            // With a timeout, the operator polls the scheduler, and blocks for minutes if that does not respond.
            "idleTimeout": 0,
            "scheduler": {
                "spec": scheduler(recipe),
                "service": service(&cluster.object_name, head.pod.service_type.as_deref()),
            },
            "worker": {
                "replicas": group.desired,
                "spec": worker(recipe, &workers),
            },
        },
    });
    let mut manifests = vec![Manifest { kind: &CLUSTER, body, owned: false }];
    if recipe.autoscaler.is_some() {
        let Some(max) = group.max else {
            return Err(format!("an autoscaler needs a bound: give max_replicas of group '{}'", group.name));
        };
        let body = json!({
            "apiVersion": AUTOSCALER.api_version(),
            "kind": AUTOSCALER.kind,
            "metadata": metadata(plan, &cluster.object_name, &[], &[]),
            "spec": {"cluster": cluster.object_name, "minimum": group.min, "maximum": max},
        });
        manifests.push(Manifest { kind: &AUTOSCALER, body, owned: true });
    }
    Ok(manifests)
}

/// Disables service links: Dask would read the variables of a cluster called `dask` as settings.
fn pod_spec(container: &Value, node: &NodeRecipe) -> Value {
    pod::with_pod_settings(json!({"containers": [container], "enableServiceLinks": false}), node)
}

/// Returns the spec of a scheduler's pod.
pub(super) fn scheduler(recipe: &ClusterRecipe) -> Value {
    let node = recipe.head();
    let container = Container {
        name: "scheduler",
        image: &default_image(recipe),
        node: &node,
        environment: vec![pod::variable(ROUTES_VARIABLE, ROUTES)],
        ports: vec![pod::port("tcp-comm", 8786), pod::port("http-dashboard", 8787)],
    };
    let mut container = container.json();
    container["args"] = arguments(&["dask", "scheduler", "--host", "0.0.0.0"], &node);
    let health = json!({"port": "http-dashboard", "path": "/health"});
    container["readinessProbe"] = json!({"httpGet": health, "periodSeconds": 1, "timeoutSeconds": 300});
    container["livenessProbe"] = json!({"httpGet": health, "initialDelaySeconds": 15, "periodSeconds": 20});
    pod_spec(&container, &node)
}

/// Returns the spec of a worker's pod. The worker derives its threads and memory from the limits of its container.
pub(super) fn worker(recipe: &ClusterRecipe, node: &NodeRecipe) -> Value {
    let container = Container {
        name: "worker",
        image: &default_image(recipe),
        node,
        environment: Vec::new(),
        ports: vec![pod::port("http-dashboard", 8788)],
    };
    let mut container = container.json();
    // The operator sets variables with the worker's name and the scheduler's address.
    let own = ["dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--dashboard-address", ":8788"];
    container["args"] = arguments(&own, node);
    let health = json!({"port": "http-dashboard", "path": "/health"});
    container["readinessProbe"] = json!({"httpGet": health, "periodSeconds": 5, "timeoutSeconds": 300});
    pod_spec(&container, node)
}

fn arguments(own: &[&str], node: &NodeRecipe) -> Value {
    own.iter().copied().chain(node.args.iter().map(String::as_str)).collect()
}

fn service(cluster: &str, kind: Option<&str>) -> Value {
    let port =
        |name: &str, port: u16| json!({"name": name, "protocol": "TCP", "port": port, "targetPort": name});
    json!({
        "type": kind.unwrap_or("ClusterIP"),
        "selector": {CLUSTER_NAME: cluster, "dask.org/component": "scheduler"},
        "ports": [port("tcp-comm", 8786), port("http-dashboard", 8787)],
    })
}

fn default_image(recipe: &ClusterRecipe) -> String {
    let pinned = || pod::pinned(include_str!("../../../pins/dask.txt"), "dask");
    format!("daskdev/dask:{}", recipe.version.as_deref().unwrap_or_else(pinned))
}

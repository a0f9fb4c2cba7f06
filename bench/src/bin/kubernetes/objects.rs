//! Objects as users and operators write them.

use anyhow::Result;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// The name of the worker group of every cluster.
pub(crate) const GROUP: &str = "workers";

const IMAGE: &str = "rayproject/ray:2.46.0";

pub(crate) fn ray_clusters(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
    Api::namespaced_with(client, namespace, &kind)
}

/// A cluster as a user without Muster would write it.
fn ray_cluster(name: &str, workers: u32) -> Value {
    let template = |name: &str| json!({"spec": {"containers": [container(name)]}});
    json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {
                "rayStartParams": {"dashboard-host": "0.0.0.0"},
                "template": template("ray-head"),
            },
            "workerGroupSpecs": [{
                "groupName": GROUP,
                "replicas": workers,
                "minReplicas": 0,
                "maxReplicas": workers,
                "rayStartParams": {},
                "template": template("ray-worker"),
            }],
        },
    })
}

/// Creates a cluster, with a status as if its operator had processed it.
pub(crate) async fn make(api: &Api<DynamicObject>, name: &str, workers: u32) -> Result<DynamicObject> {
    let cluster = serde_json::from_value(ray_cluster(name, workers))?;
    api.create(&PostParams::default(), &cluster).await?;
    let status = json!({"status": {"state": "ready", "observedGeneration": 1}});
    Ok(api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?)
}

/// The manifest of the same object under another name.
pub(crate) fn again(object: &DynamicObject, name: &str) -> Value {
    let (labels, annotations) = (&object.metadata.labels, &object.metadata.annotations);
    json!({
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": object.data["spec"],
    })
}

/// A pod of a cluster; the first is its head. It is not scheduled, so that no controller changes it.
pub(crate) fn pod(cluster: &str, index: u32, filler: usize) -> Value {
    let (role, group) = if index == 0 { ("head", "headgroup") } else { ("worker", GROUP) };
    json!({
        "metadata": {
            "name": pod_name(cluster, index),
            "labels": {
                "app.kubernetes.io/created-by": "kuberay-operator",
                "ray.io/cluster": cluster,
                "ray.io/group": group,
                "ray.io/is-ray-node": "yes",
                "ray.io/node-type": role,
            },
            "annotations": {"bench.example/filler": "x".repeat(filler)},
        },
        "spec": {
            "schedulingGates": [{"name": "bench.example/never"}],
            "containers": [container(&format!("ray-{role}"))],
        },
    })
}

pub(crate) fn pod_name(cluster: &str, index: u32) -> String {
    format!("{cluster}-{index}")
}

fn container(name: &str) -> Value {
    let resources = json!({"cpu": "1", "memory": "2Gi"});
    json!({"name": name, "image": IMAGE, "resources": {"requests": resources, "limits": resources}})
}

/// An operator's event about a cluster.
pub(crate) fn event(namespace: &str, cluster: &str, uid: &str, number: u32) -> Value {
    json!({
        "metadata": {"name": format!("{cluster}.{number}"), "namespace": namespace},
        "involvedObject": {
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster, "namespace": namespace, "uid": uid,
        },
        "reason": "CreatedWorkerPod",
        "message": format!("Created worker Pod {namespace}/{}", pod_name(cluster, number)),
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "raycluster-controller"},
    })
}

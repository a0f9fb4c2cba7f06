//! Renders clusters: Domino's objects as they are stored, and all other clusters in the same form.

use std::collections::HashMap;

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::domino::{FLAVOR, STARTED_BY};
use muster_core::ids::ClusterId;
use muster_core::recipe::{GivenRecipe, NodeRecipe};
use muster_core::shape::Shape;
use muster_service::owned::PresentNodes;
use serde_json::{Map, Value, json};

use super::call::ScalerCall;
use super::kind::ScalerKind;
use super::scaler_error::ScalerError;
use super::stamp;

/// The group and version of Domino's objects.
const API_VERSION: &str = "distributed-compute.dominodatalab.com/v1alpha1";

/// The fields of an object that contain secrets. Without quotes, since those within the text of an annotation are escaped.
const SECRETS: [&str; 2] = ["kerberosKeytab", "envVars"];

/// The data beside the rows of clusters that is needed to show them.
pub(super) struct Objects {
    /// The stored objects of Domino's clusters: JSON with sorted keys, as clients receive it.
    stored: HashMap<ClusterId, String>,
    nodes: PresentNodes,
    /// Clusters of other flavors, with the changes that are accepted and not applied yet.
    changed: HashMap<ClusterId, Cluster>,
    /// The resources of the heads of external clusters.
    heads: HashMap<ClusterId, Value>,
}

impl Objects {
    /// Reads the data that is needed to show these clusters.
    pub(super) async fn read(call: &ScalerCall, clusters: &[Cluster]) -> Result<Self, ScalerError> {
        let ids = |is_shown_so: &dyn Fn(&Cluster) -> bool| -> Vec<ClusterId> {
            clusters.iter().filter(|cluster| is_shown_so(cluster)).map(|cluster| cluster.id).collect()
        };
        let (domino, others) = (ids(&is_of_domino), ids(&|cluster| !is_of_domino(cluster)));
        let external = ids(&|cluster| cluster.is_external() && !is_of_domino(cluster));
        let service = call.service();
        let changed = clusters.iter().filter(|cluster| !is_of_domino(cluster)).cloned().collect();
        let changed = service.with_pending_changes(changed).await?;
        let objects = service.cluster_objects(&external).await?;
        Ok(Self {
            stored: service.cluster_object_texts(&domino).await?,
            nodes: service.present_nodes(&others).await?,
            changed: changed.into_iter().map(|cluster| (cluster.id, cluster)).collect(),
            heads: objects
                .iter()
                .filter_map(|(id, object)| Some((*id, head_resources(call.kind, object)?)))
                .collect(),
        })
    }

    /// Returns the stored object of a cluster of Domino.
    pub(super) fn stored(&self, cluster: &Cluster) -> Option<Value> {
        serde_json::from_str(self.stored.get(&cluster.id)?).ok()
    }

    /// Returns a cluster in the form of Domino's objects.
    pub(super) fn value(&mut self, call: &ScalerCall, cluster: &Cluster) -> Value {
        self.stored(cluster).unwrap_or_else(|| self.render(call, cluster))
    }

    /// Returns a cluster in the form of Domino's objects, as JSON text.
    pub(super) fn show(&mut self, call: &ScalerCall, cluster: &Cluster) -> String {
        match self.stored.remove(&cluster.id) {
            Some(stored) => stored,
            None => self.render(call, cluster).to_string(),
        }
    }

    fn render(&mut self, call: &ScalerCall, cluster: &Cluster) -> Value {
        let nodes = self.nodes.remove(&cluster.id).unwrap_or_default();
        let cluster = self.changed.get(&cluster.id).unwrap_or(cluster);
        let mut object = rendered(call.kind, call.api.settings.max_replicas, cluster, &nodes);
        let given = GivenRecipe::stored_in(&cluster.spec).head.shape();
        if let Some(resources) = self.heads.get(&cluster.id).filter(|_| given == Shape::default()) {
            object["spec"][call.kind.head()]["resources"] = resources.clone();
        }
        object
    }
}

/// Returns an object without its secrets.
pub(super) fn without_secrets(json: String) -> String {
    if !may_have_secrets(&json) {
        return json;
    }
    let mut object = serde_json::from_str(&json).unwrap_or_default();
    blank_secrets(&mut object);
    object.to_string()
}

pub(super) fn is_of_domino(cluster: &Cluster) -> bool {
    cluster.flavor.as_deref() == Some(FLAVOR)
}

/// Returns the namespace that is shown for a cluster: that of Domino's object, else the project.
pub(super) fn namespace(cluster: &Cluster) -> &str {
    if is_of_domino(cluster) { &cluster.namespace } else { &cluster.project }
}

/// Returns the largest number of workers that a cluster may be scaled to.
pub(super) fn max_replicas(cluster: &Cluster, ceiling: u32) -> u32 {
    cluster.max_size().unwrap_or_else(|| ceiling.max(cluster.desired()))
}

/// Renders a cluster of another flavor in the form of Domino's objects. No autoscaler reduces its size, so the size is
/// shown as the minimum.
fn rendered(kind: ScalerKind, ceiling: u32, cluster: &Cluster, nodes: &[String]) -> Value {
    let size = cluster.desired();
    let mut labels = json!(cluster.labels);
    labels[STARTED_BY] = cluster.owner.id.clone().into();
    let given = GivenRecipe::stored_in(&cluster.spec);
    let workers = cluster.groups.first().map(NodeRecipe::of_group).unwrap_or_default();
    let mut worker = node(&workers);
    worker.insert("replicas".to_owned(), size.into());
    json!({
        "apiVersion": API_VERSION,
        "kind": kind.object_kind(),
        "metadata": {
            "name": cluster.name,
            "namespace": namespace(cluster),
            "uid": cluster.id.to_string(),
            "creationTimestamp": stamp::show(stamp::whole_seconds(cluster.init_at)),
            "generation": cluster.generation,
            "labels": labels,
            "annotations": cluster.annotations,
        },
        "spec": {
            "autoscaling": {
                "minReplicas": size.max(1),
                "maxReplicas": max_replicas(cluster, ceiling),
            },
            kind.head(): node(&given.head),
            "worker": worker,
        },
        "status": {
            "clusterStatus": state(cluster.status),
            "reason": cluster.status_reason,
            "startTime": cluster.created_at.map(|at| stamp::show(stamp::whole_seconds(at))),
            "nodes": nodes,
            "workerReplicas": cluster.observed.ready_workers,
        },
    })
}

/// Returns the resources of the head in an object of another operator.
fn head_resources(kind: ScalerKind, object: &Value) -> Option<Value> {
    let pod = match kind {
        ScalerKind::Ray => "/spec/headGroupSpec/template/spec",
        ScalerKind::Dask => "/spec/scheduler/spec",
        ScalerKind::Spark => return None,
    };
    let given = object.pointer(pod)?.pointer("/containers/0/resources")?;
    let side = |side: &str| given.get(side).cloned().unwrap_or_else(|| json!({}));
    Some(json!({"requests": side("requests"), "limits": side("limits")}))
}

/// Converts the status of a cluster to Domino's states.
const fn state(status: ClusterStatus) -> &'static str {
    match status {
        ClusterStatus::Init => "Pending",
        ClusterStatus::Creating => "Starting",
        ClusterStatus::Deleting | ClusterStatus::Deleted => "Stopping",
        ClusterStatus::Error | ClusterStatus::Critical => "Failed",
        _ => "Running",
    }
}

fn node(recipe: &NodeRecipe) -> Map<String, Value> {
    let shape = recipe.shape();
    let mut node = Map::new();
    node.insert("resources".to_owned(), resources(&shape));
    node.insert("labels".to_owned(), json!(recipe.pod.labels));
    node.insert("nodeSelector".to_owned(), json!(shape.selectors));
    node
}

fn resources(shape: &Shape) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    if let Some(cpu) = shape.cpu {
        requests.insert("cpu".to_owned(), cpu.to_string().into());
    }
    if let Some(memory) = shape.memory {
        requests.insert("memory".to_owned(), memory.to_string().into());
    }
    if let Some(gpu) = shape.gpu.filter(|gpu| *gpu > 0) {
        for side in [&mut requests, &mut limits] {
            side.insert(shape.gpu_resource().to_owned(), gpu.to_string().into());
        }
    }
    if let Some(cpu) = shape.limits.cpu {
        limits.insert("cpu".to_owned(), cpu.to_string().into());
    }
    if let Some(memory) = shape.limits.memory {
        limits.insert("memory".to_owned(), memory.to_string().into());
    }
    json!({"requests": requests, "limits": limits})
}

/// Returns true if an object may contain secrets. Other objects need not be parsed.
fn may_have_secrets(object: &str) -> bool {
    SECRETS.iter().any(|field| object.contains(field))
}

/// The annotation in which kubectl stores a copy of the applied object, including secrets.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes the secrets of an object, for lists.
fn blank_secrets(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(APPLIED);
    }
    if let Some(contents) = object.pointer_mut("/spec/kerberosKeytab/contents") {
        *contents = "".into();
    }
    let variables = object.pointer_mut("/spec/envVars").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            *value = "".into();
        }
    }
}

#[cfg(test)]
mod tests;

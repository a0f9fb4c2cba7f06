//! Clusters as this API shows them: Domino's objects as they are stored, and all others in the same form.

use std::collections::HashMap;

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::domino::{FLAVOR, STARTED_BY};
use muster_core::ids::ClusterId;
use muster_core::recipe::{GivenRecipe, NodeRecipe};
use muster_core::shape::Shape;
use muster_service::owned::PresentNodes;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::kind::Kind;
use super::scaler_error::ScalerError;
use super::stamp;

/// The group and version of Domino's objects.
const API_VERSION: &str = "distributed-compute.dominodatalab.com/v1alpha1";

/// The fields of an object that have secrets.
const SECRETS: [&str; 2] = ["\"kerberosKeytab\"", "\"envVars\""];

/// Clusters and what is known of them beside their rows.
pub(super) struct Objects {
    /// JSON with sorted keys, as clients see it.
    stored: HashMap<ClusterId, String>,
    nodes: PresentNodes,
    /// Clusters of others with the changes that are not in their rows yet.
    changed: HashMap<ClusterId, Cluster>,
    /// The resources of heads that others described.
    heads: HashMap<ClusterId, Value>,
}

impl Objects {
    /// Reads what is needed to show these clusters.
    pub(super) async fn read(call: &Call, clusters: &[Cluster]) -> Result<Self, ScalerError> {
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

    /// The stored object of a cluster of Domino.
    pub(super) fn stored(&self, cluster: &Cluster) -> Option<Value> {
        serde_json::from_str(self.stored.get(&cluster.id)?).ok()
    }

    /// A cluster as it is shown.
    pub(super) fn value(&mut self, call: &Call, cluster: &Cluster) -> Value {
        self.stored(cluster).unwrap_or_else(|| self.render(call, cluster))
    }

    /// The same as JSON.
    pub(super) fn show(&mut self, call: &Call, cluster: &Cluster) -> String {
        match self.stored.remove(&cluster.id) {
            Some(stored) => stored,
            None => self.render(call, cluster).to_string(),
        }
    }

    fn render(&mut self, call: &Call, cluster: &Cluster) -> Value {
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

/// An object without its secrets.
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

/// The namespace of a cluster as this API shows it: that of Domino's object, else the project.
pub(super) fn namespace(cluster: &Cluster) -> &str {
    if is_of_domino(cluster) { &cluster.namespace } else { &cluster.project }
}

/// The most workers that a cluster may be scaled to.
pub(super) fn max_replicas(cluster: &Cluster, ceiling: u32) -> u32 {
    cluster.max_size().unwrap_or_else(|| ceiling.max(cluster.desired()))
}

/// A cluster of another provider in the form of Domino's objects. Nothing scales it below its size, so that is its least
/// number of workers.
fn rendered(kind: Kind, ceiling: u32, cluster: &Cluster, nodes: &[String]) -> Value {
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

/// The resources of the head that an object of another operator describes.
fn head_resources(kind: Kind, object: &Value) -> Option<Value> {
    let pod = match kind {
        Kind::Ray => "/spec/headGroupSpec/template/spec",
        Kind::Dask => "/spec/scheduler/spec",
        Kind::Spark => return None,
    };
    let given = object.pointer(pod)?.pointer("/containers/0/resources")?;
    let side = |side: &str| given.get(side).cloned().unwrap_or_else(|| json!({}));
    Some(json!({"requests": side("requests"), "limits": side("limits")}))
}

/// The state of a cluster in Domino's words.
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

/// Whether an object has one of the fields with secrets. Others need not be parsed.
fn may_have_secrets(object: &str) -> bool {
    SECRETS.iter().any(|field| object.contains(field))
}

/// Where kubectl keeps a copy of the object that it applied, secrets too.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Blanks the secrets of an object, for lists.
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

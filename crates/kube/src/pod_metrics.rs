//! What pods use, as the metrics API of Kubernetes says: there where metrics-server, or another program that serves it,
//! is installed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use http::Request;
use kube::Client;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::quantity::{Cpu, Memory};
use muster_engine::ports::node_meter::{NodeMeter, NodeUsage};
use muster_engine::ports::provider::{ClusterTarget, ProviderError};
use serde::Deserialize;

use crate::errors;

/// How long the API may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The metrics API is not served.
const METRICS_SERVER_MISSING: &str = "MetricsServerMissing";

/// Reads metrics of pods.
pub(crate) struct PodMetrics {
    client: Client,
}

impl PodMetrics {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    async fn of_namespace(&self, namespace: &str) -> Result<HashMap<String, NodeUsage>, ProviderError> {
        let what = format!("read the metrics of pods in namespace '{namespace}'");
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| ProviderError::permanent("Invalid", error.to_string()))?;
        let list = tokio::time::timeout(PATIENCE, self.client.request::<PodList>(request));
        match list.await {
            Ok(Ok(list)) => {
                Ok(list.items.into_iter().map(|pod| (pod.metadata.name.clone(), pod.usage())).collect())
            }
            // Registered, and its program does not run.
            Ok(Err(error)) if errors::has_status(&error, 404) || errors::has_status(&error, 503) => {
                Err(missing())
            }
            // A caller that asks again gets the same answer.
            Ok(Err(error)) => Err(ProviderError { transient: false, ..errors::request_error(&what, error) }),
            Err(_) => Err(errors::timeout_error(&what)),
        }
    }
}

fn missing() -> ProviderError {
    ProviderError::permanent(
        METRICS_SERVER_MISSING,
        "this Kubernetes serves no metrics of pods (metrics.k8s.io): install metrics-server, or use the dashboard of the \
         cluster",
    )
}

#[async_trait]
impl NodeMeter for PodMetrics {
    async fn measure(
        &self,
        _: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, NodeUsage>, ProviderError> {
        let mut usage = HashMap::new();
        for (namespace, nodes) in by_namespace(nodes) {
            let metrics = self.of_namespace(namespace).await?;
            let measured = |(pod, node): (&str, NodeId)| Some((node, *metrics.get(pod)?));
            usage.extend(nodes.into_iter().filter_map(measured));
        }
        Ok(usage)
    }
}

/// The pods of nodes by their namespaces: a node without a pod is left out.
fn by_namespace(nodes: &[Node]) -> BTreeMap<&str, Vec<(&str, NodeId)>> {
    let mut found: BTreeMap<&str, Vec<(&str, NodeId)>> = BTreeMap::new();
    for node in nodes {
        let mut parts = node.physical_id.as_deref().unwrap_or_default().split('/');
        if let (Some(namespace), Some(pod)) = (parts.next(), parts.next()) {
            found.entry(namespace).or_default().push((pod, node.id));
        }
    }
    found
}

#[derive(Debug, Deserialize)]
struct PodList {
    items: Vec<MeasuredPod>,
}

#[derive(Debug, Deserialize)]
struct MeasuredPod {
    metadata: MeasuredPodMetadata,
    #[serde(default)]
    containers: Vec<MeasuredContainer>,
}

#[derive(Debug, Deserialize)]
struct MeasuredPodMetadata {
    name: String,
}

#[derive(Debug, Deserialize)]
struct MeasuredContainer {
    #[serde(default)]
    usage: MeasuredAmounts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MeasuredAmounts {
    cpu: Cpu,
    memory: Memory,
}

impl MeasuredPod {
    /// The sum of its containers.
    fn usage(&self) -> NodeUsage {
        self.containers.iter().fold(NodeUsage::default(), |sum, MeasuredContainer { usage }| NodeUsage {
            cpu: Cpu::from_millis(sum.cpu.millis().saturating_add(usage.cpu.millis())),
            memory: Memory::from_bytes(sum.memory.bytes().saturating_add(usage.memory.bytes())),
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_containers_of_a_pod_are_summed() {
        let list = json!({"kind": "PodMetricsList", "items": [
            {"metadata": {"name": "fred-head"}, "timestamp": "2026-01-01T00:00:00Z", "window": "15s", "containers": [
                {"name": "ray", "usage": {"cpu": "156340063n", "memory": "10Mi"}},
                {"name": "sidecar", "usage": {"cpu": "2", "memory": "1024Ki"}},
            ]},
            {"metadata": {"name": "ended"}, "containers": []},
        ]});
        let list: PodList = serde_json::from_value(list).unwrap();
        let usage: Vec<NodeUsage> = list.items.iter().map(MeasuredPod::usage).collect();
        let head = NodeUsage { cpu: Cpu::from_millis(2_157), memory: Memory::from_bytes(11 << 20) };
        assert_eq!(usage, [head, NodeUsage::default()]);
    }

    #[test]
    fn nodes_are_found_by_the_namespace_and_the_name_of_their_pods() {
        let node = |index: u32, pod: Option<&str>| Node {
            physical_id: pod.map(str::to_owned),
            ..sample::node(index)
        };
        let nodes =
            [node(1, Some("a/one")), node(2, Some("b/two/uid")), node(3, None), node(4, Some("a/four"))];
        let found = by_namespace(&nodes);
        assert_eq!(found["a"], [("one", nodes[0].id), ("four", nodes[3].id)]);
        assert_eq!((&found["b"], found.len()), (&vec![("two", nodes[1].id)], 2));
    }
}

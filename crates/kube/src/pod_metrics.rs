//! Measurement of the CPU and memory that pods use, by the metrics API (`metrics.k8s.io`), which metrics-server or
//! another program has to serve.

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

use crate::cluster_identity::IdentityGate;
use crate::errors;

/// The time-out of a request to the metrics API: a caller waits for the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reason of the error where no program serves the metrics API.
const METRICS_SERVER_MISSING: &str = "MetricsServerMissing";

/// Measures nodes by the metrics of their pods.
pub(crate) struct PodMetrics {
    client: Client,
    identity_gate: IdentityGate,
}

impl PodMetrics {
    pub(crate) const fn new(client: Client, identity_gate: IdentityGate) -> Self {
        Self { client, identity_gate }
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
            // No program is registered for the metrics API.
            Ok(Err(error)) if errors::has_status(&error, 404) => Err(missing()),
            Ok(Err(error)) => Err(errors::request_error(&what, error)),
            // The client retries while the registered program does not run, perhaps because it is being restarted.
            Err(_) => {
                let mut late = errors::timeout_error(&what);
                late.message += ": check that metrics-server runs";
                Err(late)
            }
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
        // The API server of another Kubernetes may have pods of the same names.
        self.identity_gate.check()?;
        let mut usage = HashMap::new();
        for (namespace, nodes) in by_namespace(nodes) {
            let metrics = self.of_namespace(namespace).await?;
            let measured = |(pod, node): (&str, NodeId)| Some((node, *metrics.get(pod)?));
            usage.extend(nodes.into_iter().filter_map(measured));
        }
        Ok(usage)
    }
}

/// Groups the pods of nodes by namespace. Nodes without a pod are left out.
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
    /// Returns the sum of the usage of all containers.
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
    use muster_testkit::outside::Outside;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    async fn refusal(metrics: &PodMetrics) -> ProviderError {
        let (cluster, profile) = (sample::cluster(1, 0, None), sample::profile());
        let nodes = [Node { physical_id: Some("demo/fred".to_owned()), ..sample::node(0) }];
        let target = ClusterTarget { cluster: &cluster, profile: &profile };
        metrics.measure(target, &nodes).await.expect_err("it is refused")
    }

    #[rstest]
    #[case::not_registered(404, METRICS_SERVER_MISSING, false, "install metrics-server")]
    #[case::restarting(503, "NotNow", true, "denied")]
    #[case::forbidden(403, "Forbidden", false, "denied")]
    #[tokio::test]
    async fn only_an_unregistered_metrics_api_is_missing(
        #[case] status: u16,
        #[case] reason: &str,
        #[case] transient: bool,
        #[case] advice: &str,
    ) {
        let body = json!({"code": status, "message": "denied"}).to_string();
        let api_server = Outside::start(status, &body).await;
        let metrics = PodMetrics::new(crate::sample::client(&api_server), IdentityGate::open());
        let error = refusal(&metrics).await;
        assert_eq!((error.reason.as_str(), error.transient), (reason, transient), "{}", error.message);
        assert!(error.message.contains(advice), "{}", error.message);
    }

    #[tokio::test]
    async fn nothing_is_measured_on_a_kubernetes_whose_identity_is_not_confirmed() {
        let mut api_server = Outside::start(200, r#"{"items": []}"#).await;
        let gate = IdentityGate::closed("no answer");
        let error = refusal(&PodMetrics::new(crate::sample::client(&api_server), gate)).await;
        assert_eq!((error.message.as_str(), error.transient), ("no answer", true));
        assert_eq!(api_server.received(), []);
    }

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

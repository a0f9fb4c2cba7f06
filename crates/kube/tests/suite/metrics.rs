//! Measurements of nodes, on a Kubernetes that serves no metrics.

use muster_core::cluster::Framework;
use muster_testkit::Operator;

use crate::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn without_metrics_of_pods_it_is_said_what_to_install() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let nodes = harness.nodes(cluster.id).await;
    assert!(nodes.iter().any(|node| node.physical_id.is_some()), "{nodes:?}");
    let refused = harness.engine.node_usage(&cluster, &nodes).await.unwrap_err().to_string();
    assert!(refused.contains("metrics.k8s.io") && refused.contains("install metrics-server"), "{refused}");
}

//! Clusters of Domino, with the rights of the chart.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use muster_testkit::Operator;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;

const GROUP: &str = "distributed-compute.dominodatalab.com";

#[rstest]
#[case("RayCluster", json!({}))]
#[case("DaskCluster", json!({}))]
#[case(
    "SparkCluster",
    json!({"workerMemoryLimit": "3Gi", "driver": {"selector": {"app.kubernetes.io/instance": "driver-pod"}}})
)]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_a_cluster_of_domino(
    #[case] kind: &str,
    #[case] mut spec: Value,
) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_) = kubernetes.operator(Operator::Domino).await else { return };
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    spec["worker"] = json!({"replicas": 1, "resources": {"requests": {"cpu": "250m", "memory": "250Mi"}}});
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind));
    let theirs = DynamicObject::new("theirs", &resource).data(json!({"spec": spec}));
    let objects: Api<DynamicObject> =
        Api::namespaced_with(harness.kubernetes.client(), harness.namespace.name(), &resource);
    objects.create(&PostParams::default(), &theirs).await.unwrap();

    let found = harness.server.discovered(harness.namespace.name(), "theirs").await;
    assert_eq!(found["flavor"], "domino", "{found}");
    for (what, (status, answer)) in [
        ("grows", harness.scale("theirs", 2).await),
        ("shrinks", harness.scale("theirs", 1).await),
        ("gets another head", harness.restart_head("theirs").await),
    ] {
        assert_eq!(status, 200, "{what}: {answer}");
        assert_eq!(
            (&answer["state"], &answer["readyWorkers"]),
            (&json!("ACTIVE"), &answer["desiredWorkers"])
        );
    }
    harness.delete("theirs").await;
    assert!(objects.get_opt("theirs").await.unwrap().is_none());
}

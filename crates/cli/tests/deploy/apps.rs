//! Apps with the rights of the chart, from the manifests in `deploy/examples`.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use muster_testkit::eventually;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, WAIT};
use crate::server::TIMEOUT;

const DEPLOYMENT: &str = include_str!("../../../../deploy/examples/deployment.yaml");
const STATEFUL_SET: &str = include_str!("../../../../deploy/examples/statefulset.yaml");
const JOB: &str = include_str!("../../../../deploy/examples/job.yaml");

#[rstest]
#[case("apps", "Deployment", DEPLOYMENT)]
#[case("apps", "StatefulSet", STATEFUL_SET)]
#[case("batch", "Job", JOB)]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_the_drivers_of_the_examples(
    #[case] group: &str,
    #[case] kind: &str,
    #[case] example: &str,
) {
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    let mut object: Value = serde_saphyr::from_str(example).expect("YAML");
    // The test simulates the kubelet of these pods.
    object["spec"]["template"]["metadata"]["labels"]["muster.test/driver"] = "true".into();
    if kind != "Job" {
        object["spec"]["selector"]["matchLabels"]["muster.test/driver"] = "true".into();
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let apps: Api<DynamicObject> =
        Api::namespaced_with(harness.kubernetes.client(), harness.namespace.name(), &resource);
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    apps.create(&PostParams::default(), &object).await.expect("the example is accepted");
    let pods = harness.namespace.api::<Pod>();
    let pod = eventually("a driver pod", TIMEOUT, async || {
        let found = pods.list(&ListParams::default()).await.expect("a list").items;
        found.into_iter().find_map(|pod| pod.metadata.name).ok_or("there is none yet")
    })
    .await;
    let register = format!("/namespaces/{}/apps", harness.namespace.name());
    let body = json!({"app": format!("pod/{pod}"), "provider": "kubernetes", "cluster": "cluster-abc123"});
    let registered = harness.server.core(Method::POST, &register, Some(&body)).await;
    assert_eq!(registered["cluster"], "cluster-abc123", "{registered}");
    let app = format!(
        "{}/{}",
        registered["kind"].as_str().expect("a kind"),
        registered["name"].as_str().expect("a name")
    );
    let cluster = json!({"name": "cluster-abc123", "framework": "spark", "app": app, "ephemeral": true,
                         "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 0}]}});
    let created = harness.create(&cluster).await;
    assert_eq!((&created["ephemeral"], &created["app"]), (&json!(true), &registered["name"]), "{created}");
    // The next driver of the same app finds the same cluster.
    let body = json!({"app": app, "provider": "kubernetes", "cluster": "cluster-other"});
    let again = harness.server.core(Method::POST, &register, Some(&body)).await;
    assert_eq!((&again["id"], &again["cluster"]), (&registered["id"], &json!("cluster-abc123")), "{again}");
    let path =
        format!("{}/cluster-abc123?app={pod}&app_status=completed&exit_code=0&{WAIT}", harness.clusters());
    harness.server.core(Method::DELETE, &path, None).await;
    apps.delete(object.metadata.name.as_deref().expect("a name"), &DeleteParams::background())
        .await
        .expect("deleted");
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete_collection(&now, &ListParams::default()).await.expect("pods can be deleted");
}

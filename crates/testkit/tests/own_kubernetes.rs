//! The components of a Kubernetes of one test can be killed and started again.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use muster_testkit::{Component, Kubernetes, Namespace, Operator};
use serde_json::{Value, json};

/// A time limit for operators and kwok, which need up to 90 seconds to reconnect to a restarted API server.
const RECOVERY: Duration = Duration::from_mins(3);

fn custom(kubernetes: &Kubernetes, namespace: &Namespace, kind: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(kubernetes.client(), namespace.name(), kind)
}

fn ray_cluster() -> (ApiResource, DynamicObject) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
    let template = json!({"spec": {"containers": [{"name": "ray", "image": "example.test/it:1"}]}});
    let spec = json!({"headGroupSpec": {"rayStartParams": {}, "template": template}});
    let object = DynamicObject::new("fred", &kind).data(json!({"spec": spec}));
    (kind, object)
}

fn is_ready(cluster: &DynamicObject) -> bool {
    cluster.data.pointer("/status/state").and_then(Value::as_str) == Some("ready")
}

async fn serves(client: &Client, group: &str) -> bool {
    let groups = client.list_api_groups().await.expect("the API server lists its groups").groups;
    groups.iter().any(|served| served.name == group)
}

#[tokio::test]
async fn custom_resources_come_without_their_operator_and_it_takes_care_of_them_later() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    assert!(!serves(&own.client(), "ray.io").await);

    let Some(()) = own.custom_resources(Operator::KubeRay).await else { return };
    assert!(serves(&own.client(), "ray.io").await);
    let namespace = own.namespace().await;
    let (kind, object) = ray_cluster();
    let clusters = custom(&own, &namespace, &kind);
    clusters.create(&PostParams::default(), &object).await.unwrap();

    let Some(_kuberay) = own.operator(Operator::KubeRay).await else { return };
    namespace.wait("it is taken care of", &clusters, "fred", RECOVERY, is_ready).await;
}

#[tokio::test]
async fn an_api_server_that_was_killed_comes_back_with_its_data_and_the_others_find_it() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(_kuberay) = own.operator(Operator::KubeRay).await else { return };
    let namespace = own.namespace().await;
    let maps = namespace.api::<ConfigMap>();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "kept"}})).unwrap();
    let made = maps.create(&PostParams::default(), &map).await.unwrap();

    own.kill(Component::ApiServer).await;
    assert!(maps.get("kept").await.is_err(), "no server answers");
    own.start(Component::ApiServer).await;

    assert_eq!(maps.get("kept").await.unwrap().metadata.uid, made.metadata.uid);
    let pods = namespace.api::<Pod>();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "later"},
        "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    namespace.wait("scheduler and kwok are back", &pods, "later", RECOVERY, runs).await;
    let (kind, object) = ray_cluster();
    let clusters = custom(&own, &namespace, &kind);
    clusters.create(&PostParams::default(), &object).await.unwrap();
    namespace.wait("the operator is back", &clusters, "fred", RECOVERY, is_ready).await;
}

#[tokio::test]
async fn an_operator_can_be_frozen_and_killed_and_is_itself_again_afterwards() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(_domino) = own.operator(Operator::Domino).await else { return };
    let namespace = own.namespace().await;
    let domino = Component::Operator(Operator::Domino);
    let group = "distributed-compute.dominodatalab.com";
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", "DaskCluster"));
    let clusters = custom(&own, &namespace, &kind);
    let spec = json!({"worker": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}});
    let object = DynamicObject::new("fred", &kind).data(json!({"spec": spec}));
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    let refused = async || {
        let refusal = clusters.create(&rehearsal, &object).await.expect_err("no webhook answers");
        let kube::Error::Api(status) = refusal else { panic!("not an answer of the API server: {refusal}") };
        assert_eq!(status.code, 500, "{status:?}");
        assert!(status.message.contains("failed calling webhook"), "{status:?}");
    };

    clusters.create(&rehearsal, &object).await.unwrap();
    own.freeze(domino).await;
    refused().await;
    own.thaw(domino).await;
    clusters.create(&rehearsal, &object).await.unwrap();
    own.kill(domino).await;
    refused().await;
    own.start(domino).await;
    clusters.create(&rehearsal, &object).await.unwrap();
}

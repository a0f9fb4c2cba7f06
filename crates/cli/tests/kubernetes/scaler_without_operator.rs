//! The scaler API with objects that the real operator's rules forbid, on an API server without that operator.

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use muster_testkit::{FakeDomino, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::scaler::{GROUP, USER, refused};
use crate::server::{Server, TIMEOUT};

/// A kind of Domino without validation rules.
fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": format!("rayclusters.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "RayCluster", "plural": "rayclusters", "singular": "raycluster"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.worker.replicas", "statusReplicasPath": ".status.workerReplicas",
                }},
            }],
        },
    })
}

#[tokio::test]
async fn every_object_is_scaled_as_far_as_possible() {
    let Some(kubernetes) = muster_testkit::own_kubernetes().await else { return };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definitions: Api<DynamicObject> = Api::all_with(kubernetes.client(), &resource);
    let definition: DynamicObject = serde_json::from_value({
        let mut definition = definition();
        definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
        definition["kind"] = "CustomResourceDefinition".into();
        definition
    })
    .expect("a definition");
    definitions.create(&PostParams::default(), &definition).await.expect("it is accepted");
    let namespace = kubernetes.namespace().await;
    let domino = FakeDomino::start().await;
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path").to_owned();
    let server = Server::start(&[
        "--dev",
        "--kubeconfig",
        &kubeconfig,
        "--namespace",
        namespace.name(),
        "--auth",
        "domino",
        "--domino-url",
        &domino.url(),
        "--compute-namespace",
        namespace.name(),
    ])
    .await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "RayCluster"));
    let objects: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), namespace.name(), &resource);
    let client = reqwest::Client::new();
    let send = async |method: Method, path: String, body: Value| {
        let request = client.request(method, format!("{}/ddl_cluster_scaler{path}", server.rest));
        let response = request.header("X-Domino-Api-Key", "ann").json(&body).send().await.expect("an answer");
        (response.status().as_u16(), response.json::<Value>().await.expect("JSON"))
    };
    let create = async |name: &str, spec: Value| {
        let mut object = DynamicObject::new(name, &resource).data(json!({"spec": spec}));
        object.metadata.labels = Some([(USER.to_owned(), "id-ann".to_owned())].into());
        eventually("the kind is served", TIMEOUT, async || {
            objects.create(&PostParams::default(), &object).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        eventually("the cluster is discovered", TIMEOUT, async || {
            let answer = send(Method::GET, format!("/cluster/rayclusters/{name}"), json!({})).await;
            if answer.0 == 200 { Ok(()) } else { Err(answer.1) }
        })
        .await;
    };
    let scale =
        async |name: &str, body: Value| send(Method::PATCH, format!("/scale/rayclusters/{name}"), body).await;
    let spec = async |name: &str| objects.get(name).await.expect("it exists").data["spec"].clone();

    create("fixed", json!({"worker": {"replicas": 1}, "head": {}})).await;
    let answer = scale("fixed", json!({"replicas": 2})).await;
    assert_eq!(refused(&answer), (409, "not_scalable"), "{answer:?}");
    create("boundless", json!({"worker": {"replicas": 1}, "autoscaling": {"minReplicas": 1}})).await;
    let answer = scale("boundless", json!({"replicas": 2})).await;
    assert_eq!(refused(&answer), (409, "invalid_autoscaling"), "{answer:?}");
    let tier = json!({"head_hw_tier_name": "Small"});
    let answer = send(Method::PATCH, "/head-hw-tier/rayclusters/boundless".to_owned(), tier).await;
    assert_eq!(refused(&answer), (409, "not_supported"), "{answer:?}");

    create("workerless", json!({"autoscaling": {"maxReplicas": 5}, "head": {}})).await;
    let (status, body) = scale("workerless", json!({"replicas": 3, "worker_hw_tier_name": "Small"})).await;
    assert_eq!((status, &body["effective_replicas"]), (200, &json!(3)), "{body}");
    assert_eq!(body["ignored_hw_tier"]["name"], "Small", "{body}");
    assert_eq!(
        spec("workerless").await,
        json!({"autoscaling": {"minReplicas": 3, "maxReplicas": 5}, "head": {}})
    );
    let (status, body) = scale("workerless", json!({"replicas": 0})).await;
    assert_eq!((status, &body["effective_replicas"]), (200, &json!(0)), "{body}");
    assert_eq!(spec("workerless").await["autoscaling"], json!({"minReplicas": 1, "maxReplicas": 5}));

    // No operator creates pods here: no change waits for the pods of the last one.
    create("mine", json!({"autoscaling": {"minReplicas": 1, "maxReplicas": 5}, "worker": {"replicas": 3}}))
        .await;
    for replicas in [3, 5, 2, 0, 4] {
        let (status, body) = scale("mine", json!({"replicas": replicas})).await;
        assert_eq!(status, 200, "{body}");
        let spec = spec("mine").await;
        assert_eq!(spec["worker"]["replicas"], replicas);
        assert_eq!(spec["autoscaling"]["minReplicas"], replicas.max(1), "also where the number stays");
    }
    let at_once =
        futures::future::join_all((1..=5).map(|replicas| scale("mine", json!({"replicas": replicas})))).await;
    assert!(at_once.iter().all(|(status, _)| *status == 200), "{at_once:?}");

    objects.delete("mine", &DeleteParams::default()).await.expect("it is deleted");
    let answer = scale("mine", json!({"replicas": 1})).await;
    assert_eq!(refused(&answer), (404, "not_found"), "{answer:?}");
}

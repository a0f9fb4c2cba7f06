//! Existing KubeRay clients: omitted fields, and requests that Kubernetes refuses.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::Server;

/// The path of the namespace in the API of existing clients.
fn namespace(harness: &Harness) -> String {
    format!("/apis/v1/namespaces/{}", harness.namespace.name())
}

async fn call(server: &Server, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
    let response = server.call_at(method, path, body).await;
    (response.status(), response.json().await.expect("JSON"))
}

async fn create_template(harness: &Harness, server: &Server) {
    let template = json!({"name": "t", "namespace": harness.namespace.name(), "cpu": 1, "memory": 1});
    let path = format!("{}/compute_templates", namespace(harness));
    let (status, body) = call(server, Method::POST, &path, Some(template)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

fn bare(harness: &Harness, name: &str) -> Value {
    json!({
        "name": name, "namespace": harness.namespace.name(), "user": "ada",
        "clusterSpec": {
            "headGroupSpec": {"computeTemplate": "t", "rayStartParams": {"num-cpus": "0"}},
            "workerGroupSpec": [],
        },
    })
}

#[tokio::test]
async fn omitted_fields_stay_out_of_the_object() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    create_template(&harness, &server).await;
    let clusters = format!("{}/clusters", namespace(&harness));
    let (status, created) = call(&server, Method::POST, &clusters, Some(bare(&harness, "bare"))).await;
    assert_eq!(status, StatusCode::OK, "{created}");
    assert_eq!(
        (created.get("version"), created["clusterSpec"].get("workerGroupSpec")),
        (None, None),
        "{created}"
    );
    let object = harness.ray_clusters().get("bare").await.expect("its object");
    let spec = &object.data["spec"];
    assert_eq!((&spec["rayVersion"], spec.get("authOptions")), (&json!(""), None), "{spec}");
    let groups = spec["workerGroupSpecs"].as_array().map_or(0, Vec::len);
    assert_eq!((groups, object.metadata.labels.expect("labels")["ray.io/version"].as_str()), (0, ""));
    let (_, shown) = call(&server, Method::GET, &format!("{clusters}/bare"), None).await;
    assert_eq!((shown.get("version"), shown["clusterSpec"].get("workerGroupSpec")), (None, None), "{shown}");

    // A version with tokens, and a group without start parameters.
    let mut given = bare(&harness, "grouped");
    given["version"] = "2.55.0".into();
    given["clusterSpec"]["workerGroupSpec"] = json!([{
        "groupName": "g", "computeTemplate": "t", "replicas": 0, "minReplicas": 0, "maxReplicas": 1,
    }]);
    let (status, created) = call(&server, Method::POST, &clusters, Some(given)).await;
    assert_eq!(status, StatusCode::OK, "{created}");
    let group = &created["clusterSpec"]["workerGroupSpec"][0];
    assert!(group["rayStartParams"].is_object(), "{group}");
    let spec = harness.ray_clusters().get("grouped").await.expect("its object").data["spec"].clone();
    assert_eq!((&spec["rayVersion"], spec.get("authOptions")), (&json!("2.55.0"), None), "{spec}");

    // The name is free as soon as the deletion is answered.
    for _ in 0..3 {
        let (status, body) = call(&server, Method::DELETE, &format!("{clusters}/bare"), None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let (status, body) = call(&server, Method::POST, &clusters, Some(bare(&harness, "bare"))).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    for name in ["bare", "grouped"] {
        call(&server, Method::DELETE, &format!("{clusters}/{name}"), None).await;
    }
}

/// Creates a quota of 0 for some kinds. The test writes the status in place of its controller.
async fn forbid(harness: &Harness, hard: Value) {
    let quotas: Api<ResourceQuota> = harness.namespace.api();
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": hard}});
    let quota = serde_json::from_value(quota).expect("a quota");
    quotas.create(&PostParams::default(), &quota).await.expect("created");
    let used: Value =
        hard.as_object().expect("kinds").keys().map(|kind| (kind.clone(), json!("0"))).collect();
    let status = json!({"status": {"hard": hard, "used": used}});
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(status)).await.expect("written");
}

#[tokio::test]
async fn a_creation_beyond_the_quota_is_forbidden_and_leaves_no_cluster() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    create_template(&harness, &server).await;
    forbid(&harness, json!({"count/rayclusters.ray.io": "0", "count/configmaps": "0"})).await;
    let clusters = format!("{}/clusters", namespace(&harness));
    let (status, body) = call(&server, Method::POST, &clusters, Some(bare(&harness, "many"))).await;
    assert_eq!((status, &body["code"]), (StatusCode::FORBIDDEN, &json!(7)), "{body}");
    assert!(body["message"].as_str().is_some_and(|why| why.contains("exceeded quota")), "{body}");

    let template = json!({"name": "u", "namespace": harness.namespace.name(), "cpu": 1, "memory": 1});
    let path = format!("{}/compute_templates", namespace(&harness));
    let (status, body) = call(&server, Method::POST, &path, Some(template)).await;
    assert_eq!((status, &body["code"]), (StatusCode::FORBIDDEN, &json!(7)), "{body}");

    // The newer API lists it with the reason.
    let refused = server.refusal(Method::POST, &harness.clusters(), Some(json!({"name": "newer"}))).await;
    assert_eq!((refused.0, refused.1.as_str()), (403, "ActionFailed"), "{}", refused.2);
    assert_eq!(server.get(&format!("{}/newer", harness.clusters())).await["state"], "ERROR");
    let (status, list) = call(&server, Method::GET, &clusters, None).await;
    assert_eq!((status, &list["clusters"]), (StatusCode::OK, &json!([])), "{list}");
    let (status, _) = call(&server, Method::GET, &format!("{clusters}/newer"), None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_invalid_object_is_an_invalid_argument() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    create_template(&harness, &server).await;
    let volume = json!({"mountPath": "/tmp/ray", "volumeType": 5, "name": "logs"});
    let mut twice = bare(&harness, "twice");
    twice["clusterSpec"]["headGroupSpec"]["volumes"] = json!([volume, volume]);
    let path = format!("{}/clusters", namespace(&harness));
    let (status, body) = call(&server, Method::POST, &path, Some(twice)).await;
    assert_eq!((status, &body["code"]), (StatusCode::BAD_REQUEST, &json!(3)), "{body}");
}

#[tokio::test]
async fn a_cluster_whose_creation_waits_for_machines_is_scaled_at_once() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    // No node has so many processors, so that the creation waits.
    let group = json!({"group_name": "g", "replicas": 1, "max_replicas": 5, "shape": {"cpu": "100000"}});
    let cluster = json!({"name": "slow", "cluster_spec": {"worker_group_spec": [group]}});
    server.post(&harness.clusters(), cluster).await;
    let path = "/ddl_cluster_scaler/scale/rayclusters/slow";
    let (status, scaled) = call(&server, Method::PATCH, path, Some(json!({"replicas": 3}))).await;
    assert_eq!((status, &scaled["effective_replicas"]), (StatusCode::OK, &json!(3)), "{scaled}");
    let shown = call(&server, Method::GET, "/ddl_cluster_scaler/cluster/rayclusters/slow", None).await.1;
    for object in [&scaled["object"], &shown] {
        assert_eq!(object["spec"]["worker"]["replicas"], 3, "{object}");
    }
    assert_eq!(harness.desired_workers().await, [("slow".to_owned(), 3.into())]);
    assert_eq!(server.get(&format!("{}/slow", harness.clusters())).await["state"], "CREATING");
    let path = format!("{}/slow", harness.clusters());
    assert_eq!(server.call(Method::DELETE, &path, None).await.status(), StatusCode::OK);
}

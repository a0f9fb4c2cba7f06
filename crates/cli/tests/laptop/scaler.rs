//! The scaler API with local clusters, used like the notebook of Domino's published client.

use muster_testkit::eventually;
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::clusters::state;
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::{dask, ray, spark};

/// Sends a request and asserts its status.
async fn send(
    harness: &Harness,
    method: Method,
    path: &str,
    body: Option<Value>,
    expected: StatusCode,
) -> Value {
    let url = format!("{}/ddl_cluster_scaler{path}", harness.rest());
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.expect("the server answers");
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert_eq!(status, expected, "{path}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Scales as the published client does, which sends the tier's name in two keys.
async fn scale(harness: &Harness, kind: &str, tier: &str, replicas: u32) -> Value {
    let body = json!({"replicas": replicas, "worker_hw_tier": tier, "worker_hw_tier_id": tier});
    let path = format!("/scale/{kind}/mine");
    let scaled = send(harness, Method::PATCH, &path, Some(body), StatusCode::OK).await;
    eventually("scaling is complete", TIMEOUT, async || {
        let cluster =
            send(harness, Method::GET, &format!("/cluster/{kind}/mine"), None, StatusCode::OK).await;
        let nodes = cluster["status"]["nodes"].as_array().map_or(0, Vec::len);
        let wanted = cluster["spec"]["worker"]["replicas"].as_u64();
        if u64::try_from(nodes.saturating_sub(1)).ok() == wanted { Ok(()) } else { Err(cluster) }
    })
    .await;
    scaled
}

#[rstest]
#[case("dask", "daskclusters")]
#[case("ray", "rayclusters")]
#[case("spark", "sparkclusters")]
#[tokio::test]
async fn the_notebook_of_the_published_client_manages_a_local_cluster(
    #[case] framework: &str,
    #[case] kind: &str,
) {
    let Some((harness, _python)) = Harness::with_framework(framework).await else { return };
    let recipe = match framework {
        "dask" => dask("mine", 1),
        "ray" => ray("mine", &[("workers", 1)]),
        _ => spark("mine", 1),
    };
    let created = harness.create(&recipe).await;
    assert_eq!(state(&created), "ACTIVE", "{created}");
    let template = json!({"name": "small", "cpu": 1, "memory": 1, "namespace": "demo"});
    harness.post("/namespaces/demo/compute_templates", template).await;
    let list = send(&harness, Method::GET, &format!("/list/{kind}"), None, StatusCode::OK).await;
    assert_eq!((&list["count"], &list["clusters"][0]["metadata"]["name"]), (&json!(1), &json!("mine")));

    let scaled = scale(&harness, kind, "Medium", 2).await;
    assert_eq!(scaled["ignored_hw_tier"]["name"], "Medium", "{scaled}");
    assert_eq!(
        (&scaled["maxReplicas"], &scaled["object"]["spec"]["worker"]["replicas"]),
        (&json!(100), &json!(2))
    );

    let before = harness.head("mine").await;
    let address = harness.cluster("mine").await["endpoints"]["address"].clone();
    let path = format!("/restart_head/{kind}/mine");
    let restarted = send(&harness, Method::PATCH, &path, None, StatusCode::ACCEPTED).await;
    let started_at = restarted["started_at"].as_str().expect("a time").to_owned();
    eventually("the head is restarted and ready", TIMEOUT, async || {
        let path = format!("/restart_head_status/{kind}/mine?started_at={started_at}");
        let status = send(&harness, Method::GET, &path, None, StatusCode::OK).await;
        if status["status"] == "restarted_and_ready" { Ok(()) } else { Err(status) }
    })
    .await;
    assert_ne!(harness.head("mine").await.pid(), before.pid(), "another process is the head");
    let cluster = harness.until_active("mine", 2).await;
    assert_eq!(cluster["endpoints"]["address"], address, "the address is the same");

    let template = json!({"name": "huge", "cpu": 5000, "memory": 1, "namespace": "demo"});
    harness.post("/namespaces/demo/compute_templates", template).await;
    let scaled = scale(&harness, kind, "huge", 2).await;
    assert_eq!(scaled["ignored_hw_tier"]["name"], "huge", "{scaled}");
    let strict = json!({"replicas": 2, "worker_hw_tier_name": "huge"});
    let path = format!("/scale/{kind}/mine");
    let refused = send(&harness, Method::PATCH, &path, Some(strict), StatusCode::BAD_REQUEST).await;
    assert_eq!(refused["error"], "invalid_hw_tier", "{refused}");

    let scaled = scale(&harness, kind, "small", 1).await;
    assert_eq!(scaled["worker_hw_tier_id"]["name"], "small", "{scaled}");
    harness.until_active("mine", 1).await;
    let cluster = send(&harness, Method::GET, &format!("/cluster/{kind}/mine"), None, StatusCode::OK).await;
    assert_eq!(cluster["spec"]["worker"]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    harness.delete_without_trace("mine").await;
}

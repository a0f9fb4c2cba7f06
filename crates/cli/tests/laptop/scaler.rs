//! The scaler API over local clusters, used as the notebook of Domino's published client does.

use muster_testkit::eventually;
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::clusters::state;
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::{dask, ray, spark};

/// Sends a request; the status has to be this one.
async fn send(
    laptop: &Laptop,
    method: Method,
    path: &str,
    body: Option<Value>,
    expected: StatusCode,
) -> Value {
    let url = format!("{}/ddl_cluster_scaler{path}", laptop.rest());
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.expect("the server answers");
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert_eq!(status, expected, "{path}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Scales as the published client does, which sends the name of a tier in two keys.
async fn scale(laptop: &Laptop, kind: &str, tier: &str, replicas: u32) -> Value {
    let body = json!({"replicas": replicas, "worker_hw_tier": tier, "worker_hw_tier_id": tier});
    let path = format!("/scale/{kind}/mine");
    let scaled = send(laptop, Method::PATCH, &path, Some(body), StatusCode::OK).await;
    eventually("scaling is complete", PATIENCE, async || {
        let cluster = send(laptop, Method::GET, &format!("/cluster/{kind}/mine"), None, StatusCode::OK).await;
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
async fn the_notebook_of_the_published_client_drives_a_laptop(#[case] framework: &str, #[case] kind: &str) {
    let Some((laptop, _python)) = Laptop::with_framework(framework).await else { return };
    let recipe = match framework {
        "dask" => dask("mine", 1),
        "ray" => ray("mine", &[("workers", 1)]),
        _ => spark("mine", 1),
    };
    let created = laptop.create(&recipe).await;
    assert_eq!(state(&created), "ACTIVE", "{created}");
    let template = json!({"name": "small", "cpu": 1, "memory": 1, "namespace": "demo"});
    laptop.post("/namespaces/demo/compute_templates", template).await;
    let list = send(&laptop, Method::GET, &format!("/list/{kind}"), None, StatusCode::OK).await;
    assert_eq!((&list["count"], &list["clusters"][0]["metadata"]["name"]), (&json!(1), &json!("mine")));

    let scaled = scale(&laptop, kind, "Medium", 2).await;
    assert_eq!(scaled["ignored_hw_tier"]["name"], "Medium", "{scaled}");
    assert_eq!(
        (&scaled["maxReplicas"], &scaled["object"]["spec"]["worker"]["replicas"]),
        (&json!(100), &json!(2))
    );

    let before = laptop.head("mine").await;
    let address = laptop.cluster("mine").await["endpoints"]["address"].clone();
    let path = format!("/restart_head/{kind}/mine");
    let restarted = send(&laptop, Method::PATCH, &path, None, StatusCode::ACCEPTED).await;
    let started_at = restarted["started_at"].as_str().expect("a time").to_owned();
    eventually("the head is restarted and ready", PATIENCE, async || {
        let path = format!("/restart_head_status/{kind}/mine?started_at={started_at}");
        let status = send(&laptop, Method::GET, &path, None, StatusCode::OK).await;
        if status["status"] == "restarted_and_ready" { Ok(()) } else { Err(status) }
    })
    .await;
    assert_ne!(laptop.head("mine").await.pid(), before.pid(), "another process is the head");
    let cluster = laptop.until_active("mine", 2).await;
    assert_eq!(cluster["endpoints"]["address"], address, "the address is the same");

    let template = json!({"name": "huge", "cpu": 5000, "memory": 1, "namespace": "demo"});
    laptop.post("/namespaces/demo/compute_templates", template).await;
    let scaled = scale(&laptop, kind, "huge", 2).await;
    assert_eq!(scaled["ignored_hw_tier"]["name"], "huge", "{scaled}");
    let strict = json!({"replicas": 2, "worker_hw_tier_name": "huge"});
    let path = format!("/scale/{kind}/mine");
    let refused = send(&laptop, Method::PATCH, &path, Some(strict), StatusCode::BAD_REQUEST).await;
    assert_eq!(refused["error"], "invalid_hw_tier", "{refused}");

    let scaled = scale(&laptop, kind, "small", 1).await;
    assert_eq!(scaled["worker_hw_tier_id"]["name"], "small", "{scaled}");
    laptop.until_active("mine", 1).await;
    let cluster = send(&laptop, Method::GET, &format!("/cluster/{kind}/mine"), None, StatusCode::OK).await;
    assert_eq!(cluster["spec"]["worker"]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    laptop.delete_without_trace("mine").await;
}

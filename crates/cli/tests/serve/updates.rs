//! Updates that are queued behind another action.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::server::{Server, slow_cluster};

const FRED: &str = "/namespaces/demo/clusters/fred";

#[tokio::test]
async fn a_queued_update_keeps_changes_made_meanwhile() {
    let server = Server::dev().await;
    server.post("/namespaces/demo/clusters?wait_for=accepted", slow_cluster("fred", 1, 1)).await;
    let group = |field: &str, value: u32| json!({"cluster_spec": {"worker_group_spec": [{"group_name": "small", field: value}]}});
    // All are accepted while the cluster is still being created with one worker.
    let updates = [
        ("cluster_spec.worker_group_spec.replicas", group("replicas", 2)),
        ("cluster_spec.worker_group_spec.max_replicas", group("max_replicas", 5)),
        ("labels.a", json!({"labels": {"a": "1"}})),
        ("labels.b", json!({"labels": {"b": "2"}})),
    ];
    for (place, (mask, body)) in updates.iter().enumerate() {
        let milestone = if place + 1 == updates.len() { "reached" } else { "accepted" };
        let path = format!("{FRED}?update_mask={mask}&wait_for={milestone}");
        let answer = server.call(Method::PATCH, &path, Some(body.clone())).await;
        assert_eq!(answer.status(), StatusCode::OK, "{mask}: {}", answer.text().await.unwrap_or_default());
    }
    let fred = server.get(FRED).await;
    assert_eq!(fred["labels"], json!({"a": "1", "b": "2"}));
    let group = &fred["clusterSpec"]["workerGroupSpec"][0];
    assert_eq!((&group["replicas"], &group["maxReplicas"]), (&json!(2), &json!(5)));
}

//! Several servers on one database and one Kubernetes.

use kube::api::ListParams;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;

const CLUSTERS: usize = 12;

#[tokio::test]
async fn two_servers_execute_every_action_once_and_one_observes() {
    let Some(harness) = Harness::open().await else { return };
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    let url = ["--database-url", database.url()];
    let (one, other) = (harness.server(&url).await, harness.server(&url).await);

    let clusters = harness.clusters();
    for number in 0..CLUSTERS {
        let new = json!({"name": format!("c-{number}"), "framework": "ray", "provider": "kubernetes",
            "wait_for": "accepted", "cluster_spec": {"worker_group_spec": [{"group_name": "g", "replicas": 1}]}});
        let server = if number % 2 == 0 { &one } else { &other };
        server.post(&format!("{clusters}?wait_for=accepted"), new).await;
    }
    // Kill one of them in the middle.
    let one = one.kill_and_start_again().await;
    for number in 0..CLUSTERS {
        let path = format!("{clusters}/c-{number}/scale?wait_for=reached&wait_timeout=120s");
        let scaled = one.post(&path, json!({"replicas": 2})).await;
        assert_eq!((&scaled["state"], &scaled["readyWorkers"]), (&json!("ACTIVE"), &json!(2)), "{scaled}");
        // Every later read on any server is at least as new.
        let read = other.get(&format!("{clusters}/c-{number}")).await;
        assert_eq!(read["desiredWorkers"], 2, "{read}");
    }

    let objects = harness.ray_clusters().list(&ListParams::default()).await.expect("a list").items;
    assert_eq!(objects.len(), CLUSTERS);
    for object in objects {
        // One write created it, and one resized it.
        assert_eq!(object.metadata.generation, Some(2), "{:?}", object.metadata.name);
    }
    let actions = one.get("/actions?page_size=1000").await;
    let actions = actions["actions"].as_array().cloned().unwrap_or_default();
    assert_eq!(actions.len(), 2 * CLUSTERS);
    let succeeded = |action: &Value| action["status"] == "SUCCEEDED";
    assert!(actions.iter().all(succeeded), "{actions:?}");
    for number in 0..CLUSTERS {
        let gone = other.call(Method::DELETE, &format!("{clusters}/c-{number}?wait_for=reached"), None).await;
        assert!(gone.status().is_success(), "{}", gone.status());
    }
    assert_eq!(harness.desired_workers().await, []);
}

//! Servers that end, in order or killed, and the next ones.

use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::server::{Server, TIMEOUT, slow_cluster};

#[tokio::test]
async fn an_action_continues_after_its_server_was_killed() {
    let server = Server::dev().await;
    server.post("/namespaces/demo/clusters", slow_cluster("slow", 20, 1)).await;
    let server = server.kill_and_start_again().await;
    let body = json!({"replicas": 3, "wait_for": "reached"});
    let scaled = server.post("/namespaces/demo/clusters/slow/scale", body).await;
    assert_eq!((scaled["state"].as_str(), scaled["readyWorkers"].as_i64()), (Some("ACTIVE"), Some(3)));
    let actions = server.get("/namespaces/demo/clusters/slow/actions?action=CLUSTER_CREATE").await;
    assert_eq!(actions["actions"][0]["status"], "SUCCEEDED", "{}", actions["actions"][0]);
}

#[tokio::test]
async fn a_waiting_caller_gets_the_id_of_the_action_when_the_server_stops() {
    let mut server = Server::dev().await;
    server.post("/namespaces/demo/clusters", slow_cluster("slow", 1, 3600)).await;
    let scale = format!("{}/apis/v1alpha2/namespaces/demo/clusters/slow/scale", server.rest);
    let body = json!({"replicas": 3, "wait_for": "reached", "wait_timeout": "3600s"});
    let waiting = tokio::spawn(reqwest::Client::new().post(scale).json(&body).send());
    let id = eventually("an accepted resize", TIMEOUT, async || {
        let actions = server.get("/namespaces/demo/clusters/slow/actions?action=CLUSTER_RESIZE").await;
        actions["actions"][0]["id"].as_str().map(str::to_owned).ok_or(actions.clone())
    });
    let id = id.await;
    assert!(server.stop().await.success());
    let answer = waiting.await.unwrap().expect("an answer, not the end of the connection");
    assert_eq!(answer.status().as_u16(), 503);
    assert_eq!(answer.headers()["muster-action-id"], id.as_str());
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["code"], 14);
    let printed = body["message"].as_str().unwrap();
    assert!(printed.contains(&format!("it continues as action {id}")), "{printed}");
    let server = server.start_again().await;
    assert_eq!(server.get(&format!("/actions/{id}")).await["endedAt"], Value::Null);
}

#[tokio::test]
async fn a_server_that_stops_in_order_removes_its_announcement() {
    let mut server = Server::dev().await;
    let file = server.data().join("server.json");
    assert!(file.exists());
    assert!(server.stop().await.success());
    assert!(!file.exists(), "it still says where the server was");
    let output = server.muster(&["whoami"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(printed.contains("no server runs with the data folder"), "{printed}");
}

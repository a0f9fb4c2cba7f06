//! Signals of actions: cancel, suspend, resume.

use serde_json::{Value, json};

use crate::server::{Answer, Server};

/// Starts a cluster whose creation takes long.
async fn slow(server: &Server) -> Answer {
    let slow = json!({"flavor": "f", "metadata": {"simulated_wait_time": 60}});
    let profile = server.profile_with("slow", slow).await;
    let fields = json!({"name": "c", "profile_id": profile, "desired_capacity": 1});
    let made = server.post("/clusters", json!({"cluster": fields})).await;
    server.until("/clusters/c", "cluster", "CREATING").await;
    made
}

fn status(word: &str) -> Value {
    json!({"action": {"status": word}})
}

#[tokio::test]
async fn an_action_is_cancelled_once() {
    let server = Server::sqlite().await;
    let id = slow(&server).await.action();
    let cancelled = server.patch(&format!("/actions/{id}"), status("CANCELLED")).await;
    assert_eq!((cancelled.status, &cancelled.body["action"]["id"]), (202, &id.clone().into()));
    assert_eq!(server.wait_for_end(&id).await["status"], "CANCELLED");
    let again = server.patch(&format!("/actions/{id}"), status("CANCELLED")).await;
    let text = format!(
        "Action ({}) is in status (CANCELLED) while expected status must be one of (['INIT', 'WAITING', 'READY', \
         'RUNNING', 'WAITING_LIFECYCLE_COMPLETION']).",
        &id[..8]
    );
    assert_eq!(again.refusal(), (409, "ActionImmutable", text.as_str()));
}

#[tokio::test]
async fn invalid_signals_are_refused() {
    let mut server = Server::sqlite().await;
    let id = slow(&server).await.action();
    let path = format!("/actions/{id}");
    let refused = server.patch(&path, status("RUNNING")).await;
    assert_eq!(refused.message(), "Value 'RUNNING' is not acceptable for field 'status'.");
    assert_eq!(server.patch(&format!("/actions/{}", &id[..8]), status("CANCELLED")).await.status, 404);
    server.set_version("clustering 1.14");
    assert_eq!(server.patch(&path, status("SUSPENDED")).await.status, 400, "it came with 1.15");
    server.set_version("clustering 1.11");
    assert_eq!(server.patch(&path, status("CANCELLED")).await.status, 400, "it came with 1.12");
    assert!(server.get(&path).await.body["action"].get("cluster_id").is_none(), "it came with 1.14");
}

#[tokio::test]
async fn an_action_is_suspended_and_resumed() {
    let server = Server::sqlite().await;
    let id = slow(&server).await.action();
    let path = format!("/actions/{id}");
    assert_eq!(server.patch(&path, status("SUSPENDED")).await.status, 202);
    server.until(&path, "action", "SUSPENDED").await;
    assert_eq!(server.patch(&path, status("READY")).await.status, 202);
    server.until(&path, "action", "WAITING").await;
    assert_eq!(server.patch(&path, status("CANCELLED")).await.status, 202);
    assert_eq!(server.wait_for_end(&id).await["status"], "CANCELLED");
}

//! Actions: told to end, to stop for a while, and to go on.

use serde_json::{Value, json};

use crate::service::{Answer, Service};

/// A cluster whose creation takes long.
async fn slow(service: &Service) -> Answer {
    let slow = json!({"flavor": "f", "metadata": {"simulated_wait_time": 60}});
    let profile = service.profile_with("slow", slow).await;
    let fields = json!({"name": "c", "profile_id": profile, "desired_capacity": 1});
    let made = service.post("/clusters", json!({"cluster": fields})).await;
    service.until("/clusters/c", "cluster", "CREATING").await;
    made
}

fn status(word: &str) -> Value {
    json!({"action": {"status": word}})
}

#[tokio::test]
async fn an_action_is_cancelled_once() {
    let service = Service::sqlite().await;
    let id = slow(&service).await.action();
    let told = service.patch(&format!("/actions/{id}"), status("CANCELLED")).await;
    assert_eq!((told.status, &told.body["action"]["id"]), (202, &id.clone().into()));
    assert_eq!(service.ended(&id).await["status"], "CANCELLED");
    let again = service.patch(&format!("/actions/{id}"), status("CANCELLED")).await;
    let text = format!(
        "Action ({}) is in status (CANCELLED) while expected status must be one of (['INIT', 'WAITING', 'READY', \
         'RUNNING', 'WAITING_LIFECYCLE_COMPLETION']).",
        &id[..8]
    );
    assert_eq!(again.refusal(), (409, "ActionImmutable", text.as_str()));
}

#[tokio::test]
async fn what_cannot_be_told_is_refused() {
    let mut service = Service::sqlite().await;
    let id = slow(&service).await.action();
    let path = format!("/actions/{id}");
    let refused = service.patch(&path, status("RUNNING")).await;
    assert_eq!(refused.message(), "Value 'RUNNING' is not acceptable for field 'status'.");
    assert_eq!(service.patch(&format!("/actions/{}", &id[..8]), status("CANCELLED")).await.status, 404);
    service.speaks("clustering 1.14");
    assert_eq!(service.patch(&path, status("SUSPENDED")).await.status, 400, "it came with 1.15");
    service.speaks("clustering 1.11");
    assert_eq!(service.patch(&path, status("CANCELLED")).await.status, 400, "it came with 1.12");
    assert!(service.get(&path).await.body["action"].get("cluster_id").is_none(), "it came with 1.14");
}

#[tokio::test]
async fn an_action_stops_for_a_while_and_goes_on() {
    let service = Service::sqlite().await;
    let id = slow(&service).await.action();
    let path = format!("/actions/{id}");
    assert_eq!(service.patch(&path, status("SUSPENDED")).await.status, 202);
    service.until(&path, "action", "SUSPENDED").await;
    assert_eq!(service.patch(&path, status("READY")).await.status, 202);
    service.until(&path, "action", "WAITING").await;
    assert_eq!(service.patch(&path, status("CANCELLED")).await.status, 202);
    assert_eq!(service.ended(&id).await["status"], "CANCELLED");
}

//! Nodes are asked how they are by a URL of their own, and recovered if they are not well.

use muster_testkit::outside::Outside;
use muster_testkit::{database_test, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::service::{Kind, PATIENCE, Service};

fn policy(url: &str, pattern: &str) -> Value {
    let options = json!({"poll_url": url, "poll_url_healthy_response": pattern, "poll_url_retry_limit": 1});
    let detection = json!({
        "interval": 1, "node_update_timeout": 0,
        "detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": options}],
    });
    let properties = json!({"detection": detection, "recovery": {"actions": [{"name": "RECREATE"}]}});
    json!({"type": "senlin.policy.health", "version": "1.2", "properties": properties})
}

#[database_test(Service::start)]
async fn a_node_whose_url_says_that_it_is_unwell_is_recovered(service: Service) {
    let mut node = Outside::start(200, "all is well").await;
    let cluster = service.cluster("c", json!({"desired_capacity": 1})).await;
    let id = cluster["nodes"][0].as_str().unwrap();
    let shown = async || service.get(&format!("/nodes/{id}")).await.body["node"].clone();
    let before = shown().await;
    let bound = service.attached(&cluster, "polls", policy(&node.url("/of/{nodename}"), "well$")).await;
    assert_eq!(bound["status"], "SUCCEEDED", "{bound}");
    let line = format!("GET /of/{}", before["name"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(node.call().await.line, line);
    }
    assert_eq!(shown().await["physical_id"], before["physical_id"], "one that is well is left alone");
    node.answers(200, "all is lost");
    let recovery = eventually("the recovery of a node that answers badly", PATIENCE, async || {
        let actions = service.get(&format!("/actions?action=NODE_RECOVER&target={id}")).await.body;
        actions["actions"][0]["id"].as_str().map(str::to_owned).ok_or(actions.clone())
    });
    let recovery = recovery.await;
    node.answers(200, "all is well");
    assert_eq!(service.ended(&recovery).await["status"], "SUCCEEDED");
    // The new node may have been asked before the answer changed, and is recovered once more then.
    let after = eventually("the end of all recoveries", PATIENCE, async || {
        let shown = shown().await;
        if shown["status"] == "ACTIVE" { Ok(shown) } else { Err(shown) }
    });
    let after = after.await;
    assert_eq!(after["data"]["recovery"], "RECREATE");
    assert_ne!(after["physical_id"], before["physical_id"], "the node was created again");
    let events = service.get(&format!("/events?oid={id}&level=WARN")).await.body["events"].clone();
    let mut reasons = events.as_array().unwrap().iter().filter(|event| event["action"] == "NodeUnhealthy");
    let expected = "it answers something else than its policy expects";
    assert!(reasons.any(|event| event["status_reason"] == expected), "{events}");
}

#[tokio::test]
async fn what_may_not_be_asked_is_not_taken_for_dead() {
    let closed = ["--egress-deny", "127.0.0.0/8,::1"];
    let service = Service::start_with(Kind::Sqlite, &closed, |_| {}).await.expect("SQLite is there");
    let mut node = Outside::start(500, "").await;
    let cluster = service.cluster("c", json!({"desired_capacity": 1})).await;
    let refused = service.attached(&cluster, "polls", policy(&node.url("/"), "")).await;
    let words = refused["status_reason"].as_str().unwrap();
    assert!(words.starts_with("this server does not connect to 127.0.0.1"), "{words}");
    let by_name = format!("http://localhost:{}/", node.port);
    let bound = service.attached(&cluster, "polls", policy(&by_name, "")).await;
    assert_eq!(bound["status"], "SUCCEEDED", "{bound}");
    service.wait_for_lines("a poll URL is not polled", 2).await;
    assert!(node.received().is_empty());
    let id = cluster["id"].as_str().unwrap();
    let healings = service.get(&format!("/actions?action=NODE_RECOVER&cluster_id={id}")).await;
    assert_eq!(healings.body["actions"], json!([]));
}

#[rstest]
#[case(
    "",
    "",
    "'' cannot be called: a URL that begins with http:// or https:// and names a host is expected"
)]
#[case(
    "file:///etc/passwd",
    "",
    "'file:///etc/passwd' cannot be called: a URL that begins with http:// or https:// and names a host is expected"
)]
#[tokio::test]
async fn what_cannot_be_asked_is_refused_at_the_attachment(
    #[case] url: &str,
    #[case] pattern: &str,
    #[case] words: &str,
) {
    let service = Service::sqlite().await;
    let cluster = service.cluster("c", json!({})).await;
    let refused = service.attached(&cluster, "polls", policy(url, pattern)).await;
    assert_eq!((&refused["status"], refused["status_reason"].as_str().unwrap()), (&"FAILED".into(), words));
}

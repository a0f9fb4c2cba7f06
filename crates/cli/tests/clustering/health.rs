//! Health checks by poll URL, and the recovery of unhealthy nodes.

use muster_testkit::outside::Outside;
use muster_testkit::{database_test, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Kind, Server, TIMEOUT};

fn policy(url: &str, pattern: &str) -> Value {
    let options = json!({"poll_url": url, "poll_url_healthy_response": pattern, "poll_url_retry_limit": 1});
    let detection = json!({
        "interval": 1, "node_update_timeout": 0,
        "detection_modes": [{"type": "NODE_STATUS_POLL_URL", "options": options}],
    });
    let properties = json!({"detection": detection, "recovery": {"actions": [{"name": "RECREATE"}]}});
    json!({"type": "senlin.policy.health", "version": "1.2", "properties": properties})
}

#[database_test(Server::start)]
async fn a_node_whose_url_reports_unhealthy_is_recovered(server: Server) {
    let mut node = Outside::start(200, "all is well").await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let id = cluster["nodes"][0].as_str().unwrap();
    let shown = async || server.get(&format!("/nodes/{id}")).await.body["node"].clone();
    let before = shown().await;
    let bound = server.attach_new(&cluster, "polls", policy(&node.url("/of/{nodename}"), "well$")).await;
    assert_eq!(bound["status"], "SUCCEEDED", "{bound}");
    let line = format!("GET /of/{}", before["name"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(node.call().await.line, line);
    }
    assert_eq!(shown().await["physical_id"], before["physical_id"], "one that is well is left alone");
    node.answers(200, "all is lost");
    let recovery = eventually("the recovery of a node that answers badly", TIMEOUT, async || {
        let actions = server.get(&format!("/actions?action=NODE_RECOVER&target={id}")).await.body;
        actions["actions"][0]["id"].as_str().map(str::to_owned).ok_or(actions.clone())
    });
    let recovery = recovery.await;
    node.answers(200, "all is well");
    assert_eq!(server.wait_for_end(&recovery).await["status"], "SUCCEEDED");
    // The new node may be polled before the answer changes, and is then recovered once more.
    let after = eventually("the end of all recoveries", TIMEOUT, async || {
        let shown = shown().await;
        if shown["status"] == "ACTIVE" { Ok(shown) } else { Err(shown) }
    });
    let after = after.await;
    assert_eq!(after["data"]["recovery"], "RECREATE");
    assert_ne!(after["physical_id"], before["physical_id"], "the node was created again");
    let events = server.get(&format!("/events?oid={id}&level=WARN")).await.body["events"].clone();
    let mut reasons = events.as_array().unwrap().iter().filter(|event| event["action"] == "NodeUnhealthy");
    let expected = "the response does not match poll_url_healthy_response";
    assert!(reasons.any(|event| event["status_reason"] == expected), "{events}");
}

#[tokio::test]
async fn a_url_that_must_not_be_called_does_not_make_a_node_unhealthy() {
    let closed = ["--egress-deny", "127.0.0.0/8,::1"];
    let server = Server::start_with(Kind::Sqlite, &closed, |_| {}).await.expect("SQLite is available");
    let mut node = Outside::start(500, "").await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let refused = server.attach_new(&cluster, "polls", policy(&node.url("/"), "")).await;
    let words = refused["status_reason"].as_str().unwrap();
    assert!(words.starts_with("this server does not connect to 127.0.0.1"), "{words}");
    let by_name = format!("http://localhost:{}/", node.port);
    let bound = server.attach_new(&cluster, "polls", policy(&by_name, "")).await;
    assert_eq!(bound["status"], "SUCCEEDED", "{bound}");
    server.wait_for_lines("a poll URL is not polled", 2).await;
    assert!(node.received().is_empty());
    let id = cluster["id"].as_str().unwrap();
    let healings = server.get(&format!("/actions?action=NODE_RECOVER&cluster_id={id}")).await;
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
async fn an_invalid_url_is_refused_at_the_attachment(
    #[case] url: &str,
    #[case] pattern: &str,
    #[case] words: &str,
) {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({})).await;
    let refused = server.attach_new(&cluster, "polls", policy(url, pattern)).await;
    assert_eq!((&refused["status"], refused["status_reason"].as_str().unwrap()), (&"FAILED".into(), words));
}

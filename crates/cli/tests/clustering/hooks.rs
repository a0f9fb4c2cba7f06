//! Lifecycle hooks: nodes are removed once a webhook's owner confirms, or after the time-out.

use muster_testkit::database_test;
use muster_testkit::outside::Outside;
use serde_json::{Value, json};

use crate::server::Server;

/// Attaches a policy with a webhook to a cluster, and returns the action.
async fn attach(server: &Server, cluster: &Value, url: &str, timeout: u32) -> Value {
    let hooks = json!({"type": "webhook", "timeout": timeout, "params": {"url": url}});
    let spec = json!({"type": "senlin.policy.deletion", "version": "1.1", "properties": {"hooks": hooks}});
    server.attach_new(cluster, "asks", spec).await
}

#[database_test(Server::start)]
async fn a_webhook_is_retried_until_it_answers_and_its_signal_releases_the_node(server: Server) {
    let mut hook = Outside::start(503, "not now").await;
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    let bound = attach(&server, &cluster, &hook.url("/hook?key=k"), 600).await;
    assert_eq!(bound["status"], "SUCCEEDED", "{bound}");
    let accepted = server.post("/clusters/c/actions", json!({"scale_in": {"count": 1}})).await;
    let unanswered = hook.call().await;
    hook.answers(200, "");
    let called = hook.call().await;
    assert_eq!(called, unanswered, "the same request is repeated");
    assert_eq!((&*called.line, called.header("content-type")), ("POST /hook?key=k", "application/json"));
    let token = called.body["lifecycle_action_token"].as_str().expect("a token").to_owned();
    let node = called.body["node_id"].as_str().expect("a node").to_owned();
    let shown = server.get(&format!("/nodes/{node}")).await.body["node"].clone();
    let message = json!({
        "lifecycle_action_token": token,
        "node_id": node,
        "resource_id": shown["physical_id"],
        "lifecycle_transition_type": "termination",
    });
    assert_eq!(called.body, message);
    let part = server.get(&format!("/actions/{token}")).await.body["action"].clone();
    assert_eq!(
        (&part["status"], &part["action"], &part["cause"], &part["target"]),
        (
            &"WAITING_LIFECYCLE_COMPLETION".into(),
            &"NODE_DELETE".into(),
            &"Derived Action with Lifecycle Hook".into(),
            &node.clone().into()
        )
    );
    let parent = server.get(&format!("/actions/{}", accepted.action())).await.body["action"].clone();
    assert_eq!(
        (&parent["status"], &parent["status_reason"], &parent["depends_on"]),
        (&"WAITING".into(), &"Waiting for depended actions.".into(), &json!([token]))
    );
    let word = json!({"complete_lifecycle": {"lifecycle_action_token": token}});
    let printed = server.post("/clusters/c/actions", word).await;
    assert_eq!(
        (printed.status, printed.action(), &printed.body),
        (202, token.clone(), &json!({"action": token}))
    );
    let ended = server.wait_for_end(&accepted.action()).await;
    assert_eq!(ended["status"], "SUCCEEDED", "{ended}");
    assert_eq!(server.wait_for_end(&token).await["status"], "SUCCEEDED");
    assert_eq!(server.get(&format!("/nodes/{node}")).await.status, 404);
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["desired_capacity"], 1);
    assert!(hook.received().is_empty(), "a message that was received is not sent again");
}

#[tokio::test]
async fn a_webhook_is_called_for_named_members() {
    let server = Server::sqlite().await;
    let mut hook = Outside::start(200, "").await;
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    attach(&server, &cluster, &hook.url("/"), 600).await;
    let named = cluster["nodes"][0].clone();
    let accepted = server.post("/clusters/c/actions", json!({"del_nodes": {"nodes": [named]}})).await;
    let called = hook.call().await;
    assert_eq!(called.body["node_id"], named);
    let word = json!({"complete_lifecycle": called.body});
    let refused = server.post("/clusters/c/actions", word).await;
    assert_eq!(refused.status, 400, "a token is printed, and nothing else: {}", refused.body);
    let token = &called.body["lifecycle_action_token"];
    server
        .post("/clusters/c/actions", json!({"complete_lifecycle": {"lifecycle_action_token": token}}))
        .await;
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
    let left = server.get(&format!("/nodes/{}", named.as_str().unwrap())).await.body["node"].clone();
    assert_eq!(left["cluster_id"], "", "it left, and was not destroyed");
}

#[tokio::test]
async fn a_signal_at_another_cluster_does_not_release_the_node() {
    let server = Server::sqlite().await;
    let mut hook = Outside::start(200, "").await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    server.cluster("other", json!({})).await;
    attach(&server, &cluster, &hook.url("/"), 600).await;
    let accepted = server.post("/clusters/c/actions", json!({"scale_in": {}})).await;
    let token = hook.call().await.body["lifecycle_action_token"].clone();
    let signal = json!({"complete_lifecycle": {"lifecycle_action_token": token}});
    let refused = server.post("/clusters/other/actions", signal.clone()).await;
    let message = format!("The action '{}' could not be found.", token.as_str().expect("a token"));
    assert_eq!((refused.status, refused.body["error"]["message"].as_str()), (404, Some(message.as_str())));
    let waiting = server.get(&format!("/actions/{}", token.as_str().unwrap())).await;
    assert_eq!(waiting.body["action"]["status"], "WAITING_LIFECYCLE_COMPLETION");
    assert_eq!(server.post("/clusters/c/actions", signal).await.status, 202);
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
}

#[tokio::test]
async fn deleting_a_single_node_calls_no_webhook() {
    let server = Server::sqlite().await;
    let mut hook = Outside::start(200, "").await;
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    attach(&server, &cluster, &hook.url("/"), 600).await;
    let deleted = server.delete(&format!("/nodes/{}", cluster["nodes"][0].as_str().unwrap())).await;
    assert_eq!(server.wait_for_end(&deleted.action()).await["status"], "SUCCEEDED");
    assert!(hook.received().is_empty());
}

/// Starts a server outside of development mode with a cluster of two plain processes.
async fn strict(arguments: &[&str]) -> (Server, Value) {
    let server = Server::strict(arguments).await;
    let spec =
        json!({"type": "local.process", "version": "1.0", "properties": {"command": ["sleep", "1000"]}});
    let made = server.post("/profiles", json!({"profile": {"name": "naps", "spec": spec}})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let cluster = server.cluster("c", json!({"profile_id": "naps", "desired_capacity": 2})).await;
    assert_eq!(cluster["status"], "ACTIVE", "{cluster}");
    (server, cluster)
}

async fn deleted(server: &Server) {
    let deleted = server.delete("/clusters/c").await;
    assert_eq!(server.wait_for_end(&deleted.action()).await["status"], "SUCCEEDED");
}

#[tokio::test]
async fn this_machine_is_not_called_and_nodes_are_removed_after_the_time_out() {
    let (server, cluster) = strict(&[]).await;
    let mut hook = Outside::start(200, "").await;
    let refused = attach(&server, &cluster, &hook.url("/"), 1).await;
    assert_eq!(
        (&refused["status"], refused["status_reason"].as_str().unwrap()),
        (
            &"FAILED".into(),
            "this server does not connect to 127.0.0.1 (127.0.0.1): an admin can allow that by 'egress_allow'"
        )
    );
    let by_name = format!("http://localhost:{}/?key=secret", hook.port);
    let bound = attach(&server, &cluster, &by_name, 1).await;
    assert_eq!(bound["status"], "SUCCEEDED", "a name may be another address tomorrow: {bound}");
    let ended = server.act(&cluster, json!({"scale_in": {"count": 1}})).await;
    assert_eq!(ended["status"], "SUCCEEDED", "{ended}");
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["nodes"].as_array().unwrap().len(), 1);
    assert!(hook.received().is_empty(), "it was called");
    let id = cluster["id"].as_str().unwrap();
    let events = server.get(&format!("/events?cluster_id={id}&level=WARN")).await.body["events"].clone();
    let failed = events.as_array().unwrap().iter().find(|event| event["action"] == "HookNotDelivered");
    let words = failed.expect("an event")["status_reason"].as_str().unwrap().to_owned();
    assert!(words.contains("this server does not connect to localhost"), "{words}");
    assert!(!words.contains("secret"), "{words}");
    deleted(&server).await;
}

#[tokio::test]
async fn an_admin_can_allow_internal_addresses() {
    let (server, cluster) = strict(&["--egress-allow", "127.0.0.1"]).await;
    let mut hook = Outside::start(200, "").await;
    let bound = attach(&server, &cluster, &hook.url("/"), 600).await;
    assert_eq!(bound["status"], "SUCCEEDED", "{bound}");
    let accepted = server.post("/clusters/c/actions", json!({"scale_in": {}})).await;
    let token = hook.call().await.body["lifecycle_action_token"].clone();
    server
        .post("/clusters/c/actions", json!({"complete_lifecycle": {"lifecycle_action_token": token}}))
        .await;
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
    deleted(&server).await;
}

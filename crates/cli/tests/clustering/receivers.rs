//! Receivers, which are triggered without an account.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

fn receiver(fields: &Value) -> Value {
    let mut all = json!({"name": "r", "type": "webhook", "cluster_id": "c", "action": "CLUSTER_RESIZE"});
    for (key, value) in fields.as_object().expect("a map") {
        all[key] = value.clone();
    }
    json!({"receiver": all})
}

#[database_test(Server::start)]
async fn a_caller_who_knows_the_address_changes_the_cluster(mut server: Server) {
    server.cluster("c", json!({"desired_capacity": 1})).await;
    let params = json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 1, "a b": "&"});
    let made = server
        .post(
            "/receivers",
            receiver(&json!({"params": {"number": 1, "adjustment_type": "CHANGE_IN_CAPACITY"}})),
        )
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
    let shown = &made.body["receiver"];
    let id = shown["id"].as_str().unwrap().to_owned();
    let url = format!(
        "{}/clustering/v1/webhooks/{id}/trigger?V=2&adjustment_type=CHANGE_IN_CAPACITY&number=1",
        server.base
    );
    assert_eq!(shown["channel"]["alarm_url"], url);
    server.set_version("");
    let accepted =
        server.send_text(reqwest::Method::POST, url.strip_prefix(&server.base).unwrap(), None, "").await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert_eq!(accepted.body["action"], accepted.action());
    let action = server.wait_for_end(&accepted.action()).await;
    assert_eq!((&action["status"], &action["cause"]), (&"SUCCEEDED".into(), &"RPC Request".into()));
    let name = format!("webhook_{}", &id[..8]);
    assert_eq!(action["name"], name);
    let named = server.get(&format!("/actions?name={name}")).await.body["actions"].clone();
    assert_eq!((&named[0]["id"], &named[1]), (&action["id"], &Value::Null), "lists know it by that name");
    let more = server.post(&format!("/webhooks/{id}/trigger?V=2"), json!({"number": 3})).await;
    assert_eq!(
        server.wait_for_end(&more.action()).await["inputs"]["number"],
        3,
        "values of the request take precedence"
    );
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["desired_capacity"], 5);
    let changed = server.patch("/receivers/r", json!({"receiver": {"params": params, "name": "s"}})).await;
    assert_eq!((changed.status, &changed.body["receiver"]["params"]), (200, &params));
    let listed = server.get("/receivers?cluster_id=unknown").await;
    assert_eq!(listed.body["receivers"], json!([]));
    assert_eq!(server.delete("/receivers/s").await.status, 204);
    let gone = server.post(&format!("/webhooks/{id}/trigger?V=2"), json!({})).await;
    assert_eq!(gone.status, 404);
}

#[rstest]
#[case(json!({"cluster_id": null}), "Cluster identity is required for creating webhook receiver.")]
#[case(json!({"action": null}), "Action name is required for creating webhook receiver.")]
#[case(json!({"action": "CLUSTER_CREATE"}), "Action name cannot be any of ['CLUSTER_CREATE'].")]
#[case(json!({"action": "NODE_CREATE"}), "Value 'NODE_CREATE' is not acceptable for field 'action'.")]
#[case(json!({"name": null}), "Field `name' cannot be None")]
#[case(json!({"type": null}), "Field `type' cannot be None")]
#[case(json!({"type": "pigeon"}), "Value 'pigeon' is not acceptable for field 'type'.")]
#[case(json!({"cluster_id": "x"}), "The referenced cluster 'x' could not be found.")]
#[tokio::test]
async fn bad_receivers_are_refused(#[case] fields: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    server.cluster("c", json!({})).await;
    let refused = server.post("/receivers", receiver(&fields)).await;
    assert_eq!((refused.status, refused.message()), (400, message));
}

#[tokio::test]
async fn receivers_are_deleted_with_their_cluster() {
    let server = Server::sqlite().await;
    server.cluster("c", json!({})).await;
    let made = server.post("/receivers", receiver(&json!({}))).await;
    let id = made.body["receiver"]["id"].as_str().unwrap().to_owned();
    let without = server.post(&format!("/webhooks/{id}/trigger"), json!({})).await;
    assert_eq!(without.message(), "V query parameter is required in webhook trigger URL");
    let notified = server.post(&format!("/receivers/{id}/notify"), json!({})).await;
    assert_eq!(notified.message(), "Notifying non-message receiver is not allowed.");
    let deleted = server.delete("/clusters/c").await;
    server.wait_for_end(&deleted.action()).await;
    assert_eq!(server.get(&format!("/receivers/{id}")).await.status, 404);
}

//! Receivers, and those who tell them without an account.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::service::Service;

fn receiver(fields: &Value) -> Value {
    let mut all = json!({"name": "r", "type": "webhook", "cluster_id": "c", "action": "CLUSTER_RESIZE"});
    for (key, value) in fields.as_object().expect("a map") {
        all[key] = value.clone();
    }
    json!({"receiver": all})
}

#[database_test(Service::start)]
async fn whoever_knows_the_address_changes_the_cluster(mut service: Service) {
    service.cluster("c", json!({"desired_capacity": 1})).await;
    let params = json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 1, "a b": "&"});
    let made = service
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
        service.base
    );
    assert_eq!(shown["channel"]["alarm_url"], url);
    service.speaks("");
    let told =
        service.send_text(reqwest::Method::POST, url.strip_prefix(&service.base).unwrap(), None, "").await;
    assert_eq!(told.status, 202, "{}", told.body);
    assert_eq!(told.body["action"], told.action());
    let action = service.ended(&told.action()).await;
    assert_eq!((&action["status"], &action["cause"]), (&"SUCCEEDED".into(), &"RPC Request".into()));
    let name = format!("webhook_{}", &id[..8]);
    assert_eq!(action["name"], name);
    let named = service.get(&format!("/actions?name={name}")).await.body["actions"].clone();
    assert_eq!((&named[0]["id"], &named[1]), (&action["id"], &Value::Null), "lists know it by that name");
    let more = service.post(&format!("/webhooks/{id}/trigger?V=2"), json!({"number": 3})).await;
    assert_eq!(service.ended(&more.action()).await["inputs"]["number"], 3, "what is told counts more");
    assert_eq!(service.get("/clusters/c").await.body["cluster"]["desired_capacity"], 5);
    let changed = service.patch("/receivers/r", json!({"receiver": {"params": params, "name": "s"}})).await;
    assert_eq!((changed.status, &changed.body["receiver"]["params"]), (200, &params));
    let listed = service.get("/receivers?cluster_id=nobody").await;
    assert_eq!(listed.body["receivers"], json!([]));
    assert_eq!(service.delete("/receivers/s").await.status, 204);
    let gone = service.post(&format!("/webhooks/{id}/trigger?V=2"), json!({})).await;
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
    let service = Service::sqlite().await;
    service.cluster("c", json!({})).await;
    let refused = service.post("/receivers", receiver(&fields)).await;
    assert_eq!((refused.status, refused.message()), (400, message));
}

#[tokio::test]
async fn receivers_go_with_their_cluster() {
    let service = Service::sqlite().await;
    service.cluster("c", json!({})).await;
    let made = service.post("/receivers", receiver(&json!({}))).await;
    let id = made.body["receiver"]["id"].as_str().unwrap().to_owned();
    let without = service.post(&format!("/webhooks/{id}/trigger"), json!({})).await;
    assert_eq!(without.message(), "V query parameter is required in webhook trigger URL");
    let notified = service.post(&format!("/receivers/{id}/notify"), json!({})).await;
    assert_eq!(notified.message(), "Notifying non-message receiver is not allowed.");
    let deleted = service.delete("/clusters/c").await;
    service.ended(&deleted.action()).await;
    assert_eq!(service.get(&format!("/receivers/{id}")).await.status, 404);
}

//! Triggers of receivers have no more rights than their creators.

use serde_json::{Value, json};

use crate::identity::log_in;
use crate::server::{Answer, Kind, Server};

const BOB: &str =
    "[[account]]\nname = \"bob\"\npassword = \"plain:b\"\nproject = \"demo\"\nroles = [\"member\"]\n";
const EVE: &str =
    "[[account]]\nname = \"eve\"\npassword = \"plain:e\"\nproject = \"evil\"\nroles = [\"member\"]\n";

/// A server with two tenants; eve has a cluster.
struct Tenants {
    server: Server,
    cluster: Value,
}

impl Tenants {
    async fn start() -> Self {
        let write = |folder: &std::path::Path| {
            std::fs::write(folder.join("accounts.toml"), format!("{BOB}{EVE}")).expect("a file");
        };
        let arguments = ["--auth", "accounts:accounts.toml"];
        let server = Server::start_with(Kind::Sqlite, &arguments, write).await.expect("a server");
        let mut tenants = Self { server, cluster: Value::Null };
        tenants.acts_as("eve", "e").await;
        tenants.cluster = tenants.server.cluster("c", json!({"desired_capacity": 1})).await;
        tenants
    }

    async fn acts_as(&mut self, name: &str, password: &str) {
        let logged_in = log_in(&self.server, name, password, None).await;
        self.server.token = Some(logged_in.header("x-subject-token").to_owned());
    }

    /// Creates a receiver for eve's object and triggers it without credentials.
    async fn trigger(&mut self, action: &str, params: &Value, given: &Value) -> Answer {
        self.acts_as("eve", "e").await;
        let receiver = json!({
            "name": "r", "type": "webhook", "cluster_id": self.cluster["id"], "action": action, "params": params,
        });
        let made = self.server.post("/receivers", json!({"receiver": receiver})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        self.trigger_again(&made, given).await
    }

    async fn trigger_again(&mut self, receiver: &Answer, given: &Value) -> Answer {
        let id = receiver.body["receiver"]["id"].as_str().expect("an id").to_owned();
        self.server.token = None;
        self.server.post(&format!("/webhooks/{id}/trigger?V=2"), given.clone()).await
    }
}

#[tokio::test]
async fn a_trigger_cannot_access_objects_of_other_projects() {
    let mut tenants = Tenants::start().await;
    tenants.acts_as("bob", "b").await;
    let server = &tenants.server;
    let profile = server.profile("bobs").await;
    let node = server.post("/nodes", json!({"node": {"name": "n", "profile_id": profile}})).await;
    server.wait_for_end(&node.action()).await;
    let node = node.body["node"]["id"].as_str().expect("an id").to_owned();
    let spec = json!({"type": "senlin.policy.deletion", "version": "1.1", "properties": {}});
    let policy = server.post("/policies", json!({"policy": {"name": "p", "spec": spec}})).await;
    let policy = policy.body["policy"]["id"].as_str().expect("an id").to_owned();
    let attempts = [
        ("CLUSTER_ADD_NODES", json!({"nodes": [node]}), format!("Nodes not found: ['{node}'].")),
        (
            "CLUSTER_ATTACH_POLICY",
            json!({"policy_id": policy}),
            format!("The specified policy '{policy}' could not be found."),
        ),
        (
            "CLUSTER_UPDATE",
            json!({"profile_id": profile}),
            format!("The specified profile '{profile}' could not be found."),
        ),
    ];
    for (action, params, message) in attempts {
        let refused = tenants.trigger(action, &params, &json!({})).await;
        assert_eq!((refused.status, refused.message()), (400, message.as_str()), "{action}");
    }
}

#[tokio::test]
async fn a_trigger_is_checked_like_a_request() {
    let mut tenants = Tenants::start().await;
    let attempts = [
        (
            "CLUSTER_UPDATE",
            json!({"groups": [{"name": "default", "desired": 5000, "min": 0}]}),
            "No property needs an update.",
        ),
        ("CLUSTER_UPDATE", json!({"labels": {"bad key": "\n"}}), "No property needs an update."),
        (
            "CLUSTER_UPDATE",
            json!({"name": ""}),
            "The value for the name field must be at least 1 characters long.",
        ),
        ("CLUSTER_SCALE_OUT", json!({"count": 0}), "Count for scale-out request cannot be 0."),
        ("CLUSTER_SCALE_OUT", json!({"count": "many"}), "The value for count must be an integer: 'many'."),
    ];
    for (action, params, message) in attempts {
        let refused = tenants.trigger(action, &params, &json!({})).await;
        assert_eq!((refused.status, refused.message()), (400, message), "{action} {params}");
    }
    let undeclared =
        tenants.trigger("CLUSTER_UPDATE", &json!({"name": "d"}), &json!({"profile_id": "p"})).await;
    assert_eq!(
        (undeclared.status, undeclared.message()),
        (400, "The receiver does not declare the parameter 'profile_id': add it to the receiver's params.")
    );
}

#[tokio::test]
async fn a_receiver_loses_its_rights_with_its_creator() {
    let mut tenants = Tenants::start().await;
    let receiver = json!({
        "name": "r", "type": "webhook", "cluster_id": tenants.cluster["id"], "action": "CLUSTER_SCALE_OUT",
    });
    let receiver = tenants.server.post("/receivers", json!({"receiver": receiver})).await;
    let scaled = tenants.trigger_again(&receiver, &json!({})).await;
    assert_eq!(scaled.status, 202, "{}", scaled.body);
    tenants.acts_as("eve", "e").await;
    tenants.server.wait_for_end(&scaled.action()).await;
    tenants.server.write_file("accounts.toml", &format!("{BOB}{}", EVE.replace("member", "reader")));
    assert_eq!(tenants.trigger_again(&receiver, &json!({})).await.status, 403, "a reader");
    tenants.server.write_file("accounts.toml", BOB);
    assert_eq!(tenants.trigger_again(&receiver, &json!({})).await.status, 403, "unknown");
}

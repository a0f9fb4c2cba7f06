//! Nodes, with and without a cluster.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Answer, Server};

async fn create(server: &Server, fields: Value) -> Answer {
    server.post("/nodes", json!({"node": fields})).await
}

#[database_test(Server::start)]
async fn a_node_without_a_cluster_is_created_changed_and_deleted(server: Server) {
    let profile = server.profile("p").await;
    let made =
        create(&server, json!({"name": "n", "profile_id": "p", "role": "db", "metadata": {"a": 1}})).await;
    assert_eq!(made.status, 202, "{}", made.body);
    assert_eq!(
        (&made.body["node"]["status"], &made.body["node"]["cluster_id"]),
        (&"INIT".into(), &"".into())
    );
    let action = server.wait_for_end(&made.action()).await;
    assert_eq!((&action["status"], &action["action"]), (&"SUCCEEDED".into(), &"NODE_CREATE".into()));
    let node = server.get("/nodes/n?show_details=true").await.body["node"].clone();
    assert_eq!((&node["status"], &node["status_reason"]), (&"ACTIVE".into(), &"Creation succeeded".into()));
    assert_eq!(
        (&node["index"], &node["role"], &node["profile_id"]),
        (&(-1).into(), &"db".into(), &profile.into())
    );
    assert_eq!(node["details"]["status"], "ACTIVE");
    assert_eq!(node["details"]["id"], node["physical_id"]);
    let renamed = server.patch("/nodes/n", json!({"node": {"name": "m", "tainted": true}})).await;
    assert_eq!((renamed.status, &renamed.body["node"]["name"]), (202, &"n".into()), "as it is before");
    assert_eq!(server.wait_for_end(&renamed.action()).await["status"], "SUCCEEDED");
    assert_eq!(server.get("/nodes/m").await.body["node"]["tainted"], true);
    let checked = server.post("/nodes/m/actions", json!({"check": {}})).await;
    assert_eq!(server.wait_for_end(&checked.action()).await["status"], "SUCCEEDED");
    let rebooted = server.post("/nodes/m/ops", json!({"reboot": {"type": "HARD"}})).await;
    assert_eq!(rebooted.status, 202, "{}", rebooted.body);
    assert_eq!(server.wait_for_end(&rebooted.action()).await["status"], "SUCCEEDED");
    let deleted = server.delete("/nodes/m").await;
    assert_eq!(deleted.status, 202, "{}", deleted.body);
    assert_eq!(server.wait_for_end(&deleted.action()).await["status"], "SUCCEEDED");
    assert_eq!(
        server.get("/nodes/m").await.refusal(),
        (404, "ResourceNotFound", "The node 'm' could not be found.")
    );
}

#[tokio::test]
async fn a_node_created_in_a_cluster_counts_towards_its_size() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let fields = json!({"name": "mine", "profile_id": cluster["profile_id"], "cluster_id": "c"});
    let made = create(&server, fields).await;
    assert_eq!(server.wait_for_end(&made.action()).await["status"], "SUCCEEDED");
    let shown = server.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!((&shown["desired_capacity"], &shown["status"]), (&2.into(), &"ACTIVE".into()));
    let id = made.body["node"]["id"].as_str().unwrap();
    let node = server.get(&format!("/nodes/{id}")).await.body["node"].clone();
    assert_eq!((&node["index"], &node["cluster_id"]), (&2.into(), &cluster["id"]));
    assert_ne!(node["name"], "mine", "members are named by their cluster");
    let deleted = server.delete(&format!("/nodes/{id}")).await;
    assert_eq!(server.wait_for_end(&deleted.action()).await["status"], "SUCCEEDED");
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["desired_capacity"], 1);
}

#[rstest]
#[case(json!({"profile_id": "p"}), "'name' is a required property")]
#[case(json!({"name": null, "profile_id": "p"}), "Field `name' cannot be None")]
#[case(json!({"name": "n"}), "'profile_id' is a required property")]
#[case(json!({"name": "n", "profile_id": "p", "cluster_id": "other"}), "Node and cluster have different profile type, operation aborted.")]
#[case(json!({"name": "n", "profile_id": "x"}), "The specified profile 'x' could not be found.")]
#[case(json!({"name": "n", "profile_id": "p", "cluster_id": "x"}), "The specified cluster 'x' could not be found.")]
#[tokio::test]
async fn bad_nodes_are_refused(#[case] fields: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    server.profile("p").await;
    let properties = json!({"command": ["sleep", "1000"]});
    let spec = json!({"type": "local.process", "version": "1.0", "properties": properties});
    server.post("/profiles", json!({"profile": {"name": "other", "spec": spec}})).await;
    server.cluster("other", json!({"profile_id": "other"})).await;
    let refused = create(&server, fields).await;
    assert_eq!((refused.status, refused.message()), (400, message));
}

#[rstest]
#[case("/nodes/n/actions", json!({}), "No action specified.")]
#[case("/nodes/n/actions", json!({"check": {}, "recover": {}}), "Multiple actions specified.")]
#[case("/nodes/n/actions", json!({"foo": {}}), "Unrecognized action 'foo' specified")]
#[case("/nodes/n/actions", json!({"check": []}), "The params provided is not a map.")]
#[case("/nodes/n/actions", json!({"recover": {"foo": 1}}), "Action parameter ['foo'] is not recognizable.")]
#[case("/nodes/n/actions", json!({"recover": {"operation": "FOO"}}), "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE.")]
#[case("/nodes/n/ops", json!({}), "No operation specified.")]
#[case("/nodes/n/ops", json!({"a": {}, "b": {}}), "Multiple operations specified.")]
#[case("/nodes/n/ops", json!({"dance": {}}), "The requested operation 'dance' is not supported by the profile type 'simulated.node-1.0'.")]
#[case("/nodes/n/ops", json!({"reboot": {"type": "Unknown"}}), "'Unknown' must be one of the allowed values: SOFT, HARD.")]
#[tokio::test]
async fn invalid_operations_are_refused(#[case] path: &str, #[case] body: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    server.profile("p").await;
    let made = create(&server, json!({"name": "n", "profile_id": "p"})).await;
    server.wait_for_end(&made.action()).await;
    let refused = server.post(path, body).await;
    assert_eq!((refused.status, refused.message()), (400, message));
}

#[tokio::test]
async fn operations_are_listed_with_their_parameters() {
    let server = Server::sqlite().await;
    let shown = server.get("/profile-types/simulated.node-1.0/ops").await.body["operations"].clone();
    assert_eq!(
        shown["reboot"]["parameters"]["type"]["constraints"][0]["constraint"],
        json!(["SOFT", "HARD"])
    );
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    let first = cluster["nodes"][0].as_str().unwrap();
    let name = server.get(&format!("/nodes/{first}")).await.body["node"]["name"].clone();
    let accepted = server.post("/clusters/c/ops", json!({"reboot": {"filters": {"name": name}}})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let action = server.wait_for_end(&accepted.action()).await;
    assert_eq!((&action["status"], &action["inputs"]["nodes"]), (&"SUCCEEDED".into(), &json!([first])));
    let unknown = server.post("/clusters/c/ops", json!({"dance": {}})).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test]
async fn a_node_that_cannot_be_deleted_is_recreated_only_by_force() {
    let server = Server::sqlite().await;
    let clings = json!({"flavor": "small", "metadata": {"simulated_failure": "delete"}});
    server.profile_with("clings", clings).await;
    let made = create(&server, json!({"name": "n", "profile_id": "clings"})).await;
    server.wait_for_end(&made.action()).await;
    let node = async || server.get("/nodes/n").await.body["node"].clone();
    let before = node().await;
    let recovered = async |how: Value| {
        let accepted = server.post("/nodes/n/actions", json!({"recover": how})).await;
        assert_eq!(accepted.status, 202, "{}", accepted.body);
        server.wait_for_end(&accepted.action()).await
    };
    let failed = recovered(json!({"operation": "RECREATE"})).await;
    assert_eq!(failed["status"], "FAILED", "{failed}");
    assert_eq!(failed["status_reason"], "n: the profile says that deletion fails (simulated_failure)");
    assert_eq!(
        (&node().await["status"], &node().await["physical_id"]),
        (&"ERROR".into(), &before["physical_id"])
    );
    let forced = recovered(json!({"force_recreate": "true", "delete_timeout": "5"})).await;
    assert_eq!(forced["status"], "SUCCEEDED", "{forced}");
    let after = node().await;
    assert_eq!((&after["status"], &after["data"]["recovery"]), (&"ACTIVE".into(), &"RECREATE".into()));
    assert_ne!(after["physical_id"], before["physical_id"]);
    for (how, words) in [
        (json!({"delete_timeout": -1}), "Value must be >= 0 for field 'delete_timeout'."),
        (json!({"operation_params": [1]}), "The params provided is not a map."),
        (json!({"bogus": 1}), "Action parameter ['bogus'] is not recognizable."),
    ] {
        let refused = server.post("/nodes/n/actions", json!({"recover": how})).await;
        assert_eq!((refused.status, refused.message()), (400, words));
    }
}

#[tokio::test]
async fn a_node_that_fails_its_checks_can_be_created_and_is_detected_by_a_check() {
    let server = Server::sqlite().await;
    let failing = json!({"flavor": "small", "metadata": {"simulated_failure": "check"}});
    server.profile_with("failing", failing).await;
    let made = create(&server, json!({"name": "n", "profile_id": "failing"})).await;
    assert_eq!(server.wait_for_end(&made.action()).await["status"], "SUCCEEDED");
    assert_eq!(server.get("/nodes/n").await.body["node"]["status"], "ACTIVE");
    let checked = server.post("/nodes/n/actions", json!({"check": {}})).await;
    server.wait_for_end(&checked.action()).await;
    let node = server.get("/nodes/n").await.body["node"].clone();
    assert_eq!(
        (&node["status"], &node["status_reason"]),
        (&"ERROR".into(), &"Check: Node is not ACTIVE.".into())
    );
}

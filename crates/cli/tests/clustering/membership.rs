//! Members of clusters are added, removed and replaced.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

/// Creates an orphan of the same type as the clusters here.
async fn orphan(server: &Server, name: &str, profile: &Value) -> String {
    let made = server.post("/nodes", json!({"node": {"name": name, "profile_id": profile}})).await;
    assert_eq!(made.status, 202, "{}", made.body);
    server.wait_for_end(&made.action()).await;
    made.body["node"]["id"].as_str().expect("an id").to_owned()
}

#[database_test(Server::start)]
async fn orphans_join_are_replaced_and_leave(server: Server) {
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let (one, two) = (
        orphan(&server, "one", &cluster["profile_id"]).await,
        orphan(&server, "two", &cluster["profile_id"]).await,
    );
    let added = server.act(&cluster, json!({"add_nodes": {"nodes": ["one"]}})).await;
    assert_eq!(added["status"], "SUCCEEDED", "{added}");
    let shown = server.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!((&shown["desired_capacity"], shown["nodes"].as_array().unwrap().len()), (&2.into(), 2));
    let again = server.post("/clusters/c/actions", json!({"add_nodes": {"nodes": [one]}})).await;
    assert_eq!(again.message(), format!("Nodes ['{one}'] already owned by some cluster."));
    let pairs = Value::Object([(one.clone(), Value::from(two.clone()))].into_iter().collect());
    let replaced = server.act(&cluster, json!({"replace_nodes": {"nodes": pairs}})).await;
    assert_eq!(replaced["status"], "SUCCEEDED", "{replaced}");
    let left = server.get(&format!("/nodes/{one}")).await.body["node"].clone();
    assert_eq!(
        (&left["cluster_id"], &left["index"], &left["status"]),
        (&"".into(), &(-1).into(), &"ACTIVE".into())
    );
    let removed =
        server.act(&cluster, json!({"del_nodes": {"nodes": [two], "destroy_after_deletion": true}})).await;
    assert_eq!(removed["status"], "SUCCEEDED", "{removed}");
    assert_eq!(server.get(&format!("/nodes/{two}")).await.status, 404);
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["desired_capacity"], 1);
}

#[rstest]
#[case(json!({"add_nodes": {}}), "Value for 'nodes' must have at least 1 item(s).")]
#[case(json!({"add_nodes": {"nodes": []}}), "Value for 'nodes' must have at least 1 item(s).")]
#[case(json!({"add_nodes": {"nodes": "zz"}}), "Items for 'nodes' must be unique")]
#[case(json!({"add_nodes": {"nodes": ["x"]}}), "Nodes not found: ['x'].")]
#[case(json!({"del_nodes": {"nodes": ["x"]}}), "Nodes not found: ['x'].")]
#[case(json!({"replace_nodes": {"nodes": {}}}), "The data provided is not a map")]
#[case(json!({"replace_nodes": {"nodes": {"a": null}}}), "Field `nodes[a]' cannot be None")]
#[case(json!({"replace_nodes": {"nodes": {"a": "x", "b": "x"}}}), "Map contains duplicated values")]
#[case(json!({"replace_nodes": {"nodes": {"a": "x"}}}), "Original nodes not found: ['a'].\nReplacement nodes not found: ['x'].")]
#[case(json!({"scale_out": {"count": 0}}), "Count for scale-out request cannot be 0.")]
#[case(json!({"scale_in": {"count": 0}}), "Count for scale-in request cannot be 0.")]
#[case(json!({"scale_in": {"count": -1}}), "Value must be >= 0 for field 'count'.")]
#[case(json!({"policy_attach": {}}), "'policy_id' is a required property")]
#[case(json!({"policy_attach": {"policy_id": "x"}}), "The specified policy 'x' could not be found.")]
#[tokio::test]
async fn bad_members_are_refused(#[case] operation: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    server.cluster("c", json!({})).await;
    let refused = server.post("/clusters/c/actions", operation).await;
    assert_eq!((refused.status, refused.message()), (400, message));
}

#[tokio::test]
async fn a_cluster_is_scaled_by_a_count() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 2, "max_size": 4})).await;
    assert_eq!(server.act(&cluster, json!({"scale_out": {"count": "2"}})).await["status"], "SUCCEEDED");
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["desired_capacity"], 4);
    let beyond = server.act(&cluster, json!({"scale_out": {}})).await;
    assert_eq!(beyond["status"], "FAILED");
    assert_eq!(
        beyond["status_reason"],
        "The target capacity (5) is greater than the cluster's max_size (4)."
    );
    assert_eq!(server.act(&cluster, json!({"scale_in": {"count": 3}})).await["status"], "SUCCEEDED");
    let shown = server.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!((&shown["desired_capacity"], shown["nodes"].as_array().unwrap().len()), (&1.into(), 1));
}

#[tokio::test]
async fn sizes_are_changed_with_other_properties() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 5})).await;
    let patch = async |fields: Value| {
        let accepted = server.patch("/clusters/c", json!({"cluster": fields})).await;
        assert_eq!(accepted.status, 202, "{}", accepted.body);
        assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
        let id = cluster["id"].as_str().unwrap();
        server.get(&format!("/clusters/{id}")).await.body["cluster"].clone()
    };
    let grown = patch(json!({"min_size": 7})).await;
    assert_eq!(
        (&grown["min_size"], &grown["desired_capacity"]),
        (&7.into(), &7.into()),
        "bounds pull the size in"
    );
    let shrunk =
        patch(json!({"min_size": 0, "desired_capacity": 2, "max_size": 2, "metadata": {"a": 1}})).await;
    assert_eq!((&shrunk["max_size"], &shrunk["desired_capacity"]), (&2.into(), &2.into()));
    assert_eq!(shrunk["metadata"], json!({"a": 1}));
    let refused = server.patch("/clusters/c", json!({"cluster": {"desired_capacity": 3}})).await;
    assert_eq!(refused.message(), "The target capacity (3) is greater than the cluster's max_size (2).");
}

//! Clusters are created, listed, changed and deleted.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

#[database_test(Server::start)]
async fn a_cluster_has_its_life_cycle(server: Server) {
    let profile = server.profile("p").await;
    let fields = json!({
        "name": "c", "profile": "p", "desired_capacity": "2", "min_size": 1, "max_size": 5, "timeout": 60,
        "metadata": {"a": 1}, "config": {"node.name.format": "n-$3I"},
    });
    let made = server.post("/clusters", json!({"cluster": fields})).await;
    assert_eq!(made.status, 202, "{}", made.body);
    let id = made.body["cluster"]["id"].as_str().unwrap().to_owned();
    assert_eq!(made.body["cluster"]["status"], "INIT");
    assert_eq!(made.header("location"), format!("{}/clustering/v1/actions/{}", server.base, made.action()));
    assert_eq!(made.header("muster-action-id"), made.action(), "as at every door");
    let action = server.wait_for_end(&made.action()).await;
    assert_eq!((&action["status"], &action["action"]), (&"SUCCEEDED".into(), &"CLUSTER_CREATE".into()));
    assert_eq!((&action["target"], &action["cluster_id"]), (&id.clone().into(), &id.clone().into()));
    assert_eq!(action["name"], format!("cluster_create_{}", &id[..8]));
    assert_eq!(action["depends_on"].as_array().unwrap().len(), 2, "its parts are kept");
    let shown = server.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!(shown["status"], "ACTIVE");
    assert_eq!(
        shown["status_reason"],
        "CLUSTER_CREATE: number of active nodes is equal or above desired_capacity (2)."
    );
    assert_eq!((&shown["profile_id"], &shown["profile_name"]), (&profile.into(), &"p".into()));
    assert_eq!(
        (&shown["min_size"], &shown["max_size"], &shown["desired_capacity"]),
        (&1.into(), &5.into(), &2.into())
    );
    assert_eq!(
        (&shown["timeout"], &shown["metadata"], &shown["policies"]),
        (&60.into(), &json!({"a": 1}), &json!([]))
    );
    let nodes = server.get("/nodes?cluster_id=c&sort=index").await.body["nodes"].clone();
    let names: Vec<&str> =
        nodes.as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["n-001", "n-002"]);
    assert_eq!(nodes[0]["cluster_id"], id);
    assert_eq!(nodes[0]["tainted"], false);
    let ids: Vec<&Value> = nodes.as_array().unwrap().iter().map(|node| &node["id"]).collect();
    assert_eq!(shown["nodes"].as_array().unwrap().iter().collect::<Vec<_>>(), ids);
    let deleted = server.delete("/clusters/c").await;
    assert_eq!((deleted.status, &deleted.body), (202, &Value::Null));
    assert_eq!(server.wait_for_end(&deleted.action()).await["status"], "SUCCEEDED");
    let gone = server.get("/clusters/c").await;
    assert_eq!(gone.refusal(), (404, "ResourceNotFound", "The cluster 'c' could not be found."));
    assert_eq!(server.get("/nodes").await.body["nodes"], json!([]));
}

#[rstest]
#[case(json!({}), "'name' is a required property")]
#[case(json!({"name": "c"}), "'profile_id' is a required property")]
#[case(json!({"name": "a b", "profile_id": "p"}), "The value for the 'name' (a b) contains illegal characters. It must contain only alphanumeric or \"_-.~\" characters and must start with letter.")]
#[case(json!({"name": "c", "profile_id": "p", "foo": 1}), "Additional properties are not allowed ('foo' was unexpected)")]
#[case(json!({"name": "c", "profile_id": "x"}), "The specified profile 'x' could not be found.")]
#[case(json!({"name": "c", "profile_id": "p", "desired_capacity": 1001}), "The value for the desired_capacity field must be less than or equal to 1000.")]
#[case(json!({"name": "c", "profile_id": "p", "min_size": 3, "max_size": 2}), "The target capacity (3) is greater than the specified max_size (2).")]
#[case(json!({"name": "c", "profile_id": "p", "desired_capacity": 1, "min_size": 2}), "The target capacity (1) is less than the specified min_size (2).")]
#[case(json!({"name": "c", "profile_id": "p", "metadata": [1]}), "[1] is not of type 'object', 'null'")]
#[tokio::test]
async fn a_bad_creation_is_refused_and_leaves_nothing(#[case] fields: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    server.profile("p").await;
    let refused = server.post("/clusters", json!({"cluster": fields})).await;
    assert_eq!((refused.status, refused.message()), (400, message));
    assert_eq!(server.get("/clusters").await.body["clusters"], json!([]));
}

#[tokio::test]
async fn bodies_without_a_cluster_are_refused() {
    let server = Server::sqlite().await;
    let path = "/clustering/v1/clusters";
    let send = async |body: &str, kind: &str| {
        let answer = server.send_text(reqwest::Method::POST, path, Some(body.to_owned()), kind).await;
        (answer.status, answer.message().to_owned())
    };
    let malformed =
        "The server could not comply with the request since it is either malformed or otherwise incorrect.";
    assert_eq!(send("[]", "application/json").await, (400, malformed.to_owned()));
    assert_eq!(send("{}", "application/xml").await, (400, malformed.to_owned()));
    assert_eq!(send("{}", "application/json").await, (400, "Request body missing 'cluster' key.".to_owned()));
    assert_eq!(send("{\"cluster\": ", "application/json").await.0, 400);
    let large = format!("{{\"cluster\": {{\"name\": \"{}\"}}}}", "x".repeat(10_000_000));
    assert_eq!(send(&large, "application/json").await.0, 400);
}

#[tokio::test]
async fn empty_values_of_clients_count_as_not_given() {
    let server = Server::sqlite().await;
    let cluster = server
        .cluster(
            "c",
            json!({"min_size": null, "max_size": null, "desired_capacity": null, "timeout": 0, "config": null}),
        )
        .await;
    assert_eq!((&cluster["min_size"], &cluster["max_size"]), (&0.into(), &(-1).into()));
    assert_eq!((&cluster["desired_capacity"], &cluster["timeout"]), (&0.into(), &3600.into()));
    assert_eq!(cluster["status"], "ACTIVE");
}

#[tokio::test]
async fn properties_are_changed_by_key() {
    let mut server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"metadata": {"a": 1, "b": 2}})).await;
    let body = json!({"cluster": {"name": "d", "metadata": {"a": null, "c": 3}, "timeout": 120}});
    let accepted = server.patch("/clusters/c", body).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert_eq!(accepted.body["cluster"]["name"], "c", "as it is before the change");
    assert_eq!(accepted.body["cluster"]["action"], accepted.action());
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
    let id = cluster["id"].as_str().unwrap();
    let changed = server.get(&format!("/clusters/{id}")).await.body["cluster"].clone();
    assert_eq!((&changed["name"], &changed["timeout"]), (&"d".into(), &120.into()));
    assert_eq!(changed["metadata"], json!({"b": 2, "c": 3}));
    server.set_version("clustering 1.6");
    let dropped = server.patch("/clusters/d", json!({"cluster": {"config": {"a": 1}}})).await;
    assert_eq!(dropped.message(), "No property needs an update.", "it came with 1.7");
    server.set_version("clustering latest");
    let nothing = server.patch("/clusters/d", json!({"cluster": {"name": null}})).await;
    assert_eq!(nothing.refusal(), (400, "BadRequest", "No property needs an update."));
    let empty = server.patch("/clusters/d", json!({})).await;
    assert_eq!(empty.message(), "Malformed request data, missing 'cluster' key in request body.");
}

#[tokio::test]
async fn a_name_of_two_clusters_is_ambiguous() {
    let server = Server::sqlite().await;
    let profile = server.profile("p").await;
    let one = server.cluster("twin", json!({"profile_id": profile})).await;
    server.cluster("twin", json!({"profile_id": profile})).await;
    let refused = server.get("/clusters/twin").await;
    assert_eq!(
        refused.refusal(),
        (
            400,
            "MultipleChoices",
            "Multiple results found matching the query criteria 'twin'. Please be more specific."
        )
    );
    let id = one["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/clusters/{id}")).await.status, 200);
    let simple = id.replace('-', "");
    assert_eq!(server.get(&format!("/clusters/{simple}")).await.status, 404, "no id without its hyphens");
}

#[tokio::test]
async fn a_cluster_in_use_is_not_deleted() {
    let server = Server::sqlite().await;
    server.cluster("c", json!({"dependents": {"profiles": ["x"]}})).await;
    let refused = server.delete("/clusters/c").await;
    assert_eq!(refused.status, 409);
    assert!(refused.message().contains("still referenced by profile(s): ['x']"), "{}", refused.message());
}

#[tokio::test]
async fn a_cluster_that_is_being_created_is_deleted_by_force_only() {
    let server = Server::sqlite().await;
    let slow = json!({"flavor": "f", "metadata": {"simulated_wait_time": 60}});
    let profile = server.profile_with("slow", slow).await;
    let fields = json!({"name": "c", "profile_id": profile, "desired_capacity": 1});
    let made = server.post("/clusters", json!({"cluster": fields})).await;
    server.until("/clusters/c", "cluster", "CREATING").await;
    let refused = server.delete("/clusters/c").await;
    assert_eq!(refused.refusal(), (409, "ActionInProgress", "The cluster 'c' is in status CREATING."));
    let check = server.post("/clusters/c/actions", json!({"check": {}})).await;
    let id = made.body["cluster"]["id"].as_str().unwrap();
    let locked =
        format!("CLUSTER_CHECK for cluster '{id}' cannot be completed because it is already locked.");
    assert_eq!(check.refusal(), (409, "ResourceIsLocked", locked.as_str()));
    let forced = server.delete("/clusters/c?force=true").await;
    assert_eq!(forced.status, 202, "{}", forced.body);
    assert_eq!(server.wait_for_end(&forced.action()).await["status"], "SUCCEEDED");
    assert_eq!(server.wait_for_end(&made.action()).await["status"], "CANCELLED");
}

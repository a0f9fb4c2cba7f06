//! Clusters: made, shown, changed and removed.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::service::Service;

#[database_test(Service::start)]
async fn a_cluster_lives_from_its_creation_to_its_deletion(service: Service) {
    let profile = service.profile("p").await;
    let fields = json!({
        "name": "c", "profile": "p", "desired_capacity": "2", "min_size": 1, "max_size": 5, "timeout": 60,
        "metadata": {"a": 1}, "config": {"node.name.format": "n-$3I"},
    });
    let made = service.post("/clusters", json!({"cluster": fields})).await;
    assert_eq!(made.status, 202, "{}", made.body);
    let id = made.body["cluster"]["id"].as_str().unwrap().to_owned();
    assert_eq!(made.body["cluster"]["status"], "INIT");
    assert_eq!(made.header("location"), format!("{}/clustering/v1/actions/{}", service.base, made.action()));
    assert_eq!(made.header("muster-action-id"), made.action(), "as at every door");
    let action = service.ended(&made.action()).await;
    assert_eq!((&action["status"], &action["action"]), (&"SUCCEEDED".into(), &"CLUSTER_CREATE".into()));
    assert_eq!((&action["target"], &action["cluster_id"]), (&id.clone().into(), &id.clone().into()));
    assert_eq!(action["name"], format!("cluster_create_{}", &id[..8]));
    assert_eq!(action["depends_on"].as_array().unwrap().len(), 2, "its parts are kept");
    let shown = service.get("/clusters/c").await.body["cluster"].clone();
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
    let nodes = service.get("/nodes?cluster_id=c&sort=index").await.body["nodes"].clone();
    let names: Vec<&str> =
        nodes.as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["n-001", "n-002"]);
    assert_eq!(nodes[0]["cluster_id"], id);
    assert_eq!(nodes[0]["tainted"], false);
    let ids: Vec<&Value> = nodes.as_array().unwrap().iter().map(|node| &node["id"]).collect();
    assert_eq!(shown["nodes"].as_array().unwrap().iter().collect::<Vec<_>>(), ids);
    let deleted = service.delete("/clusters/c").await;
    assert_eq!((deleted.status, &deleted.body), (202, &Value::Null));
    assert_eq!(service.ended(&deleted.action()).await["status"], "SUCCEEDED");
    let gone = service.get("/clusters/c").await;
    assert_eq!(gone.refusal(), (404, "ResourceNotFound", "The cluster 'c' could not be found."));
    assert_eq!(service.get("/nodes").await.body["nodes"], json!([]));
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
    let service = Service::sqlite().await;
    service.profile("p").await;
    let refused = service.post("/clusters", json!({"cluster": fields})).await;
    assert_eq!((refused.status, refused.message()), (400, message));
    assert_eq!(service.get("/clusters").await.body["clusters"], json!([]));
}

#[tokio::test]
async fn bodies_that_are_no_cluster_are_refused() {
    let service = Service::sqlite().await;
    let path = "/clustering/v1/clusters";
    let send = async |body: &str, kind: &str| {
        let answer = service.send_text(reqwest::Method::POST, path, Some(body.to_owned()), kind).await;
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
async fn what_clients_send_for_nothing_is_taken_as_nothing() {
    let service = Service::sqlite().await;
    let cluster = service
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
    let mut service = Service::sqlite().await;
    let cluster = service.cluster("c", json!({"metadata": {"a": 1, "b": 2}})).await;
    let body = json!({"cluster": {"name": "d", "metadata": {"a": null, "c": 3}, "timeout": 120}});
    let accepted = service.patch("/clusters/c", body).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert_eq!(accepted.body["cluster"]["name"], "c", "as it is before the change");
    assert_eq!(accepted.body["cluster"]["action"], accepted.action());
    assert_eq!(service.ended(&accepted.action()).await["status"], "SUCCEEDED");
    let id = cluster["id"].as_str().unwrap();
    let changed = service.get(&format!("/clusters/{id}")).await.body["cluster"].clone();
    assert_eq!((&changed["name"], &changed["timeout"]), (&"d".into(), &120.into()));
    assert_eq!(changed["metadata"], json!({"b": 2, "c": 3}));
    service.speaks("clustering 1.6");
    let dropped = service.patch("/clusters/d", json!({"cluster": {"config": {"a": 1}}})).await;
    assert_eq!(dropped.message(), "No property needs an update.", "it came with 1.7");
    service.speaks("clustering latest");
    let nothing = service.patch("/clusters/d", json!({"cluster": {"name": null}})).await;
    assert_eq!(nothing.refusal(), (400, "BadRequest", "No property needs an update."));
    let empty = service.patch("/clusters/d", json!({})).await;
    assert_eq!(empty.message(), "Malformed request data, missing 'cluster' key in request body.");
}

#[tokio::test]
async fn a_name_that_two_clusters_have_is_not_enough() {
    let service = Service::sqlite().await;
    let profile = service.profile("p").await;
    let one = service.cluster("twin", json!({"profile_id": profile})).await;
    service.cluster("twin", json!({"profile_id": profile})).await;
    let refused = service.get("/clusters/twin").await;
    assert_eq!(
        refused.refusal(),
        (
            400,
            "MultipleChoices",
            "Multiple results found matching the query criteria 'twin'. Please be more specific."
        )
    );
    let id = one["id"].as_str().unwrap();
    assert_eq!(service.get(&format!("/clusters/{id}")).await.status, 200);
    let simple = id.replace('-', "");
    assert_eq!(service.get(&format!("/clusters/{simple}")).await.status, 404, "no id without its hyphens");
}

#[tokio::test]
async fn a_cluster_that_others_refer_to_stays() {
    let service = Service::sqlite().await;
    service.cluster("c", json!({"dependents": {"profiles": ["x"]}})).await;
    let refused = service.delete("/clusters/c").await;
    assert_eq!(refused.status, 409);
    assert!(refused.message().contains("still referenced by profile(s): ['x']"), "{}", refused.message());
}

#[tokio::test]
async fn while_a_cluster_is_being_made_it_is_deleted_by_force_only() {
    let service = Service::sqlite().await;
    let slow = json!({"flavor": "f", "metadata": {"simulated_wait_time": 60}});
    let profile = service.profile_with("slow", slow).await;
    let fields = json!({"name": "c", "profile_id": profile, "desired_capacity": 1});
    let made = service.post("/clusters", json!({"cluster": fields})).await;
    service.until("/clusters/c", "cluster", "CREATING").await;
    let refused = service.delete("/clusters/c").await;
    assert_eq!(refused.refusal(), (409, "ActionInProgress", "The cluster 'c' is in status CREATING."));
    let check = service.post("/clusters/c/actions", json!({"check": {}})).await;
    let id = made.body["cluster"]["id"].as_str().unwrap();
    let locked =
        format!("CLUSTER_CHECK for cluster '{id}' cannot be completed because it is already locked.");
    assert_eq!(check.refusal(), (409, "ResourceIsLocked", locked.as_str()));
    let forced = service.delete("/clusters/c?force=true").await;
    assert_eq!(forced.status, 202, "{}", forced.body);
    assert_eq!(service.ended(&forced.action()).await["status"], "SUCCEEDED");
    assert_eq!(service.ended(&made.action()).await["status"], "CANCELLED");
}

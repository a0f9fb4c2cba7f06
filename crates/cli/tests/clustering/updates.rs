//! Updates of profiles of existing clusters and nodes.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

async fn profiles_of_nodes(server: &Server, cluster: &str) -> Vec<Value> {
    let nodes = server.get(&format!("/nodes?cluster_id={cluster}")).await.body["nodes"].clone();
    nodes.as_array().expect("a list").iter().map(|node| node["profile_id"].clone()).collect()
}

#[database_test(Server::start)]
async fn nodes_follow_the_profile_of_their_cluster(server: Server) {
    server.cluster("c", json!({"desired_capacity": 3})).await;
    let large = server.profile_with("large", json!({"flavor": "large"})).await;
    let accepted = server.patch("/clusters/c", json!({"cluster": {"profile_id": "large"}})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let action = server.wait_for_end(&accepted.action()).await;
    assert_eq!(
        (&action["action"], &action["status_reason"]),
        (&"CLUSTER_UPDATE".into(), &"Cluster update completed.".into())
    );
    assert_eq!(profiles_of_nodes(&server, "c").await, vec![Value::from(large.clone()); 3]);
    let shown = server.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!((&shown["profile_id"], &shown["status"]), (&large.clone().into(), &"ACTIVE".into()));
    let parts = server.get("/actions?action=NODE_UPDATE").await.body["actions"].clone();
    assert_eq!(parts.as_array().unwrap().len(), 3);
    for part in parts.as_array().unwrap() {
        assert_eq!(
            (&part["status"], &part["inputs"]["new_profile_id"]),
            (&"SUCCEEDED".into(), &large.clone().into())
        );
    }
}

#[tokio::test]
async fn a_batch_policy_limits_the_number_of_concurrent_updates() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 3})).await;
    let properties = json!({"min_in_service": 1, "max_batch_size": 2, "pause_time": 0});
    let spec = json!({"type": "senlin.policy.batch", "version": "1.0", "properties": properties});
    server.post("/policies", json!({"policy": {"name": "b", "spec": spec}})).await;
    server.act(&cluster, json!({"policy_attach": {"policy_id": "b"}})).await;
    server.profile_with("large", json!({"flavor": "large"})).await;
    let accepted = server.patch("/clusters/c", json!({"cluster": {"profile_id": "large"}})).await;
    let action = server.wait_for_end(&accepted.action()).await;
    assert_eq!(action["status"], "SUCCEEDED", "{action}");
    let plan = action["data"]["update"]["plan"].as_array().unwrap();
    assert_eq!(plan.iter().map(|batch| batch.as_array().unwrap().len()).collect::<Vec<_>>(), [2, 1]);
}

#[tokio::test]
async fn on_request_only_the_profile_of_the_cluster_changes() {
    let mut server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let large = server.profile_with("large", json!({"flavor": "large"})).await;
    let change = json!({"cluster": {"profile_id": "large", "profile_only": true}});
    let accepted = server.patch("/clusters/c", change.clone()).await;
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
    assert_eq!(profiles_of_nodes(&server, "c").await, [cluster["profile_id"].clone()]);
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["profile_id"], large);
    let older = server.cluster("d", json!({"desired_capacity": 1})).await;
    server.set_version("clustering 1.5");
    let accepted = server.patch("/clusters/d", change).await;
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
    assert_ne!(profiles_of_nodes(&server, "d").await, [older["profile_id"].clone()], "it came with 1.6");
}

#[tokio::test]
async fn profiles_that_nodes_cannot_follow_are_refused() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    server.profile_with("keyed", json!({"flavor": "small", "key_name": "k"})).await;
    let refused = server.patch("/clusters/c", json!({"cluster": {"profile_id": "keyed"}})).await;
    let why =
        "The following properties are not updatable: key_name: pass profile_only, and replace the nodes";
    assert_eq!(refused.refusal(), (400, "BadRequest", why));
    let failing = json!({"flavor": "small", "metadata": {"simulated_failure": "update"}});
    server.profile_with("failing", failing).await;
    let before = server.get("/clusters/c").await.body["cluster"]["profile_id"].clone();
    let accepted = server.patch("/clusters/c", json!({"cluster": {"profile_id": "failing"}})).await;
    let failed = server.wait_for_end(&accepted.action()).await;
    assert_eq!(failed["status"], "FAILED");
    let why = failed["status_reason"].as_str().unwrap();
    assert!(why.starts_with("Failed in updating nodes. node-"), "{why}");
    let node = server.get("/nodes?cluster_id=c").await.body["nodes"][0].clone();
    assert_eq!((&node["status"], &node["profile_id"]), (&"ERROR".into(), &before));
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["profile_id"], before, "it did not change");
    assert_eq!(server.act(&cluster, json!({"recover": {}})).await["status"], "SUCCEEDED");
    server.profile_with("good", json!({"flavor": "large"})).await;
    let accepted = server.patch("/clusters/c", json!({"cluster": {"profile_id": "good"}})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert_eq!(server.wait_for_end(&accepted.action()).await["status"], "SUCCEEDED");
}

#[database_test(Server::start)]
async fn an_attribute_is_collected_from_all_workers(mut server: Server) {
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    let first = cluster["nodes"][0].as_str().unwrap().to_owned();
    let named = server.patch(&format!("/nodes/{first}"), json!({"node": {"metadata": {"a-b": 1}}})).await;
    server.wait_for_end(&named.action()).await;
    let collect = async |path: &str| {
        let answer = server.get(&format!("/clusters/c/attrs/{path}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["cluster_attributes"].clone()
    };
    assert_eq!(collect("metadata.a-b").await, json!([{"id": first, "value": 1}]), "others have none");
    let all = collect("details.status").await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!((&all[0]["id"], &all[0]["value"]), (&first.clone().into(), &"ACTIVE".into()));
    let missing = server.get("/clusters/c/attrs/None").await;
    assert_eq!(missing.refusal(), (400, "BadRequest", "Required path attribute is missing."));
    assert_eq!(server.get("/clusters/c/attrs/a%5B").await.status, 400);
    assert_eq!(server.get("/clusters/x/attrs/name").await.status, 404);
    server.set_version("clustering 1.1");
    assert_eq!(server.get("/clusters/c/attrs/name").await.status, 400, "it came with 1.2");
}

#[database_test(Server::start)]
async fn an_external_node_is_adopted(mut server: Server) {
    let wanted = json!({"identity": "server-7", "type": "simulated.node-1.0", "overrides": {"image": "i"}});
    let preview = server.post("/nodes/adopt-preview", wanted.clone()).await;
    assert_eq!(preview.status, 200, "{}", preview.body);
    let seen = &preview.body["node_profile"]["node_preview"];
    assert_eq!((&seen["type"], &seen["version"]), (&"simulated.node".into(), &"1.0".into()));
    assert_eq!(seen["properties"]["image"], "i");
    let mut named = wanted.clone();
    named["name"] = "mine".into();
    let adopted = server.post("/nodes/adopt", named).await;
    assert_eq!(adopted.status, 200, "{}", adopted.body);
    let node = &adopted.body["node"];
    assert_eq!((&node["status"], &node["physical_id"]), (&"ACTIVE".into(), &"server-7".into()));
    assert_eq!((&node["profile_name"], &node["cluster_id"]), (&"prof-mine".into(), &"".into()));
    assert_eq!(server.post("/nodes/adopt", wanted.clone()).await.status, 409, "it is ours already");
    let cluster = server.cluster("c", json!({})).await;
    let joined = server.act(&cluster, json!({"add_nodes": {"nodes": ["mine"]}})).await;
    assert_eq!(joined["status"], "SUCCEEDED", "{joined}");
    let deleted = server.delete("/nodes/mine").await;
    assert_eq!(server.wait_for_end(&deleted.action()).await["status"], "SUCCEEDED");
    server.set_version("clustering 1.6");
    assert_eq!(server.post("/nodes/adopt", wanted).await.status, 400, "it came with 1.7");
}

#[rstest]
#[case(json!({"type": "simulated.node-1.0"}), "'identity' is a required property")]
#[case(json!({"identity": "x"}), "'type' is a required property")]
#[case(json!({"identity": "x", "type": "foo-1.0"}), "The profile_type 'foo-1.0' could not be found.")]
#[case(json!({"identity": "x", "type": "dask.cluster-1.0"}), "nodes of type dask.cluster-1.0 cannot be adopted: only Muster creates them")]
#[case(json!({"identity": "x", "type": "local.process-1.0"}), "nodes of type local.process-1.0 cannot be adopted: only Muster creates them")]
#[case(json!({"identity": "x", "type": "simulated.node-1.0", "overrides": {"foo": 1}}), "Unrecognizable spec item 'foo': one of flavor, name, image, networks, key_name, metadata is expected")]
#[case(json!({"identity": "x", "type": "simulated.node-1.0", "snapshot": true}), "snapshots of simulated.node-1.0 are not supported: leave out snapshot.")]
#[tokio::test]
async fn invalid_adoptions_are_refused_with_the_reason(#[case] body: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    for path in ["/nodes/adopt", "/nodes/adopt-preview"] {
        let refused = server.post(path, body.clone()).await;
        assert_eq!((refused.status, refused.message()), (400, message));
    }
}

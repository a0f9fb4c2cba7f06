//! Another profile for clusters and nodes that are there.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::service::Service;

async fn profiles_of_nodes(service: &Service, cluster: &str) -> Vec<Value> {
    let nodes = service.get(&format!("/nodes?cluster_id={cluster}")).await.body["nodes"].clone();
    nodes.as_array().expect("a list").iter().map(|node| node["profile_id"].clone()).collect()
}

#[database_test(Service::start)]
async fn nodes_follow_the_profile_of_their_cluster(service: Service) {
    service.cluster("c", json!({"desired_capacity": 3})).await;
    let large = service.profile_with("large", json!({"flavor": "large"})).await;
    let accepted = service.patch("/clusters/c", json!({"cluster": {"profile_id": "large"}})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let action = service.ended(&accepted.action()).await;
    assert_eq!(
        (&action["action"], &action["status_reason"]),
        (&"CLUSTER_UPDATE".into(), &"Cluster update completed.".into())
    );
    assert_eq!(profiles_of_nodes(&service, "c").await, vec![Value::from(large.clone()); 3]);
    let shown = service.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!((&shown["profile_id"], &shown["status"]), (&large.clone().into(), &"ACTIVE".into()));
    let parts = service.get("/actions?action=NODE_UPDATE").await.body["actions"].clone();
    assert_eq!(parts.as_array().unwrap().len(), 3);
    for part in parts.as_array().unwrap() {
        assert_eq!(
            (&part["status"], &part["inputs"]["new_profile_id"]),
            (&"SUCCEEDED".into(), &large.clone().into())
        );
    }
}

#[tokio::test]
async fn a_batch_policy_says_how_many_at_a_time() {
    let service = Service::sqlite().await;
    let cluster = service.cluster("c", json!({"desired_capacity": 3})).await;
    let properties = json!({"min_in_service": 1, "max_batch_size": 2, "pause_time": 0});
    let spec = json!({"type": "senlin.policy.batch", "version": "1.0", "properties": properties});
    service.post("/policies", json!({"policy": {"name": "b", "spec": spec}})).await;
    service.act(&cluster, json!({"policy_attach": {"policy_id": "b"}})).await;
    service.profile_with("large", json!({"flavor": "large"})).await;
    let accepted = service.patch("/clusters/c", json!({"cluster": {"profile_id": "large"}})).await;
    let action = service.ended(&accepted.action()).await;
    assert_eq!(action["status"], "SUCCEEDED", "{action}");
    let plan = action["data"]["update"]["plan"].as_array().unwrap();
    assert_eq!(plan.iter().map(|batch| batch.as_array().unwrap().len()).collect::<Vec<_>>(), [2, 1]);
}

#[tokio::test]
async fn only_the_profile_of_the_cluster_changes_where_that_is_asked() {
    let mut service = Service::sqlite().await;
    let cluster = service.cluster("c", json!({"desired_capacity": 1})).await;
    let large = service.profile_with("large", json!({"flavor": "large"})).await;
    let change = json!({"cluster": {"profile_id": "large", "profile_only": true}});
    let accepted = service.patch("/clusters/c", change.clone()).await;
    assert_eq!(service.ended(&accepted.action()).await["status"], "SUCCEEDED");
    assert_eq!(profiles_of_nodes(&service, "c").await, [cluster["profile_id"].clone()]);
    assert_eq!(service.get("/clusters/c").await.body["cluster"]["profile_id"], large);
    let older = service.cluster("d", json!({"desired_capacity": 1})).await;
    service.speaks("clustering 1.5");
    let accepted = service.patch("/clusters/d", change).await;
    assert_eq!(service.ended(&accepted.action()).await["status"], "SUCCEEDED");
    assert_ne!(profiles_of_nodes(&service, "d").await, [older["profile_id"].clone()], "it came with 1.6");
}

#[tokio::test]
async fn what_nodes_cannot_follow_is_refused() {
    let service = Service::sqlite().await;
    let cluster = service.cluster("c", json!({"desired_capacity": 1})).await;
    service.profile_with("keyed", json!({"flavor": "small", "key_name": "k"})).await;
    let refused = service.patch("/clusters/c", json!({"cluster": {"profile_id": "keyed"}})).await;
    let why =
        "The following properties are not updatable: key_name: pass profile_only, and replace the nodes";
    assert_eq!(refused.refusal(), (400, "BadRequest", why));
    let failing = json!({"flavor": "small", "metadata": {"simulated_failure": "update"}});
    service.profile_with("failing", failing).await;
    let before = service.get("/clusters/c").await.body["cluster"]["profile_id"].clone();
    let accepted = service.patch("/clusters/c", json!({"cluster": {"profile_id": "failing"}})).await;
    let failed = service.ended(&accepted.action()).await;
    assert_eq!(failed["status"], "FAILED");
    let why = failed["status_reason"].as_str().unwrap();
    assert!(why.starts_with("Failed in updating nodes. node-"), "{why}");
    let node = service.get("/nodes?cluster_id=c").await.body["nodes"][0].clone();
    assert_eq!((&node["status"], &node["profile_id"]), (&"ERROR".into(), &before));
    assert_eq!(service.get("/clusters/c").await.body["cluster"]["profile_id"], before, "it did not change");
    assert_eq!(service.act(&cluster, json!({"recover": {}})).await["status"], "SUCCEEDED");
    service.profile_with("good", json!({"flavor": "large"})).await;
    let accepted = service.patch("/clusters/c", json!({"cluster": {"profile_id": "good"}})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert_eq!(service.ended(&accepted.action()).await["status"], "SUCCEEDED");
}

#[database_test(Service::start)]
async fn an_attribute_is_collected_from_all_workers(mut service: Service) {
    let cluster = service.cluster("c", json!({"desired_capacity": 2})).await;
    let first = cluster["nodes"][0].as_str().unwrap().to_owned();
    let named = service.patch(&format!("/nodes/{first}"), json!({"node": {"metadata": {"a-b": 1}}})).await;
    service.ended(&named.action()).await;
    let collect = async |path: &str| {
        let answer = service.get(&format!("/clusters/c/attrs/{path}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["cluster_attributes"].clone()
    };
    assert_eq!(collect("metadata.a-b").await, json!([{"id": first, "value": 1}]), "others have none");
    let all = collect("details.status").await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!((&all[0]["id"], &all[0]["value"]), (&first.clone().into(), &"ACTIVE".into()));
    let missing = service.get("/clusters/c/attrs/None").await;
    assert_eq!(missing.refusal(), (400, "BadRequest", "Required path attribute is missing."));
    assert_eq!(service.get("/clusters/c/attrs/a%5B").await.status, 400);
    assert_eq!(service.get("/clusters/x/attrs/name").await.status, 404);
    service.speaks("clustering 1.1");
    assert_eq!(service.get("/clusters/c/attrs/name").await.status, 400, "it came with 1.2");
}

#[database_test(Service::start)]
async fn a_node_that_others_made_becomes_ours(mut service: Service) {
    let wanted = json!({"identity": "server-7", "type": "simulated.node-1.0", "overrides": {"image": "i"}});
    let preview = service.post("/nodes/adopt-preview", wanted.clone()).await;
    assert_eq!(preview.status, 200, "{}", preview.body);
    let seen = &preview.body["node_profile"]["node_preview"];
    assert_eq!((&seen["type"], &seen["version"]), (&"simulated.node".into(), &"1.0".into()));
    assert_eq!(seen["properties"]["image"], "i");
    let mut named = wanted.clone();
    named["name"] = "mine".into();
    let adopted = service.post("/nodes/adopt", named).await;
    assert_eq!(adopted.status, 200, "{}", adopted.body);
    let node = &adopted.body["node"];
    assert_eq!((&node["status"], &node["physical_id"]), (&"ACTIVE".into(), &"server-7".into()));
    assert_eq!((&node["profile_name"], &node["cluster_id"]), (&"prof-mine".into(), &"".into()));
    assert_eq!(service.post("/nodes/adopt", wanted.clone()).await.status, 409, "it is ours already");
    let cluster = service.cluster("c", json!({})).await;
    let joined = service.act(&cluster, json!({"add_nodes": {"nodes": ["mine"]}})).await;
    assert_eq!(joined["status"], "SUCCEEDED", "{joined}");
    let deleted = service.delete("/nodes/mine").await;
    assert_eq!(service.ended(&deleted.action()).await["status"], "SUCCEEDED");
    service.speaks("clustering 1.6");
    assert_eq!(service.post("/nodes/adopt", wanted).await.status, 400, "it came with 1.7");
}

#[rstest]
#[case(json!({"type": "simulated.node-1.0"}), "'identity' is a required property")]
#[case(json!({"identity": "x"}), "'type' is a required property")]
#[case(json!({"identity": "x", "type": "foo-1.0"}), "The profile_type 'foo-1.0' could not be found.")]
#[case(json!({"identity": "x", "type": "dask.cluster-1.0"}), "nodes of type dask.cluster-1.0 cannot be adopted: only Muster makes them")]
#[case(json!({"identity": "x", "type": "local.process-1.0"}), "nodes of type local.process-1.0 cannot be adopted: only Muster makes them")]
#[case(json!({"identity": "x", "type": "simulated.node-1.0", "overrides": {"foo": 1}}), "Unrecognizable spec item 'foo': one of flavor, name, image, networks, key_name, metadata is expected")]
#[case(json!({"identity": "x", "type": "simulated.node-1.0", "snapshot": true}), "there are no snapshots of simulated.node-1.0: leave out snapshot.")]
#[tokio::test]
async fn what_cannot_be_adopted_is_said(#[case] body: Value, #[case] message: &str) {
    let service = Service::sqlite().await;
    for path in ["/nodes/adopt", "/nodes/adopt-preview"] {
        let refused = service.post(path, body.clone()).await;
        assert_eq!((refused.status, refused.message()), (400, message));
    }
}

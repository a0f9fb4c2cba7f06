//! Policies are stored, attached, and applied.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

fn spec(kind: &str, version: &str, properties: &Value) -> Value {
    json!({"type": format!("senlin.policy.{kind}"), "version": version, "properties": properties})
}

async fn policy(server: &Server, name: &str, spec: Value) -> String {
    let made = server.post("/policies", json!({"policy": {"name": name, "spec": spec}})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.body["policy"]["id"].as_str().expect("an id").to_owned()
}

#[database_test(Server::start)]
async fn a_policy_is_created_attached_and_deleted(server: Server) {
    let cluster = server.cluster("c", json!({"desired_capacity": 3})).await;
    let id = policy(&server, "oldest", spec("deletion", "1.1", &json!({"criteria": "OLDEST_FIRST"}))).await;
    assert_eq!(server.get("/policies/oldest").await.body["policy"]["type"], "senlin.policy.deletion-1.1");
    let bound = server.act(&cluster, json!({"policy_attach": {"policy_id": "oldest"}})).await;
    assert_eq!((&bound["status"], &bound["action"]), (&"SUCCEEDED".into(), &"CLUSTER_ATTACH_POLICY".into()));
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["policies"], json!([id]));
    let binding = server.get("/clusters/c/policies/oldest").await.body["cluster_policy"].clone();
    assert_eq!(
        (&binding["enabled"], &binding["priority"], &binding["policy_id"]),
        (&true.into(), &400.into(), &id.clone().into())
    );
    let oldest = cluster["nodes"][0].clone();
    assert_eq!(server.act(&cluster, json!({"scale_in": {"count": 1}})).await["status"], "SUCCEEDED");
    let left = server.get("/clusters/c").await.body["cluster"]["nodes"].clone();
    assert!(!left.as_array().unwrap().contains(&oldest), "the oldest went first");
    let busy = server.delete("/policies/oldest").await;
    assert_eq!(
        busy.refusal(),
        (409, "ResourceInUse", "The policy 'oldest' cannot be deleted: still attached to some clusters.")
    );
    let off = server.act(&cluster, json!({"policy_update": {"policy_id": id, "enabled": false}})).await;
    assert_eq!(off["status"], "SUCCEEDED");
    assert_eq!(
        server.get("/clusters/c/policies?enabled=false").await.body["cluster_policies"][0]["policy_id"],
        id
    );
    assert_eq!(
        server.act(&cluster, json!({"policy_detach": {"policy_id": id}})).await["status"],
        "SUCCEEDED"
    );
    let unbound = server.get("/clusters/c/policies/oldest").await;
    assert_eq!(
        unbound.refusal(),
        (
            404,
            "PolicyBindingNotFound",
            "The policy 'oldest' is not found attached to the specified cluster 'c'."
        )
    );
    assert_eq!(server.delete("/policies/oldest").await.status, 204);
}

#[tokio::test]
async fn a_scaling_policy_limits_size_changes_and_their_rate() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let out = json!({
        "event": "CLUSTER_SCALE_OUT",
        "adjustment": {"type": "CHANGE_IN_CAPACITY", "number": 2, "cooldown": 600},
    });
    let id = policy(&server, "out", spec("scaling", "1.0", &out)).await;
    server.act(&cluster, json!({"policy_attach": {"policy_id": "out"}})).await;
    assert_eq!(server.act(&cluster, json!({"scale_out": {}})).await["status"], "SUCCEEDED");
    assert_eq!(server.get("/clusters/c").await.body["cluster"]["desired_capacity"], 3);
    let binding = server.get("/clusters/c/policies/out").await.body["cluster_policy"].clone();
    assert!(binding["last_op"].is_string(), "{binding}");
    let resting = server.post("/clusters/c/actions", json!({"scale_out": {"count": 1}})).await;
    let text = format!(
        "The CLUSTER_SCALE_OUT action for cluster {} cannot be processed due to Policy {id} cooldown still in progress",
        cluster["id"].as_str().unwrap()
    );
    assert_eq!(resting.refusal(), (409, "ActionCooldown", text.as_str()));
    let fields = json!({"name": "r", "type": "webhook", "cluster_id": "c", "action": "CLUSTER_SCALE_OUT"});
    let receiver = server.post("/receivers", json!({"receiver": fields})).await.body["receiver"].clone();
    let trigger = format!("/webhooks/{}/trigger?V=2", receiver["id"].as_str().unwrap());
    let resting = server.post(&trigger, json!({})).await;
    assert_eq!(resting.refusal(), (409, "ActionCooldown", text.as_str()), "a webhook gets the same error");
    assert_eq!(server.act(&cluster, json!({"scale_in": {}})).await["status"], "SUCCEEDED", "the other way");
}

#[rstest]
#[case(spec("foo", "1.0", &json!({})), 404, "The policy_type 'senlin.policy.foo-1.0' could not be found.")]
#[case(spec("deletion", "1.1", &json!({"bogus": 1})), 400, "Unrecognizable spec item 'bogus'")]
#[case(spec("deletion", "1.1", &json!({"criteria": "X"})), 400, "'X' must be one of the allowed values: OLDEST_FIRST, OLDEST_PROFILE_FIRST, YOUNGEST_FIRST, RANDOM")]
#[case(spec("zone_placement", "1.0", &json!({"zones": [{"weight": 5}]})), 400, "each zone must have a 'name'")]
#[case(json!({"version": "1.0", "properties": {}}), 400, "The 'type' key is missing from the provided spec map.")]
#[tokio::test]
async fn bad_policies_are_refused(#[case] spec: Value, #[case] status: u16, #[case] message: &str) {
    let server = Server::sqlite().await;
    let refused = server.post("/policies", json!({"policy": {"name": "p", "spec": spec}})).await;
    assert_eq!((refused.status, refused.message()), (status, message));
    let validated = server.post("/policies/validate", json!({"policy": {"spec": spec}})).await;
    assert_eq!((validated.status, validated.message()), (status, message));
}

#[rstest]
#[case("zone_placement", json!({"zones": [{"name": "az1"}]}))]
#[case("region_placement", json!({"regions": [{"name": "r1"}]}))]
#[case("affinity", json!({"servergroup": {"policies": "soft-affinity"}}))]
#[tokio::test]
async fn placement_of_simulated_nodes_is_refused(#[case] kind: &str, #[case] properties: Value) {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    policy(&server, "where", spec(kind, "1.0", &properties)).await;
    let refused = server.act(&cluster, json!({"policy_attach": {"policy_id": "where"}})).await;
    let why = format!(
        "nodes of simulated.node-1.0 cannot be placed by a policy: a policy of type senlin.policy.{kind}-1.0 cannot be \
         attached"
    );
    assert_eq!((&refused["status"], &refused["status_reason"]), (&"FAILED".into(), &why.into()));
}

#[tokio::test]
async fn types_are_listed_with_their_schemas() {
    let server = Server::sqlite().await;
    let types = server.get("/policy-types").await.body["policy_types"].clone();
    let names: Vec<String> = types
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| format!("{}-{}", kind["name"].as_str().unwrap(), kind["version"].as_str().unwrap()))
        .collect();
    for name in ["senlin.policy.affinity-1.0", "senlin.policy.health-1.2", "senlin.policy.loadbalance-1.3"] {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
    }
    let shown = server.get("/policy-types/senlin.policy.scaling-1.0").await;
    assert_eq!(shown.body["policy_type"]["schema"]["event"]["required"], true);
}

#[tokio::test]
async fn nodes_with_the_oldest_profile_are_removed_first() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    let old = cluster["nodes"].clone();
    server.profile_with("new", json!({"flavor": "large"})).await;
    let change = json!({"cluster": {"profile_id": "new", "profile_only": true}});
    let changed = server.patch("/clusters/c", change).await;
    server.wait_for_end(&changed.action()).await;
    server.act(&cluster, json!({"scale_out": {"count": 1}})).await;
    let criteria = json!({"criteria": "OLDEST_PROFILE_FIRST"});
    policy(&server, "oldest", spec("deletion", "1.1", &criteria)).await;
    server.act(&cluster, json!({"policy_attach": {"policy_id": "oldest"}})).await;
    let gone = server.act(&cluster, json!({"scale_in": {"count": 2}})).await;
    let mut candidates = gone["data"]["deletion"]["candidates"].as_array().unwrap().clone();
    let mut old = old.as_array().unwrap().clone();
    for ids in [&mut candidates, &mut old] {
        ids.sort_by_key(ToString::to_string);
    }
    assert_eq!(candidates, old);
}

#[tokio::test]
async fn a_cluster_that_is_being_healed_can_be_deleted_and_the_events_name_the_nodes() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 2})).await;
    let polling = json!({
        "detection": {"interval": 1, "detection_modes": [{"type": "NODE_STATUS_POLLING"}]},
        "recovery": {"actions": [{"name": "RECREATE"}]},
    });
    policy(&server, "health", spec("health", "1.1", &polling)).await;
    server.act(&cluster, json!({"policy_attach": {"policy_id": "health"}})).await;
    // One node has its own recipe, by which it fails and takes long to start.
    let slow = json!({"simulated_failure": "check", "simulated_wait_time": 600});
    server.profile_with("slow", json!({"flavor": "small", "metadata": slow})).await;
    let path = format!("/nodes/{}", cluster["nodes"][0].as_str().unwrap());
    let changed = server.patch(&path, json!({"node": {"profile_id": "slow"}})).await;
    assert_eq!(server.wait_for_end(&changed.action()).await["status"], "SUCCEEDED");
    server.until(&path, "node", "RECOVERING").await;
    let other = format!("/nodes/{}", cluster["nodes"][1].as_str().unwrap());
    assert_eq!(
        server.get(&other).await.body["node"]["status"],
        "ACTIVE",
        "it is not judged by another's recipe"
    );
    let deleted = server.delete("/clusters/c").await;
    assert_eq!(deleted.status, 202, "{}", deleted.body);
    let action = server.wait_for_end(&deleted.action()).await;
    assert_eq!(action["status"], "SUCCEEDED", "{action}");
    let candidates = action["data"]["deletion"]["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2, "{action}");
}

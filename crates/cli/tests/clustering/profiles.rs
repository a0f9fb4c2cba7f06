//! Profiles.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

fn spec(properties: &Value) -> Value {
    json!({"type": "simulated.node", "version": 1.0, "properties": properties})
}

#[database_test(Server::start)]
async fn a_profile_is_created_found_renamed_and_deleted(server: Server) {
    let given = spec(&json!({"flavor": "small", "metadata": {"a": 1}}));
    let made = server
        .post("/profiles", json!({"profile": {"name": "p", "spec": given, "metadata": {"k": "v"}}}))
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
    let profile = &made.body["profile"];
    assert_eq!(profile["spec"], given, "as it was given");
    assert_eq!((&profile["type"], &profile["metadata"]["k"]), (&"simulated.node-1.0".into(), &"v".into()));
    let id = profile["id"].as_str().unwrap();
    for name in [id, "p", &id[..8]] {
        assert_eq!(server.get(&format!("/profiles/{name}")).await.body["profile"]["id"], id, "{name}");
    }
    let renamed = server.patch("/profiles/p", json!({"profile": {"name": "q", "metadata": null}})).await;
    assert_eq!((renamed.status, &renamed.body["profile"]["name"]), (200, &"q".into()));
    assert_eq!(renamed.body["profile"]["metadata"]["k"], "v", "null says nothing");
    let nothing = server.patch("/profiles/q", json!({"profile": {"name": null}})).await;
    assert_eq!(nothing.refusal(), (400, "BadRequest", "No property needs an update."));
    let frozen = server.patch("/profiles/q", json!({"profile": {"spec": {}}})).await;
    assert_eq!(
        frozen.refusal(),
        (400, "HTTPBadRequest", "Additional properties are not allowed ('spec' was unexpected)")
    );
    assert_eq!(server.delete("/profiles/q").await.status, 204);
    let events = server.get(&format!("/events?oid={id}&sort=timestamp")).await.body["events"].clone();
    let events = events.as_array().cloned().unwrap_or_default();
    let messages: Vec<_> =
        events.iter().map(|event| event["status_reason"].as_str().unwrap_or_default()).collect();
    let by = events[0]["user"].as_str().unwrap();
    let expected = ["'p' was created", "'q' was updated", "'q' was deleted"];
    assert!(
        messages.iter().zip(expected).all(|(messages, expected)| messages.contains(expected)),
        "{messages:?}"
    );
    assert_eq!((events.len(), &events[0]["action"], by.is_empty()), (3, &"ProfileCreated".into(), false));
    assert!(events[0]["meta_data"]["request_id"].is_string(), "{events:?}");
    let gone = server.get("/profiles/q").await;
    assert_eq!(gone.refusal(), (404, "ResourceNotFound", "The profile 'q' could not be found."));
}

#[rstest]
#[case(json!({"bogus": 1, "flavor": "f"}), "Failed in creating profile p: Unrecognizable spec item 'bogus'")]
#[case(json!({}), "Failed in creating profile p: Required spec item 'flavor' not provided")]
#[case(json!({"flavor": "f", "networks": 5}), "Failed in creating profile p: '5' is not a List")]
#[tokio::test]
async fn unknown_properties_of_a_type_are_refused(#[case] properties: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    let body = json!({"profile": {"name": "p", "spec": spec(&properties)}});
    let refused = server.post("/profiles", body.clone()).await;
    assert_eq!(refused.refusal(), (400, "InvalidSpec", message));
    let mut validated = body;
    validated["profile"].as_object_mut().unwrap().remove("name");
    let bare = server.post("/profiles/validate", validated).await;
    let text = message.strip_prefix("Failed in creating profile p: ").unwrap();
    assert_eq!(bare.refusal(), (400, "InvalidSpec", text), "without a name there is nothing to be made");
}

#[tokio::test]
async fn a_valid_specification_is_returned_without_being_stored() {
    let server = Server::sqlite().await;
    let body = json!({"profile": {"spec": spec(&json!({"flavor": "f"}))}});
    let shown = server.post("/profiles/validate", body).await;
    assert_eq!((shown.status, &shown.body["profile"]["id"]), (200, &Value::Null));
    assert_eq!(shown.body["profile"]["name"], "validated_profile");
    assert_eq!(server.get("/profiles").await.body["profiles"], json!([]));
}

#[tokio::test]
async fn unknown_types_are_not_found() {
    let server = Server::sqlite().await;
    let spec = json!({"type": "os.nova.server", "version": "1.0", "properties": {}});
    let refused = server.post("/profiles", json!({"profile": {"name": "p", "spec": spec}})).await;
    let text = "The profile_type 'os.nova.server-1.0' could not be found.";
    assert_eq!(refused.refusal(), (404, "ResourceNotFound", text));
    assert_eq!(server.get("/profile-types/os.nova.server-1.0").await.message(), text);
    let shown = server.get("/profile-types/simulated.node-1.0").await;
    let flavor = &shown.body["profile_type"]["schema"]["flavor"];
    assert_eq!(
        (&flavor["type"], &flavor["required"], &flavor["updatable"]),
        (&"String".into(), &true.into(), &true.into())
    );
}

#[tokio::test]
async fn a_profile_in_use_is_not_deleted() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let profile = cluster["profile_id"].as_str().unwrap();
    let text =
        format!("The profile '{profile}' cannot be deleted: still referenced by some clusters and/or nodes.");
    let refused = server.delete(&format!("/profiles/{profile}")).await;
    assert_eq!(refused.refusal(), (409, "ResourceInUse", text.as_str()));
    let deleted = server.delete("/clusters/c").await;
    server.wait_for_end(&deleted.action()).await;
    assert_eq!(
        server.delete(&format!("/profiles/{profile}")).await.status,
        204,
        "what is gone does not count"
    );
}

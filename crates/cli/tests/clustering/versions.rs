//! Version discovery, and the versions that clients request.

use reqwest::Method;

use crate::server::Server;

#[tokio::test]
async fn version_documents_are_public() {
    let server = Server::sqlite().await;
    for path in ["/clustering", "/clustering/"] {
        let list = server.send_text(Method::GET, path, None, "").await;
        assert_eq!(list.status, 300);
        let version = &list.body["versions"][0];
        assert_eq!((&version["min_version"], &version["max_version"]), (&"1.0".into(), &"1.15".into()));
        assert_eq!(version["links"][0]["href"], format!("{}/clustering/v1", server.base));
    }
    for path in ["/clustering/v1", "/clustering/v1/"] {
        let one = server.send_text(Method::GET, path, None, "").await;
        assert_eq!((one.status, &one.body["version"]["id"]), (200, &"1.0".into()));
    }
}

#[tokio::test]
async fn answers_have_their_version_and_request_id() {
    let mut server = Server::sqlite().await;
    server.set_version("compute 2.1, clustering 1.7");
    let list = server.get("/clusters").await;
    assert_eq!(list.header("openstack-api-version"), "clustering 1.7");
    assert_eq!(list.header("vary"), "OpenStack-API-Version");
    assert!(list.header("x-openstack-request-id").starts_with("req-"));
    let refused = server.set_version("clustering 1.99").get("/clusters").await;
    assert_eq!(
        refused.refusal(),
        (
            406,
            "InvalidGlobalAPIVersion",
            "Version '1.99' is not supported by the API. Minimum is '1.0' and maximum is '1.15'."
        )
    );
    assert!(refused.header("x-openstack-request-id").starts_with("req-"));
    assert_eq!(refused.header("openstack-api-version"), "");
}

#[tokio::test]
async fn a_method_is_refused_below_its_version() {
    let mut server = Server::sqlite().await;
    let refused = server.set_version("clustering 1.1").get("/profile-types/simulated.node-1.0/ops").await;
    assert_eq!(
        refused.refusal(),
        (400, "MethodVersionNotFound", "API version '1.1' is not supported on this method.")
    );
    let old = server.set_version("clustering 1.4").get("/profile-types").await;
    assert!(
        old.body["profile_types"]
            .as_array()
            .unwrap()
            .contains(&serde_json::json!({"name": "simulated.node-1.0"}))
    );
    let new = server.set_version("clustering 1.5").get("/profile-types").await;
    let types = new.body["profile_types"].as_array().unwrap();
    let simulated = types.iter().find(|kind| kind["name"] == "simulated.node").unwrap();
    assert_eq!(simulated["version"], "1.0");
    assert_eq!(simulated["support_status"]["1.0"][0]["status"], "SUPPORTED");
}

#[tokio::test]
async fn unknown_paths_are_answered_in_json() {
    let server = Server::sqlite().await;
    let unknown = server.get("/nothing").await;
    assert_eq!((unknown.status, unknown.header("content-type")), (404, "application/json"));
    let wrong = server.send(Method::PUT, "/clusters", None).await;
    assert_eq!((wrong.status, wrong.header("content-type")), (405, "application/json"));
    assert_eq!(server.post("/actions", serde_json::json!({"action": {}})).await.status, 403);
}

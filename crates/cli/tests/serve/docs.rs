//! The documentation of the REST APIs is public.

use muster_api::auth::hash;
use reqwest::{Method, StatusCode, header};
use rstest::rstest;
use serde_json::Value;

use crate::server::Server;

/// Starts a server that requires tokens.
async fn server() -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tokens.toml");
    let entry =
        format!("[[token]]\nname = 'ann'\nproject = 'p'\nroles = ['member']\nsha256 = '{}'\n", hash("t"));
    std::fs::write(&file, entry).expect("a file of tokens");
    let scheme = format!("tokens:{}", file.display());
    let mut server = Server::start_in(folder, &["--dev", "--auth", &scheme]).await;
    server.token = None;
    server
}

#[tokio::test]
async fn the_document_describes_the_routes_without_a_token() {
    let server = server().await;
    let response = server.call_at(Method::GET, "/openapi.json", None).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    let document: Value = response.json().await.expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    let create = &document["paths"]["/apis/v1alpha2/namespaces/{namespace}/clusters"]["post"];
    assert_eq!(create["operationId"], "v1alpha2_ClusterService_CreateCluster");
    let refused = server.call_at(Method::GET, "/apis/v1alpha2/clusters", None).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "all else needs one");
}

#[rstest]
#[case("/docs", 200, "text/html; charset=utf-8")]
#[case("/docs/", 200, "text/html; charset=utf-8")]
#[case("/docs/start.js", 200, "text/javascript")]
#[case("/docs/swagger-ui-bundle.js", 200, "text/javascript")]
#[case("/docs/swagger-ui.css", 200, "text/css")]
#[case("/docs/favicon-32x32.png", 200, "image/png")]
#[case("/swagger-ui/", 200, "text/html; charset=utf-8")]
#[case("/docs/other", 404, "application/json")]
#[case("/documents", 401, "application/json")]
#[tokio::test]
async fn the_page_and_what_it_loads_are_open(
    #[case] path: &str,
    #[case] status: u16,
    #[case] content_type: &str,
) {
    // Keep the server alive until the whole body is read.
    let server = server().await;
    let response = server.call_at(Method::GET, path, None).await;
    let found =
        (response.status().as_u16(), response.headers()[header::CONTENT_TYPE].to_str().expect("text"));
    assert_eq!(found, (status, content_type));
    assert!(!response.bytes().await.expect("a body").is_empty());
}

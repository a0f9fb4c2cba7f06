//! Authentication and authorization.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, cluster};

#[tokio::test]
async fn callers_without_the_token_of_the_data_folder_are_refused() {
    let mut server = Server::start(&[]).await;
    let (status, word, printed) = server.refusal(Method::GET, "/clusters", None).await;
    assert_eq!((status, word.as_str()), (401, "Unauthenticated"));
    assert!(printed.contains("Authorization"), "{printed}");
    let output = server.muster(&["whoami"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && printed.contains("admin"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    server.token = Some("mst_wrong".to_owned());
    assert_eq!(server.refusal(Method::GET, "/clusters", None).await.0, 401);
}

#[tokio::test]
async fn probes_need_no_token() {
    let server = Server::start(&[]).await;
    for (path, expected) in [("/healthz", r#"{"status":"healthy"}"#), ("/readyz", r#"{"status":"ready"}"#)] {
        let answer = reqwest::get(format!("{}{path}", server.rest)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.text().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn members_change_readers_read_and_other_projects_see_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let token = |name: &str, project: &str, role: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_muster"))
            .args(["token", "create", name, "--project", project, "--role", role, "--file"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let (member, reader, outsider) =
        (token("mia", "demo", "member"), token("rob", "demo", "reader"), token("sue", "other", "member"));
    let scheme = format!("tokens:{}", file.display());
    let mut server = Server::start(&["--dev", "--auth", &scheme]).await;
    server.token = member;
    server.create("fred", 1).await;
    let actions = async |namespace: &str| {
        server.get(&format!("/namespaces/{namespace}/actions")).await["actions"].as_array().map(Vec::len)
    };
    assert!(actions("demo").await > Some(0));
    assert_eq!(actions("elsewhere").await, Some(0), "the namespace is not looked at");
    server.token = reader;
    assert_eq!(server.get("/namespaces/demo/clusters/fred").await["name"], "fred");
    let delete = server.refusal(Method::DELETE, "/namespaces/demo/clusters/fred", None).await;
    assert_eq!(delete.0, 403, "{}", delete.2);
    assert_eq!(server.refusal(Method::GET, "/namespaces/demo/clusters/fred/environment", None).await.0, 403);
    server.token = outsider;
    assert_eq!(server.refusal(Method::GET, "/namespaces/demo/clusters/fred", None).await.0, 404);
    assert_eq!(server.get("/clusters").await["clusters"], Value::Array(vec![]));
    assert_eq!(server.get("/actions").await["actions"], Value::Array(vec![]));
    assert_eq!(
        server.refusal(Method::POST, "/namespaces/demo/clusters", Some(cluster("mine", 1))).await.0,
        404
    );
    let stop = server.refusal(Method::POST, "/admin/shutdown", Some(serde_json::json!({}))).await;
    assert_eq!(stop.0, 403);
}

#[tokio::test]
async fn with_several_users_only_admins_run_code_as_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let entry = |name: &str, role: &str| {
        let sha256 = muster_api::auth::hash(name);
        format!("[[token]]\nname = '{name}'\nproject = 'demo'\nroles = ['{role}']\nsha256 = '{sha256}'\n")
    };
    std::fs::write(&file, entry("mia", "member") + &entry("ada", "admin")).unwrap();
    let scheme = format!("tokens:{}", file.display());
    let mut server = Server::start_in(folder, &["--auth", &scheme]).await;
    server.token = Some("mia".to_owned());
    let dask = json!({"name": "mine", "framework": "dask"});
    for (path, body) in [("/namespaces/demo/clusters", dask), ("/frameworks/spark/install", json!({}))] {
        let (status, word, printed) = server.refusal(Method::POST, path, Some(body)).await;
        assert_eq!((status, word.as_str()), (403, "LocalProcessesNeedAdmin"), "{path}: {printed}");
        assert!(printed.contains("only admins"), "{path}: {printed}");
    }
    let frameworks = server.get("/frameworks").await;
    assert_eq!(frameworks["frameworks"].as_array().map(Vec::len), Some(3), "readers see the cluster");
    server.token = Some("ada".to_owned());
    let (status, word, printed) =
        server.refusal(Method::POST, "/frameworks/flink/install", Some(json!({}))).await;
    assert_ne!(word, "LocalProcessesNeedAdmin", "an admin may: {printed}");
    assert!(status == 400 && printed.contains("'flink' is not a framework"), "{printed}");
}

#[tokio::test]
async fn an_admin_may_stop_the_server() {
    let mut server = Server::dev().await;
    server.post("/admin/shutdown", serde_json::json!({})).await;
    assert!(server.stop().await.success());
}

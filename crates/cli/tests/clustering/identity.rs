//! Authentication with name and password, as OpenStack clients do.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Answer, Kind, Server};

const ACCOUNTS: &str = r#"
[[account]]
name = "demo"
password = "plain:secret"
project = "p"
roles = ["member"]

[[account]]
name = "reader"
password = "plain:other"
project = "p"
roles = ["reader"]
"#;

async fn start_server() -> Server {
    let write = |folder: &std::path::Path| {
        std::fs::write(folder.join("accounts.toml"), ACCOUNTS).expect("a file");
    };
    let arguments = ["--auth", "accounts:accounts.toml"];
    Server::start_with(Kind::Sqlite, &arguments, write).await.expect("a server")
}

/// Logs in with a name and a password.
pub(crate) async fn log_in(server: &Server, name: &str, password: &str, project: Option<&str>) -> Answer {
    let domain = json!({"id": "default"});
    let user = json!({"name": name, "password": password, "domain": domain});
    let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}});
    if let Some(project) = project {
        auth["scope"] = json!({"project": {"name": project, "domain": {"name": "Default"}}});
    }
    let body = json!({"auth": auth}).to_string();
    server.send_text(Method::POST, "/identity/v3/auth/tokens", Some(body), "application/json").await
}

#[tokio::test]
async fn a_password_yields_a_token_and_the_address_of_the_service() {
    let mut server = start_server().await;
    let without = server.get("/clusters").await;
    assert_eq!((without.status, without.header("content-type")), (401, "application/json"));
    let logged_in = log_in(&server, "demo", "secret", Some("p")).await;
    assert_eq!(logged_in.status, 201, "{}", logged_in.body);
    let token = &logged_in.body["token"];
    assert_eq!((&token["user"]["name"], &token["project"]["name"]), (&"demo".into(), &"p".into()));
    assert_eq!(token["roles"][0]["name"], "member");
    let services = token["catalog"].as_array().unwrap();
    let clustering = services.iter().find(|server| server["type"] == "clustering").unwrap();
    assert_eq!(clustering["endpoints"][0]["url"], format!("{}/clustering", server.base));
    let expires = token["expires_at"].as_str().unwrap();
    assert!(expires.ends_with('Z') && expires.contains('.'), "{expires}");
    server.token = Some(logged_in.header("x-subject-token").to_owned());
    assert_eq!(server.get("/clusters").await.status, 200);
    server.token = Some("mst_forged".to_owned());
    assert_eq!(server.get("/clusters").await.status, 401);
}

#[tokio::test]
async fn all_wrong_credentials_have_the_same_error() {
    let server = start_server().await;
    for (name, password, project) in
        [("demo", "wrong", None), ("unknown", "secret", None), ("demo", "secret", Some("other"))]
    {
        let refused = log_in(&server, name, password, project).await;
        assert_eq!(refused.status, 401);
        assert_eq!(
            (&refused.body["error"]["code"], &refused.body["error"]["title"]),
            (&401.into(), &"Unauthorized".into())
        );
    }
    let nonsense = server
        .send_text(Method::POST, "/identity/v3/auth/tokens", Some("{}".into()), "application/json")
        .await;
    assert_eq!(nonsense.status, 400);
    let versions = server.send_text(Method::GET, "/identity/v3", None, "").await;
    assert_eq!((versions.status, &versions.body["version"]["status"]), (200, &Value::from("stable")));
}

#[tokio::test]
async fn readers_may_read_and_not_change() {
    let mut server = start_server().await;
    let logged_in = log_in(&server, "reader", "other", None).await;
    server.token = Some(logged_in.header("x-subject-token").to_owned());
    assert_eq!(server.get("/clusters").await.status, 200);
    let refused = server.post("/clusters", json!({"cluster": {}})).await;
    assert_eq!(refused.refusal(), (403, "Forbidden", "You are not authorized to complete this operation."));
}

//! Log-in with a name and a password, as OpenStack clients do.

use reqwest::Method;
use serde_json::{Value, json};

use crate::service::{Answer, Kind, Service};

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

async fn service() -> Service {
    let write = |folder: &std::path::Path| {
        std::fs::write(folder.join("accounts.toml"), ACCOUNTS).expect("a file");
    };
    let arguments = ["--auth", "accounts:accounts.toml"];
    Service::start_with(Kind::Sqlite, &arguments, write).await.expect("a server")
}

/// Logs in with a name and a password.
pub(crate) async fn log_in(service: &Service, name: &str, password: &str, project: Option<&str>) -> Answer {
    let domain = json!({"id": "default"});
    let user = json!({"name": name, "password": password, "domain": domain});
    let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": user}}});
    if let Some(project) = project {
        auth["scope"] = json!({"project": {"name": project, "domain": {"name": "Default"}}});
    }
    let body = json!({"auth": auth}).to_string();
    service.send_text(Method::POST, "/identity/v3/auth/tokens", Some(body), "application/json").await
}

#[tokio::test]
async fn a_password_gives_a_token_and_the_way_to_the_service() {
    let mut service = service().await;
    let without = service.get("/clusters").await;
    assert_eq!((without.status, without.header("content-type")), (401, "application/json"));
    let logged_in = log_in(&service, "demo", "secret", Some("p")).await;
    assert_eq!(logged_in.status, 201, "{}", logged_in.body);
    let token = &logged_in.body["token"];
    assert_eq!((&token["user"]["name"], &token["project"]["name"]), (&"demo".into(), &"p".into()));
    assert_eq!(token["roles"][0]["name"], "member");
    let services = token["catalog"].as_array().unwrap();
    let clustering = services.iter().find(|service| service["type"] == "clustering").unwrap();
    assert_eq!(clustering["endpoints"][0]["url"], format!("{}/clustering", service.base));
    let expires = token["expires_at"].as_str().unwrap();
    assert!(expires.ends_with('Z') && expires.contains('.'), "{expires}");
    service.token = Some(logged_in.header("x-subject-token").to_owned());
    assert_eq!(service.get("/clusters").await.status, 200);
    service.token = Some("mst_forged".to_owned());
    assert_eq!(service.get("/clusters").await.status, 401);
}

#[tokio::test]
async fn wrong_credentials_are_refused_alike() {
    let service = service().await;
    for (name, password, project) in
        [("demo", "wrong", None), ("nobody", "secret", None), ("demo", "secret", Some("other"))]
    {
        let refused = log_in(&service, name, password, project).await;
        assert_eq!(refused.status, 401);
        assert_eq!(
            (&refused.body["error"]["code"], &refused.body["error"]["title"]),
            (&401.into(), &"Unauthorized".into())
        );
    }
    let nonsense = service
        .send_text(Method::POST, "/identity/v3/auth/tokens", Some("{}".into()), "application/json")
        .await;
    assert_eq!(nonsense.status, 400);
    let versions = service.send_text(Method::GET, "/identity/v3", None, "").await;
    assert_eq!((versions.status, &versions.body["version"]["status"]), (200, &Value::from("stable")));
}

#[tokio::test]
async fn readers_look_and_do_not_change() {
    let mut service = service().await;
    let logged_in = log_in(&service, "reader", "other", None).await;
    service.token = Some(logged_in.header("x-subject-token").to_owned());
    assert_eq!(service.get("/clusters").await.status, 200);
    let refused = service.post("/clusters", json!({"cluster": {}})).await;
    assert_eq!(refused.refusal(), (403, "Forbidden", "You are not authorized to complete this operation."));
}

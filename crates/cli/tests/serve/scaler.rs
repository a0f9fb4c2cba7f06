//! Every route of the scaler API with every kind of caller, compared with the table of authorization.

use muster_api::auth::hash;
use muster_api::scaler::CASES;
use reqwest::Method;
use serde_json::{Value, json};

use crate::fake_python::{of_framework, python};
use crate::server::Server;

/// Callers by name, which is also their token, with project and role.
const CALLERS: [(&str, &str, &str); 4] = [
    ("owner", "demo", "member"),
    ("colleague", "demo", "member"),
    ("outsider", "other", "member"),
    ("admin", "ops", "admin"),
];

async fn server() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let entry = |(name, project, role): &(&str, &str, &str)| {
        let sha256 = hash(name);
        format!(
            "[[token]]\nname = '{name}'\nproject = '{project}'\nroles = ['{role}']\nsha256 = '{sha256}'\n"
        )
    };
    let file = folder.path().join("tokens.toml");
    std::fs::write(&file, CALLERS.iter().map(entry).collect::<String>()).expect("a file");
    let scheme = format!("tokens:{}", file.display());
    Server::start_in(folder, &["--dev", "--auth", &scheme]).await
}

async fn send(
    server: &mut Server,
    caller: Option<&str>,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    server.token = caller.map(str::to_owned);
    let response = server.call_at(method, &format!("/ddl_cluster_scaler{path}"), body).await;
    assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
    (response.status().as_u16(), response.json().await.expect("JSON"))
}

#[tokio::test]
async fn every_route_is_for_the_owner_and_admins_only() {
    let mut server = server().await;
    server.token = Some("owner".to_owned());
    // Its nodes never start, which does not matter here.
    let cluster = of_framework("dask", "mine", &python(&server));
    server.post("/namespaces/demo/clusters?wait_for=accepted", cluster).await;
    for case in CASES {
        let (method, path) = case.operation.split_once(' ').expect("a method and a path");
        let method: Method = method.parse().expect("a method");
        let path =
            path.replace("{kind}", "daskclusters").replace("{name}", "mine").replace("{node_type}", "head");
        // An unknown tier is detected last.
        let body = (method == Method::PATCH).then(|| json!({"replicas": 1, "head_hw_tier_name": "none"}));
        let path = if path.contains("status") { format!("{path}?started_at=2025-01-01") } else { path };
        let is_list = path.starts_with("/list");
        for caller in [None].into_iter().chain(CALLERS.iter().map(|(name, ..)| Some(*name))) {
            let (status, answer) = send(&mut server, caller, method.clone(), &path, body.clone()).await;
            let what = format!("{} by {caller:?}: {status} {answer}", case.operation);
            match caller {
                None => assert_eq!((status, &answer["error"]), (401, &json!("unauthenticated")), "{what}"),
                Some("owner" | "admin") => {
                    assert!(![401, 403, 404, 405, 500].contains(&status), "{what}");
                    assert!(!is_list || answer["count"] == 1, "{what}");
                }
                Some(_) if is_list => assert_eq!((status, &answer["count"]), (200, &json!(0)), "{what}"),
                Some(_) => assert_eq!((status, &answer["error"]), (403, &json!("unauthorized")), "{what}"),
            }
        }
    }
}

#[tokio::test]
async fn a_tier_is_shown_while_an_earlier_change_runs() {
    let mut server = server().await;
    server.token = Some("owner".to_owned());
    for (name, cpu) in [("small", 1), ("large", 2)] {
        server
            .post("/namespaces/demo/compute_templates", json!({"name": name, "cpu": cpu, "memory": cpu}))
            .await;
    }
    // Its nodes never start, so that its creation keeps running.
    let cluster = of_framework("dask", "mine", &python(&server));
    server.post("/namespaces/demo/clusters?wait_for=accepted", cluster).await;
    let body = json!({"replicas": 2, "worker_hw_tier_name": "small", "head_hw_tier_name": "large"});
    let path = "/scale/daskclusters/mine";
    let (status, answer) = send(&mut server, Some("owner"), Method::PATCH, path, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    let (_, shown) = send(&mut server, Some("owner"), Method::GET, "/cluster/daskclusters/mine", None).await;
    for object in [&answer["object"], &shown] {
        let requests = |part: &str| object["spec"][part]["resources"]["requests"].clone();
        assert_eq!(object["spec"]["worker"]["replicas"], 2, "{object}");
        assert_eq!(requests("worker"), json!({"cpu": "1", "memory": "1Gi"}), "{object}");
        assert_eq!(requests("scheduler"), json!({"cpu": "2", "memory": "2Gi"}), "{object}");
    }
}

#[tokio::test]
async fn errors_before_the_handler_have_the_form_of_this_api() {
    let mut server = server().await;
    for (method, path, expected) in [
        (Method::GET, "/nothing", (404, "not_found")),
        (Method::GET, "/list/rayclusters/", (404, "not_found")),
        (Method::POST, "/list/rayclusters", (405, "method_not_allowed")),
        (Method::GET, "/list/mpiclusters", (400, "invalid_kind")),
        (Method::GET, "/cluster/rayclusters/none", (404, "not_found")),
    ] {
        let (status, answer) = send(&mut server, Some("owner"), method, path, None).await;
        assert_eq!((status, answer["error"].as_str().expect("a code")), expected, "{path}: {answer}");
        assert!(answer["message"].is_string(), "{answer}");
    }
    let url = format!("{}/ddl_cluster_scaler/list/rayclusters", server.rest);
    let foreign =
        reqwest::Client::new().get(url).header("Host", "example.org").send().await.expect("an answer");
    let (status, answer): (_, Value) = (foreign.status().as_u16(), foreign.json().await.expect("JSON"));
    assert_eq!((status, &answer["error"]), (403, &json!("unauthorized")), "{answer}");
}

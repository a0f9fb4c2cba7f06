//! Every route with every kind of caller, compared with the table of authorization.

use muster_api::access::{AccessTarget, Case, Verb};
use muster_api::auth::hash;
use muster_api::clustering::CASES;
use serde_json::json;

use crate::server::{Kind, Server};

/// Callers by name, which is also their token.
const CALLERS: [(&str, &str, &str); 4] = [
    ("outsider", "other", "member"),
    ("reader", "demo", "reader"),
    ("member", "demo", "member"),
    ("admin", "ops", "admin"),
];

fn tokens() -> String {
    let entry = |(name, project, role): &(&str, &str, &str)| {
        let sha256 = hash(name);
        format!(
            "[[token]]\nname = '{name}'\nproject = '{project}'\nroles = ['{role}']\nsha256 = '{sha256}'\n"
        )
    };
    CALLERS.iter().map(entry).collect()
}

pub(crate) async fn start_server() -> Server {
    let write =
        |folder: &std::path::Path| std::fs::write(folder.join("tokens.toml"), tokens()).expect("a file");
    let arguments = ["--auth", "tokens:tokens.toml"];
    Server::start_with(Kind::Sqlite, &arguments, write).await.expect("a server")
}

/// Returns the status with which a caller is refused; `None` if the caller is admitted, whatever the answer then is.
fn refusal_status(case: &Case, person: Option<&str>) -> Option<u16> {
    match (case.verb, case.subject, person) {
        (_, AccessTarget::Public, _) => None,
        (_, _, None) => Some(401),
        (_, AccessTarget::Closed, _) => Some(403),
        (_, _, Some("admin")) => None,
        (Verb::Administer, ..) | (Verb::Change, _, Some("reader")) => Some(403),
        _ => None,
    }
}

#[tokio::test]
async fn every_route_admits_the_callers_of_its_case() {
    let mut server = start_server().await;
    for case in CASES {
        let (method, path) = case.operation.split_once(' ').expect("a method and a path");
        let method: reqwest::Method = method.parse().expect("a method");
        let path = path.replace("{id}", "nothing").replace("{type}", "nothing");
        for person in [None].into_iter().chain(CALLERS.iter().map(|(name, ..)| Some(*name))) {
            server.token = person.map(str::to_owned);
            let body = (method != reqwest::Method::GET).then(|| json!({}));
            let answer = server.send(method.clone(), &path, body).await;
            let what = format!("{} by {person:?}: {} {}", case.operation, answer.status, answer.body);
            match refusal_status(case, person) {
                Some(status) => assert_eq!(answer.status, status, "{what}"),
                None => assert!(![401, 403, 405, 500].contains(&answer.status), "{what}"),
            }
        }
    }
}

#[tokio::test]
async fn objects_of_other_projects_are_not_found() {
    let mut server = start_server().await;
    server.token = Some("member".to_owned());
    let cluster = server.cluster("c", json!({})).await;
    let (id, profile) = (cluster["id"].as_str().unwrap(), cluster["profile_id"].as_str().unwrap());
    let action = server.get("/actions").await.body["actions"][0]["id"].as_str().unwrap().to_owned();
    let things = [format!("/clusters/{id}"), format!("/profiles/{profile}"), format!("/actions/{action}")];
    server.token = Some("outsider".to_owned());
    for thing in &things {
        assert_eq!(server.get(thing).await.status, 404, "{thing}");
    }
    assert_eq!(server.get("/clusters").await.body["clusters"], json!([]));
    assert_eq!(server.get("/clusters?global_project=true").await.status, 403);
    let cancel = server.patch(&things[2], json!({"action": {"status": "CANCELLED"}})).await;
    assert_eq!(cancel.status, 404);
    server.token = Some("admin".to_owned());
    for thing in &things {
        assert_eq!(server.get(thing).await.status, 200, "{thing}");
    }
    assert_eq!(server.get("/clusters?global_project=False").await.body["clusters"], json!([]));
    assert_eq!(server.get("/clusters?global_project=true").await.body["clusters"][0]["id"], id);
}

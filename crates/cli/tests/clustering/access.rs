//! Every route of the door, by everybody: what its table says is what happens.

use muster_api::access::{Case, Subject, Verb};
use muster_api::auth::hash;
use muster_api::clustering::CASES;
use serde_json::json;

use crate::service::{Kind, Service};

/// Who calls: also their token.
const PEOPLE: [(&str, &str, &str); 4] = [
    ("stranger", "other", "member"),
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
    PEOPLE.iter().map(entry).collect()
}

pub(crate) async fn service() -> Service {
    let write =
        |folder: &std::path::Path| std::fs::write(folder.join("tokens.toml"), tokens()).expect("a file");
    let arguments = ["--auth", "tokens:tokens.toml"];
    Service::start_with(Kind::Sqlite, &arguments, write).await.expect("a server")
}

/// The status that keeps somebody out of a route; none lets them in, whatever it then answers.
fn kept_out(case: &Case, person: Option<&str>) -> Option<u16> {
    match (case.verb, case.subject, person) {
        (_, Subject::Public, _) => None,
        (_, _, None) => Some(401),
        (_, Subject::Closed, _) => Some(403),
        (_, _, Some("admin")) => None,
        (Verb::Administer, ..) | (Verb::Change, _, Some("reader")) => Some(403),
        _ => None,
    }
}

#[tokio::test]
async fn every_route_lets_in_whom_its_case_says() {
    let mut service = service().await;
    for case in CASES {
        let (method, path) = case.operation.split_once(' ').expect("a method and a path");
        let method: reqwest::Method = method.parse().expect("a method");
        let path = path.replace("{id}", "nothing").replace("{type}", "nothing");
        for person in [None].into_iter().chain(PEOPLE.iter().map(|(name, ..)| Some(*name))) {
            service.token = person.map(str::to_owned);
            let body = (method != reqwest::Method::GET).then(|| json!({}));
            let answer = service.send(method.clone(), &path, body).await;
            let what = format!("{} by {person:?}: {} {}", case.operation, answer.status, answer.body);
            match kept_out(case, person) {
                Some(status) => assert_eq!(answer.status, status, "{what}"),
                None => assert!(![401, 403, 405, 500].contains(&answer.status), "{what}"),
            }
        }
    }
}

#[tokio::test]
async fn what_is_in_other_projects_does_not_exist() {
    let mut service = service().await;
    service.token = Some("member".to_owned());
    let cluster = service.cluster("c", json!({})).await;
    let (id, profile) = (cluster["id"].as_str().unwrap(), cluster["profile_id"].as_str().unwrap());
    let action = service.get("/actions").await.body["actions"][0]["id"].as_str().unwrap().to_owned();
    let things = [format!("/clusters/{id}"), format!("/profiles/{profile}"), format!("/actions/{action}")];
    service.token = Some("stranger".to_owned());
    for thing in &things {
        assert_eq!(service.get(thing).await.status, 404, "{thing}");
    }
    assert_eq!(service.get("/clusters").await.body["clusters"], json!([]));
    assert_eq!(service.get("/clusters?global_project=true").await.status, 403);
    let cancel = service.patch(&things[2], json!({"action": {"status": "CANCELLED"}})).await;
    assert_eq!(cancel.status, 404);
    service.token = Some("admin".to_owned());
    for thing in &things {
        assert_eq!(service.get(thing).await.status, 200, "{thing}");
    }
    assert_eq!(service.get("/clusters?global_project=False").await.body["clusters"], json!([]));
    assert_eq!(service.get("/clusters?global_project=true").await.body["clusters"][0]["id"], id);
}

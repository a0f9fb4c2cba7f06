//! Every route by everybody, on a server with local processes: what they run is decided by admins.

use muster_api::access::{Case, Subject, Verb};
use muster_api::auth::hash;
use muster_api::clustering::CASES;
use reqwest::Method;
use serde_json::{Value, json};

use crate::service::{Answer, Kind, Service};

/// Who calls: also their token.
const PEOPLE: [(&str, &str, &str); 4] = [
    ("stranger", "other", "member"),
    ("reader", "demo", "reader"),
    ("member", "demo", "member"),
    ("admin", "demo", "admin"),
];

async fn service() -> Service {
    let entry = |(name, project, role): &(&str, &str, &str)| {
        let sha256 = hash(name);
        format!(
            "[[token]]\nname = '{name}'\nproject = '{project}'\nroles = ['{role}']\nsha256 = '{sha256}'\n"
        )
    };
    let tokens: String = PEOPLE.iter().map(entry).collect();
    let write =
        |folder: &std::path::Path| std::fs::write(folder.join("tokens.toml"), &tokens).expect("a file");
    let arguments = ["--auth", "tokens:tokens.toml"];
    Service::launch(Kind::Sqlite, &arguments, write).await.expect("a server")
}

/// What calls are about, all of it made by an admin.
struct Objects {
    cluster: String,
    profile: String,
    /// Of the same type, for updates.
    other_profile: String,
    /// Its process ends at once, so that none is left behind.
    node: String,
    policy: String,
    action: String,
    receiver: String,
}

fn id(answer: &Answer, kind: &str) -> String {
    answer.body[kind]["id"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

async fn profile(service: &Service, name: &str) -> String {
    let properties = json!({"command": ["sh", "-c", "exit 0"], "env": {"NAME": name}});
    let spec = json!({"type": "local.process", "version": "1.0", "properties": properties});
    id(&service.post("/profiles", json!({"profile": {"name": name, "spec": spec}})).await, "profile")
}

impl Objects {
    async fn new(service: &Service) -> Self {
        let (profile, other_profile) = (profile(service, "one").await, profile(service, "two").await);
        let cluster = json!({"name": "c", "profile_id": profile, "desired_capacity": 0});
        let made = service.post("/clusters", json!({"cluster": cluster})).await;
        let (cluster, action) = (id(&made, "cluster"), made.action());
        service.ended(&action).await;
        let node = service.post("/nodes", json!({"node": {"name": "n", "profile_id": profile}})).await;
        service.ended(&node.action()).await;
        let spec = json!({"type": "senlin.policy.deletion", "version": "1.1", "properties": {}});
        let policy = service.post("/policies", json!({"policy": {"name": "p", "spec": spec}})).await;
        let receiver = receiver(service, &cluster, &other_profile).await;
        let (node, policy, receiver) = (id(&node, "node"), id(&policy, "policy"), id(&receiver, "receiver"));
        Self { cluster, profile, other_profile, node, policy, action, receiver }
    }

    /// The path of a route that is about these objects.
    fn path(&self, path: &str) -> String {
        let id = match path.split('/').nth(1) {
            Some("clusters") => &self.cluster,
            Some("nodes") => &self.node,
            Some("profiles") => &self.profile,
            Some("policies") => &self.policy,
            Some("actions") => &self.action,
            _ => &self.receiver,
        };
        path.replace("{id}", id).replace("{policy}", &self.policy).replace("{path}", "$.name")
    }

    /// A request that changes something, and whether it decides what local processes run. Every route has to be named.
    fn request(&self, operation: &str) -> (Value, bool) {
        let (profile, other) = (&self.profile, &self.other_profile);
        let adopted = json!({"identity": "1", "type": "local.process-1.0"});
        match operation {
            "POST /clusters" => (json!({"cluster": {"name": "new", "profile_id": profile}}), true),
            "PATCH /clusters/{id}" => (json!({"cluster": {"profile_id": other}}), true),
            "POST /nodes" => (json!({"node": {"name": "new", "profile_id": profile}}), true),
            "PATCH /nodes/{id}" => (json!({"node": {"profile_id": other}}), true),
            "POST /nodes/adopt" | "POST /nodes/adopt-preview" => (adopted, true),
            "POST /profiles" => {
                let spec =
                    json!({"type": "local.process", "version": "1.0", "properties": {"command": ["true"]}});
                (json!({"profile": {"name": "new", "spec": spec}}), false)
            }
            "PATCH /profiles/{id}" => (json!({"profile": {"name": "renamed"}}), false),
            "POST /clusters/{id}/actions" | "POST /nodes/{id}/actions" => (json!({"check": {}}), false),
            "POST /clusters/{id}/ops" | "POST /nodes/{id}/ops" => (json!({"restart": {}}), false),
            "PATCH /actions/{id}" => (json!({"action": {"status": "CANCELLED"}}), false),
            "PATCH /receivers/{id}" => (json!({"receiver": {"name": "renamed"}}), false),
            "POST /policies" | "PATCH /policies/{id}" | "POST /receivers" | "POST /receivers/{id}/notify" => {
                (json!({}), false)
            }
            "DELETE /clusters/{id}"
            | "DELETE /nodes/{id}"
            | "DELETE /profiles/{id}"
            | "DELETE /policies/{id}"
            | "DELETE /receivers/{id}"
            | "GET /receivers"
            | "GET /receivers/{id}" => (json!({}), false),
            other => panic!("does {other} decide what local processes run?"),
        }
    }
}

/// A receiver of the caller's whose trigger gives a cluster another profile.
async fn receiver(service: &Service, cluster: &str, profile: &str) -> Answer {
    let receiver = json!({
        "name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_UPDATE",
        "params": {"profile_id": profile},
    });
    service.post("/receivers", json!({"receiver": receiver})).await
}

#[tokio::test]
async fn what_local_processes_run_is_decided_by_admins() {
    let mut service = service().await;
    for case in CASES.iter().filter(|case| is_for_callers(case)) {
        let (method, path) = case.operation.split_once(' ').expect("a method and a path");
        let method: Method = method.parse().expect("a method");
        for (person, ..) in PEOPLE {
            service.token = Some("admin".to_owned());
            let objects = Objects::new(&service).await;
            let (body, decides) = match case.verb {
                Verb::Change => objects.request(case.operation),
                _ => (json!({}), false),
            };
            service.token = Some(person.to_owned());
            let body = (method != Method::GET).then_some(body);
            let answer = service.send(method.clone(), &objects.path(path), body).await;
            let what = format!("{} by {person}: {} {}", case.operation, answer.status, answer.body);
            let is_done = answer.status < 300;
            match (person, case.verb) {
                ("admin", _) => assert_ne!(answer.status, 403, "{what}"),
                ("reader", Verb::Change) | (_, Verb::Administer) => assert_eq!(answer.status, 403, "{what}"),
                ("member", _) => assert_eq!(answer.status == 403, decides, "{what}"),
                ("stranger", _) => assert!(!is_done || !(decides || path.contains('{')), "{what}"),
                _ => assert_ne!(answer.status, 403, "{what}"),
            }
            assert_ne!(answer.status, 500, "{what}");
        }
    }
}

/// Those without a caller, and those that no caller may use, have no different answers here.
fn is_for_callers(case: &Case) -> bool {
    !matches!(case.subject, Subject::Public | Subject::Closed)
}

#[tokio::test]
async fn a_trigger_decides_what_local_processes_run_only_in_the_name_of_an_admin() {
    let mut service = service().await;
    service.token = Some("admin".to_owned());
    let objects = Objects::new(&service).await;
    for (person, status) in [("member", 403), ("admin", 202)] {
        service.token = Some(person.to_owned());
        let receiver = receiver(&service, &objects.cluster, &objects.other_profile).await;
        service.token = None;
        let path = format!("/webhooks/{}/trigger?V=2", id(&receiver, "receiver"));
        let answer = service.post(&path, json!({})).await;
        assert_eq!(answer.status, status, "{person}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_trigger_that_names_another_profile_does_not_have_the_rights_of_an_admin() {
    let mut service = service().await;
    service.token = Some("admin".to_owned());
    let objects = Objects::new(&service).await;
    service.token = Some("member".to_owned());
    let others = profile(&service, "members").await;
    service.token = None;
    let path = format!("/webhooks/{}/trigger?V=2", objects.receiver);
    assert_eq!(service.post(&path, json!({"profile_id": others})).await.status, 403);
    assert_eq!(service.post(&path, json!({"profile_id": objects.other_profile})).await.status, 202);
}

#[tokio::test]
async fn a_receiver_that_a_member_changes_acts_in_the_name_of_that_member() {
    let mut service = service().await;
    service.token = Some("admin".to_owned());
    let objects = Objects::new(&service).await;
    let trigger = async |service: &mut Service| {
        service.token = None;
        service.post(&format!("/webhooks/{}/trigger?V=2", objects.receiver), json!({})).await.status
    };
    let path = format!("/receivers/{}", objects.receiver);
    service.token = Some("member".to_owned());
    let renamed = service.patch(&path, json!({"receiver": {"name": "renamed"}})).await;
    assert_eq!(renamed.body["receiver"]["user"], "admin");
    assert_eq!(trigger(&mut service).await, 202);
    service.token = Some("member".to_owned());
    let profile = profile(&service, "members").await;
    let changed = service.patch(&path, json!({"receiver": {"params": {"profile_id": profile}}})).await;
    assert_eq!((changed.status, &changed.body["receiver"]["user"]), (200, &json!("member")));
    assert_eq!(trigger(&mut service).await, 403);
}

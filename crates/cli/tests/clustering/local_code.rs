//! Every route with every caller on a server with local processes: only admins decide what they execute.

use muster_api::access::{AccessTarget, Case, Verb};
use muster_api::auth::hash;
use muster_api::clustering::CASES;
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Answer, Kind, Server};

/// Callers by name, which is also their token.
const CALLERS: [(&str, &str, &str); 4] = [
    ("outsider", "other", "member"),
    ("reader", "demo", "reader"),
    ("member", "demo", "member"),
    ("admin", "demo", "admin"),
];

async fn start_server() -> Server {
    let entry = |(name, project, role): &(&str, &str, &str)| {
        let sha256 = hash(name);
        format!(
            "[[token]]\nname = '{name}'\nproject = '{project}'\nroles = ['{role}']\nsha256 = '{sha256}'\n"
        )
    };
    let tokens: String = CALLERS.iter().map(entry).collect();
    let write =
        |folder: &std::path::Path| std::fs::write(folder.join("tokens.toml"), &tokens).expect("a file");
    let arguments = ["--auth", "tokens:tokens.toml"];
    Server::launch(Kind::Sqlite, &arguments, write).await.expect("a server")
}

/// The objects of the calls, created by an admin.
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

async fn profile(server: &Server, name: &str) -> String {
    let properties = json!({"command": ["sh", "-c", "exit 0"], "env": {"NAME": name}});
    let spec = json!({"type": "local.process", "version": "1.0", "properties": properties});
    id(&server.post("/profiles", json!({"profile": {"name": name, "spec": spec}})).await, "profile")
}

impl Objects {
    async fn new(server: &Server) -> Self {
        let (profile, other_profile) = (profile(server, "one").await, profile(server, "two").await);
        let cluster = json!({"name": "c", "profile_id": profile, "desired_capacity": 0});
        let made = server.post("/clusters", json!({"cluster": cluster})).await;
        let (cluster, action) = (id(&made, "cluster"), made.action());
        server.wait_for_end(&action).await;
        let node = server.post("/nodes", json!({"node": {"name": "n", "profile_id": profile}})).await;
        server.wait_for_end(&node.action()).await;
        let spec = json!({"type": "senlin.policy.deletion", "version": "1.1", "properties": {}});
        let policy = server.post("/policies", json!({"policy": {"name": "p", "spec": spec}})).await;
        let receiver = receiver(server, &cluster, &other_profile).await;
        let (node, policy, receiver) = (id(&node, "node"), id(&policy, "policy"), id(&receiver, "receiver"));
        Self { cluster, profile, other_profile, node, policy, action, receiver }
    }

    /// Returns the path of a route with the ids of these objects.
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

    /// Returns a request body, and true if it decides what local processes execute. Every route must be listed.
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

/// Creates a receiver of the caller whose trigger changes a cluster's profile.
async fn receiver(server: &Server, cluster: &str, profile: &str) -> Answer {
    let receiver = json!({
        "name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_UPDATE",
        "params": {"profile_id": profile},
    });
    server.post("/receivers", json!({"receiver": receiver})).await
}

#[tokio::test]
async fn only_admins_decide_what_local_processes_execute() {
    let mut server = start_server().await;
    for case in CASES.iter().filter(|case| is_for_callers(case)) {
        let (method, path) = case.operation.split_once(' ').expect("a method and a path");
        let method: Method = method.parse().expect("a method");
        for (person, ..) in CALLERS {
            server.token = Some("admin".to_owned());
            let objects = Objects::new(&server).await;
            let (body, decides) = match case.verb {
                Verb::Change => objects.request(case.operation),
                _ => (json!({}), false),
            };
            server.token = Some(person.to_owned());
            let body = (method != Method::GET).then_some(body);
            let answer = server.send(method.clone(), &objects.path(path), body).await;
            let what = format!("{} by {person}: {} {}", case.operation, answer.status, answer.body);
            let is_done = answer.status < 300;
            match (person, case.verb) {
                ("admin", _) => assert_ne!(answer.status, 403, "{what}"),
                ("reader", Verb::Change) | (_, Verb::Administer) => assert_eq!(answer.status, 403, "{what}"),
                ("member", _) => assert_eq!(answer.status == 403, decides, "{what}"),
                ("outsider", _) => assert!(!is_done || !(decides || path.contains('{')), "{what}"),
                _ => assert_ne!(answer.status, 403, "{what}"),
            }
            assert_ne!(answer.status, 500, "{what}");
        }
    }
}

/// Returns true for routes whose answers depend on the caller.
fn is_for_callers(case: &Case) -> bool {
    !matches!(case.subject, AccessTarget::Public | AccessTarget::Closed)
}

#[tokio::test]
async fn a_trigger_decides_what_local_processes_execute_only_with_an_admins_rights() {
    let mut server = start_server().await;
    server.token = Some("admin".to_owned());
    let objects = Objects::new(&server).await;
    for (person, status) in [("member", 403), ("admin", 202)] {
        server.token = Some(person.to_owned());
        let receiver = receiver(&server, &objects.cluster, &objects.other_profile).await;
        server.token = None;
        let path = format!("/webhooks/{}/trigger?V=2", id(&receiver, "receiver"));
        let answer = server.post(&path, json!({})).await;
        assert_eq!(answer.status, status, "{person}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_trigger_with_another_profile_does_not_have_an_admins_rights() {
    let mut server = start_server().await;
    server.token = Some("admin".to_owned());
    let objects = Objects::new(&server).await;
    server.token = Some("member".to_owned());
    let others = profile(&server, "members").await;
    server.token = None;
    let path = format!("/webhooks/{}/trigger?V=2", objects.receiver);
    assert_eq!(server.post(&path, json!({"profile_id": others})).await.status, 403);
    assert_eq!(server.post(&path, json!({"profile_id": objects.other_profile})).await.status, 202);
}

#[tokio::test]
async fn a_receiver_that_a_member_changes_has_the_rights_of_that_member() {
    let mut server = start_server().await;
    server.token = Some("admin".to_owned());
    let objects = Objects::new(&server).await;
    let trigger = async |server: &mut Server| {
        server.token = None;
        server.post(&format!("/webhooks/{}/trigger?V=2", objects.receiver), json!({})).await.status
    };
    let path = format!("/receivers/{}", objects.receiver);
    server.token = Some("member".to_owned());
    let renamed = server.patch(&path, json!({"receiver": {"name": "renamed"}})).await;
    assert_eq!(renamed.body["receiver"]["user"], "admin");
    assert_eq!(trigger(&mut server).await, 202);
    server.token = Some("member".to_owned());
    let profile = profile(&server, "members").await;
    let changed = server.patch(&path, json!({"receiver": {"params": {"profile_id": profile}}})).await;
    assert_eq!((changed.status, &changed.body["receiver"]["user"]), (200, &json!("member")));
    assert_eq!(trigger(&mut server).await, 403);
}

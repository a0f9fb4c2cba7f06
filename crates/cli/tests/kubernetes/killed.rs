//! kill -9 of the server right before and right after each of its writes to Kubernetes.
//!
//! A gate between the server and the API server closes at the n-th write, so that either the write or its answer is lost.
//! Then the server is killed, and another one on the same folder must complete what it began.

use std::collections::{BTreeMap, BTreeSet};

use http::Request;
use kube::Client;
use muster_testkit::{Gate, Operator, RecordedWrite, Side, eventually};
use reqwest::{Method, Response};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

/// The operations on a cluster, in this order.
const LIFE: [Operation; 6] = [
    Operation::Create,
    Operation::Grow,
    Operation::Shrink,
    Operation::RestartHead,
    Operation::Update,
    Operation::Delete,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Create,
    Grow,
    Shrink,
    RestartHead,
    Update,
    Delete,
}

/// A kind of cluster.
#[derive(Clone, Copy)]
struct ClusterKind {
    /// `None` if the nodes are pods that Muster creates.
    framework: Option<&'static str>,
    operator: Option<Operator>,
    has_head: bool,
}

impl ClusterKind {
    fn new_cluster(self) -> Value {
        let group = json!({"group_name": "default", "replicas": 2});
        let mut cluster = json!({
            "name": "fred", "provider": "kubernetes", "cluster_spec": {"worker_group_spec": [group]},
        });
        match self.framework {
            Some(framework) => cluster["framework"] = framework.into(),
            None => {
                cluster["profile"] = "kubernetes.pod-1.0".into();
                cluster["profile_properties"] = pods("example.test/it:1");
            }
        }
        cluster
    }

    /// The operations that this kind supports.
    fn operations(self) -> impl Iterator<Item = Operation> {
        LIFE.into_iter().filter(move |operation| self.has_head || *operation != Operation::RestartHead)
    }
}

/// Properties of pods with this image.
fn pods(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [{"name": "main", "image": image}]}}})
}

/// Servers on one namespace, one after the other.
struct KillScenario {
    harness: Harness,
    gate: Gate,
    client: reqwest::Client,
    server: Option<Server>,
    kind: ClusterKind,
}

/// The result of an operation.
struct Done {
    killed: bool,
    written: Vec<RecordedWrite>,
}

impl KillScenario {
    async fn open(kind: ClusterKind) -> Option<Self> {
        let harness = Harness::with(kind.operator).await?;
        let gate = harness.kubernetes.gate().await;
        let server = harness.server_through(&gate.kubeconfig(), &[]).await;
        Some(Self { harness, gate, client: reqwest::Client::new(), server: Some(server), kind })
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("one runs")
    }

    /// Sends a request to an API.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let mut request = self.client.request(method, format!("{}{path}", self.server().rest));
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.expect("the server answers")
    }

    async fn request(&self, operation: Operation) -> Response {
        let clusters = format!("/apis/v1alpha2{}", self.harness.clusters());
        let (fred, wait) = (format!("{clusters}/fred"), "wait_for=accepted");
        let scale = |workers: u32| json!({"replicas": workers, "wait_for": "accepted"});
        let (method, path, body) = match operation {
            Operation::Create => (Method::POST, format!("{clusters}?{wait}"), Some(self.kind.new_cluster())),
            Operation::Grow => (Method::POST, format!("{fred}/scale"), Some(scale(4))),
            Operation::Shrink => (Method::POST, format!("{fred}/scale"), Some(scale(2))),
            Operation::RestartHead => {
                (Method::POST, format!("{fred}/restart_head"), Some(json!({"wait_for": "accepted"})))
            }
            Operation::Update if self.kind.framework.is_none() => {
                let fred = self.server().get(&format!("{}/fred", self.harness.clusters())).await;
                let path = format!("/clustering/v1/clusters/{}", fred["id"].as_str().expect("an id"));
                (
                    Method::PATCH,
                    path,
                    Some(json!({"cluster": {"profile_id": self.create_other_profile().await}})),
                )
            }
            Operation::Update => {
                let group = json!({"group_name": "default", "shape": {"cpu": "500m", "memory": "1Gi"}});
                let change = json!({"labels": {"team": "a"}, "cluster_spec": {"worker_group_spec": [group]}});
                (Method::PATCH, format!("{fred}?{wait}"), Some(change))
            }
            Operation::Delete => (Method::DELETE, format!("{fred}?{wait}"), None),
        };
        self.send(method, &path, body.as_ref()).await
    }

    /// Creates a profile of other pods.
    async fn create_other_profile(&self) -> Value {
        let spec =
            json!({"type": "kubernetes.pod", "version": "1.0", "properties": pods("example.test/it:2")});
        let profile = json!({"profile": {"name": "other", "spec": spec}});
        let made = self.send(Method::POST, "/clustering/v1/profiles", Some(&profile)).await;
        made.json::<Value>().await.expect("JSON")["profile"]["id"].clone()
    }

    /// Executes an operation, and kills the server at the given write.
    async fn execute(&mut self, operation: Operation, kill: Option<(usize, Side)>) -> Done {
        let before = self.harness.pods().await;
        self.gate.open(kill);
        let accepted = self.request(operation).await;
        let status = accepted.status();
        let action = accepted.headers().get("muster-action-id").cloned();
        let printed = accepted.text().await.unwrap_or_default();
        assert!(status.is_success(), "{operation:?} at {kill:?}: {status} {printed}");
        let action = action.expect("it names its action").to_str().expect("an id").to_owned();

        let killed = tokio::select! {
            () = self.gate.closed() => true,
            _ = self.wait_for_end(&action) => false,
        };
        if killed {
            let server = self.server.take().expect("one runs");
            let server = server.killed().await;
            self.gate.open_again();
            self.server = Some(server.start_again().await);
        }
        let wait_for_end = self.wait_for_end(&action).await;
        assert_eq!(wait_for_end["status"], "SUCCEEDED", "{operation:?} at {kill:?}: {wait_for_end}");
        self.check(operation, kill, &before).await;
        Done { killed, written: self.gate.written() }
    }

    /// Waits until an action has ended.
    async fn wait_for_end(&self, action: &str) -> Value {
        let path = format!("/actions/{action}");
        eventually("the end of an action", TIMEOUT * 4, async || {
            let shown = self.server().get(&path).await;
            let log = || self.server().log();
            if shown["endedAt"].is_null() { Err(format!("{shown}\n{}", log())) } else { Ok(shown) }
        })
        .await
    }

    /// Asserts that the cluster is as requested and nothing else has changed.
    async fn check(&self, operation: Operation, kill: Option<(usize, Side)>, before: &BTreeSet<String>) {
        let now = self.harness.pods().await;
        let workers = match operation {
            Operation::Grow => 4,
            Operation::Delete => {
                assert_eq!(now, BTreeSet::new(), "{operation:?} at {kill:?}");
                return;
            }
            Operation::Create | Operation::Shrink | Operation::RestartHead | Operation::Update => 2,
        };
        let cluster = self.server().get(&format!("{}/fred", self.harness.clusters())).await;
        let printed = (&cluster["state"], &cluster["desiredWorkers"], &cluster["readyWorkers"]);
        assert_eq!(
            printed,
            (&json!("ACTIVE"), &json!(workers), &json!(workers)),
            "{operation:?} at {kill:?}: {cluster}"
        );
        assert_eq!(
            now.len(),
            workers + usize::from(self.kind.has_head),
            "{operation:?} at {kill:?}: {now:?}"
        );
        match operation {
            Operation::Grow => assert!(now.is_superset(before), "{operation:?} at {kill:?}: all stay"),
            Operation::Shrink => assert!(now.is_subset(before), "{operation:?} at {kill:?}: none is new"),
            _ => {}
        }
    }

    /// Executes all operations and kills the server at this write of each; returns the number of kills.
    async fn execute_all(&mut self, plain: &[(Operation, Done)], number: usize, side: Side) -> usize {
        let mut made = BTreeSet::new();
        let mut kills = 0;
        for (operation, usual) in plain {
            let has_it = least_count(&usual.written) >= number;
            if !has_it && matches!(operation, Operation::RestartHead | Operation::Update) {
                continue;
            }
            let done = self.execute(*operation, has_it.then_some((number, side))).await;
            let at = format!("{operation:?} at {number} {side:?}");
            assert_eq!(done.killed, has_it, "{at}: {:?}, and usually {:?}", done.written, usual.written);
            kills += usize::from(done.killed);
            // A retried creation fails if the name is in use. A pod that is gone is created again: kwok deletes pods by name only,
            // so a repeated deletion hits the next pod of that name.
            let by =
                |method: &'static str| done.written.iter().filter(move |written| written.method == method);
            let is_new = |written: &&RecordedWrite| by("POST").any(|new| new.uid == written.uid);
            let removed: Vec<&RecordedWrite> = by("DELETE").filter(is_new).collect();
            assert!(removed.is_empty(), "{at}: {removed:?} was just made: {:#?}", done.written);
            made.extend(by("POST").map(|written| written.path.clone()));
            let (mut written, usual) = (kinds(&done.written), kinds(&usual.written));
            if done.killed && *operation == Operation::RestartHead {
                // The next server may start after the old head is gone and before the operator has created another; it then requests
                // one from the operator.
                written.retain(|kind| usual.contains(kind) || !kind.starts_with("PATCH"));
            }
            assert_eq!(written, usual, "{at}: the same writes as without a kill");
        }
        self.nothing_is_left(&made).await;
        kills
    }

    /// Asserts that everything that was created is deleted.
    async fn nothing_is_left(&self, made: &BTreeSet<String>) {
        let client = self.harness.kubernetes.client();
        for path in made {
            eventually(&format!("the end of {path}"), TIMEOUT, async || {
                if exists(&client, path).await { Err("still there") } else { Ok(()) }
            })
            .await;
        }
    }
}

async fn exists(client: &Client, path: &str) -> bool {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    match client.request::<Value>(request).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Returns the least number of writes: repeated deletions count once.
fn least_count(written: &[RecordedWrite]) -> usize {
    let (gone, others): (Vec<&RecordedWrite>, Vec<&RecordedWrite>) =
        written.iter().partition(|written| written.method == "DELETE");
    others.len() + gone.into_iter().collect::<BTreeSet<_>>().len()
}

/// Returns the writes without random names: how many objects of each kind were created and deleted, and which kinds were
/// changed. A repeated change counts once.
fn kinds(written: &[RecordedWrite]) -> Vec<String> {
    let kind = |written: &RecordedWrite| {
        let (kind, _) = written.path.rsplit_once('/').unwrap_or_default();
        format!("{} {kind}", written.method)
    };
    let new: BTreeMap<&str, &RecordedWrite> = written
        .iter()
        .filter(|written| written.method == "POST")
        .map(|written| (written.path.as_str(), written))
        .collect();
    let new = new.into_values().map(kind);
    let distinct = |method: &'static str| {
        let some: BTreeSet<&RecordedWrite> =
            written.iter().filter(|written| written.method == method).collect();
        some.into_iter().map(kind).collect::<Vec<_>>()
    };
    let changed: BTreeSet<String> = distinct("PATCH").into_iter().collect();
    let mut all: Vec<String> = new.chain(distinct("DELETE")).chain(changed).collect();
    all.sort();
    all
}

#[rstest]
#[case::kuberay(ClusterKind { framework: Some("ray"), operator: Some(Operator::KubeRay), has_head: true })]
#[case::dask_operator(ClusterKind { framework: Some("dask"), operator: Some(Operator::Dask), has_head: true })]
#[case::native(ClusterKind { framework: Some("spark"), operator: None, has_head: true })]
#[case::pods(ClusterKind { framework: None, operator: None, has_head: false })]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_before_or_after_any_write_creates_nothing_twice_and_leaves_nothing(
    #[case] kind: ClusterKind,
) {
    let Some(mut scenario) = KillScenario::open(kind).await else { return };
    let mut plain = Vec::new();
    for operation in kind.operations() {
        plain.push((operation, scenario.execute(operation, None).await));
    }
    let numbers: Vec<usize> = plain.iter().map(|(_, done)| least_count(&done.written)).collect();
    let most = numbers.iter().copied().max().unwrap_or_default();
    let mut kills = 0;
    for number in 1..=most {
        for side in [Side::Before, Side::After] {
            kills += scenario.execute_all(&plain, number, side).await;
        }
    }
    assert_eq!(kills, 2 * numbers.iter().sum::<usize>());
    let deleted = scenario.server().get(&format!("{}?deleted=only", scenario.harness.clusters())).await;
    assert_eq!(deleted["clusters"].as_array().map(Vec::len), Some(1 + 2 * most), "one row per run");
}

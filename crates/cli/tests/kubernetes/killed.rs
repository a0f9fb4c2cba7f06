//! kill -9 of the server right before and right after each of its writes to Kubernetes.
//!
//! A gate between the server and the API server closes at the n-th write: it does not arrive, or its answer does not.
//! Then the server is killed, and another one on the same folder has to finish what it began.

use std::collections::{BTreeMap, BTreeSet};

use http::Request;
use kube::Client;
use muster_testkit::{Gate, Operator, Side, Written, eventually};
use reqwest::{Method, Response};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{PATIENCE, Server};

/// What is done to a cluster, in this order.
const LIFE: [Deed; 6] =
    [Deed::Create, Deed::Grow, Deed::Shrink, Deed::RestartHead, Deed::Update, Deed::Delete];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Create,
    Grow,
    Shrink,
    RestartHead,
    Update,
    Delete,
}

/// A kind of clusters.
#[derive(Clone, Copy)]
struct Subject {
    /// None where the nodes are pods of ours.
    framework: Option<&'static str>,
    operator: Option<Operator>,
    has_head: bool,
}

impl Subject {
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

    /// What can be done to one of them.
    fn life(self) -> impl Iterator<Item = Deed> {
        LIFE.into_iter().filter(move |deed| self.has_head || *deed != Deed::RestartHead)
    }
}

/// What pods with this image are made from.
fn pods(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [{"name": "main", "image": image}]}}})
}

/// One server after the other, over one namespace.
struct KillScenario {
    harness: Harness,
    gate: Gate,
    client: reqwest::Client,
    server: Option<Server>,
    subject: Subject,
}

/// What a deed came to.
struct Done {
    killed: bool,
    written: Vec<Written>,
}

impl KillScenario {
    async fn open(subject: Subject) -> Option<Self> {
        let harness = Harness::with(subject.operator).await?;
        let gate = harness.kubernetes.gate().await;
        let server = harness.server_through(&gate.kubeconfig(), &[]).await;
        Some(Self { harness, gate, client: reqwest::Client::new(), server: Some(server), subject })
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("one runs")
    }

    /// Sends something to a door.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let mut request = self.client.request(method, format!("{}{path}", self.server().rest));
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.expect("the server answers")
    }

    async fn ask_for(&self, deed: Deed) -> Response {
        let clusters = format!("/apis/v1alpha2{}", self.harness.clusters());
        let (fred, wait) = (format!("{clusters}/fred"), "wait_for=accepted");
        let scale = |workers: u32| json!({"replicas": workers, "wait_for": "accepted"});
        let (method, path, body) = match deed {
            Deed::Create => (Method::POST, format!("{clusters}?{wait}"), Some(self.subject.new_cluster())),
            Deed::Grow => (Method::POST, format!("{fred}/scale"), Some(scale(4))),
            Deed::Shrink => (Method::POST, format!("{fred}/scale"), Some(scale(2))),
            Deed::RestartHead => {
                (Method::POST, format!("{fred}/restart_head"), Some(json!({"wait_for": "accepted"})))
            }
            Deed::Update if self.subject.framework.is_none() => {
                let fred = self.server().get(&format!("{}/fred", self.harness.clusters())).await;
                let path = format!("/clustering/v1/clusters/{}", fred["id"].as_str().expect("an id"));
                (Method::PATCH, path, Some(json!({"cluster": {"profile_id": self.other_recipe().await}})))
            }
            Deed::Update => {
                let group = json!({"group_name": "default", "shape": {"cpu": "500m", "memory": "1Gi"}});
                let change = json!({"labels": {"team": "a"}, "cluster_spec": {"worker_group_spec": [group]}});
                (Method::PATCH, format!("{fred}?{wait}"), Some(change))
            }
            Deed::Delete => (Method::DELETE, format!("{fred}?{wait}"), None),
        };
        self.send(method, &path, body.as_ref()).await
    }

    /// A profile of other pods.
    async fn other_recipe(&self) -> Value {
        let spec =
            json!({"type": "kubernetes.pod", "version": "1.0", "properties": pods("example.test/it:2")});
        let profile = json!({"profile": {"name": "other", "spec": spec}});
        let made = self.send(Method::POST, "/clustering/v1/profiles", Some(&profile)).await;
        made.json::<Value>().await.expect("JSON")["profile"]["id"].clone()
    }

    /// Does something, with the server killed at that write if there is one.
    async fn does(&mut self, deed: Deed, kill: Option<(usize, Side)>) -> Done {
        let before = self.harness.pods().await;
        self.gate.open(kill);
        let accepted = self.ask_for(deed).await;
        let status = accepted.status();
        let action = accepted.headers().get("muster-action-id").cloned();
        let said = accepted.text().await.unwrap_or_default();
        assert!(status.is_success(), "{deed:?} at {kill:?}: {status} {said}");
        let action = action.expect("it names its action").to_str().expect("an id").to_owned();

        let killed = tokio::select! {
            () = self.gate.closed() => true,
            _ = self.ended(&action) => false,
        };
        if killed {
            let server = self.server.take().expect("one runs");
            let server = server.killed().await;
            self.gate.open_again();
            self.server = Some(server.start_again().await);
        }
        let ended = self.ended(&action).await;
        assert_eq!(ended["status"], "SUCCEEDED", "{deed:?} at {kill:?}: {ended}");
        self.check(deed, kill, &before).await;
        Done { killed, written: self.gate.written() }
    }

    /// An action once it has ended.
    async fn ended(&self, action: &str) -> Value {
        let path = format!("/actions/{action}");
        eventually("the end of an action", PATIENCE * 4, async || {
            let shown = self.server().get(&path).await;
            let log = || self.server().log();
            if shown["endedAt"].is_null() { Err(format!("{shown}\n{}", log())) } else { Ok(shown) }
        })
        .await
    }

    /// The cluster is as it was asked for, and nothing else has changed.
    async fn check(&self, deed: Deed, kill: Option<(usize, Side)>, before: &BTreeSet<String>) {
        let now = self.harness.pods().await;
        let workers = match deed {
            Deed::Grow => 4,
            Deed::Delete => {
                assert_eq!(now, BTreeSet::new(), "{deed:?} at {kill:?}");
                return;
            }
            Deed::Create | Deed::Shrink | Deed::RestartHead | Deed::Update => 2,
        };
        let cluster = self.server().get(&format!("{}/fred", self.harness.clusters())).await;
        let said = (&cluster["state"], &cluster["desiredWorkers"], &cluster["readyWorkers"]);
        assert_eq!(
            said,
            (&json!("ACTIVE"), &json!(workers), &json!(workers)),
            "{deed:?} at {kill:?}: {cluster}"
        );
        assert_eq!(now.len(), workers + usize::from(self.subject.has_head), "{deed:?} at {kill:?}: {now:?}");
        match deed {
            Deed::Grow => assert!(now.is_superset(before), "{deed:?} at {kill:?}: all stay"),
            Deed::Shrink => assert!(now.is_subset(before), "{deed:?} at {kill:?}: none is new"),
            _ => {}
        }
    }

    /// A life, with the server killed at this write of every deed that has one; how many kills there were.
    async fn life(&mut self, plain: &[(Deed, Done)], number: usize, side: Side) -> usize {
        let mut made = BTreeSet::new();
        let mut kills = 0;
        for (deed, usual) in plain {
            let has_it = different(&usual.written) >= number;
            if !has_it && matches!(deed, Deed::RestartHead | Deed::Update) {
                continue;
            }
            let done = self.does(*deed, has_it.then_some((number, side))).await;
            let at = format!("{deed:?} at {number} {side:?}");
            assert_eq!(done.killed, has_it, "{at}: {:?}, and usually {:?}", done.written, usual.written);
            kills += usize::from(done.killed);
            // What is there is not made a second time: its name is taken. A pod that is not there any more is made again:
            // kwok deletes pods by their names alone, and if it does so twice, it deletes the next pod of that name.
            let by =
                |method: &'static str| done.written.iter().filter(move |written| written.method == method);
            let is_new = |written: &&Written| by("POST").any(|new| new.uid == written.uid);
            let removed: Vec<&Written> = by("DELETE").filter(is_new).collect();
            assert!(removed.is_empty(), "{at}: {removed:?} was just made: {:#?}", done.written);
            made.extend(by("POST").map(|written| written.path.clone()));
            let (mut written, usual) = (kinds(&done.written), kinds(&usual.written));
            if done.killed && *deed == Deed::RestartHead {
                // The next server may start after the old head is gone and before the operator has created another: it
                // then asks the operator for one.
                written.retain(|kind| usual.contains(kind) || !kind.starts_with("PATCH"));
            }
            assert_eq!(written, usual, "{at}: the same writes as without a kill");
        }
        self.nothing_is_left(&made).await;
        kills
    }

    /// All that was made goes.
    async fn nothing_is_left(&self, made: &BTreeSet<String>) {
        let client = self.harness.kubernetes.client();
        for path in made {
            eventually(&format!("the end of {path}"), PATIENCE, async || {
                if is_there(&client, path).await { Err("still there") } else { Ok(()) }
            })
            .await;
        }
    }
}

async fn is_there(client: &Client, path: &str) -> bool {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    match client.request::<Value>(request).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// How many writes there are at least: what was told to go, and is not seen to be going yet, may be told so again.
fn different(written: &[Written]) -> usize {
    let (gone, others): (Vec<&Written>, Vec<&Written>) =
        written.iter().partition(|written| written.method == "DELETE");
    others.len() + gone.into_iter().collect::<BTreeSet<_>>().len()
}

/// What was written, without names that are another one's every time: how many new objects of each kind, how many
/// that went, and which kinds were changed. The same change twice is no harm.
fn kinds(written: &[Written]) -> Vec<String> {
    let kind = |written: &Written| {
        let (kind, _) = written.path.rsplit_once('/').unwrap_or_default();
        format!("{} {kind}", written.method)
    };
    let new: BTreeMap<&str, &Written> = written
        .iter()
        .filter(|written| written.method == "POST")
        .map(|written| (written.path.as_str(), written))
        .collect();
    let new = new.into_values().map(kind);
    let distinct = |method: &'static str| {
        let some: BTreeSet<&Written> = written.iter().filter(|written| written.method == method).collect();
        some.into_iter().map(kind).collect::<Vec<_>>()
    };
    let changed: BTreeSet<String> = distinct("PATCH").into_iter().collect();
    let mut all: Vec<String> = new.chain(distinct("DELETE")).chain(changed).collect();
    all.sort();
    all
}

#[rstest]
#[case::kuberay(Subject { framework: Some("ray"), operator: Some(Operator::KubeRay), has_head: true })]
#[case::dask_operator(Subject { framework: Some("dask"), operator: Some(Operator::Dask), has_head: true })]
#[case::native(Subject { framework: Some("spark"), operator: None, has_head: true })]
#[case::pods(Subject { framework: None, operator: None, has_head: false })]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_before_or_after_any_write_makes_nothing_twice_and_leaves_nothing(
    #[case] subject: Subject,
) {
    let Some(mut scenario) = KillScenario::open(subject).await else { return };
    let mut plain = Vec::new();
    for deed in subject.life() {
        plain.push((deed, scenario.does(deed, None).await));
    }
    let numbers: Vec<usize> = plain.iter().map(|(_, done)| different(&done.written)).collect();
    let most = numbers.iter().copied().max().unwrap_or_default();
    let mut kills = 0;
    for number in 1..=most {
        for side in [Side::Before, Side::After] {
            kills += scenario.life(&plain, number, side).await;
        }
    }
    assert_eq!(kills, 2 * numbers.iter().sum::<usize>());
    let deleted = scenario.server().get(&format!("{}?deleted=only", scenario.harness.clusters())).await;
    assert_eq!(deleted["clusters"].as_array().map(Vec::len), Some(1 + 2 * most), "one row a life");
}

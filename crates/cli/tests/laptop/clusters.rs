//! Operations and checks on the clusters of a harness.

use std::path::PathBuf;

use muster_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Harness, TIMEOUT};
use crate::traces::{Traces, short_folders};

/// Path of the clusters of the tests.
pub(crate) const CLUSTERS: &str = "/namespaces/demo/clusters";

impl Harness {
    /// Creates a cluster and waits until it is active or has failed.
    pub(crate) async fn create(&self, cluster: &Value) -> Value {
        let path = format!("{CLUSTERS}?wait_for=reached&wait_timeout=180s");
        self.post(&path, cluster.clone()).await
    }

    /// Creates a cluster that is expected to fail, and waits until it has.
    pub(crate) async fn create_failing(&self, cluster: &Value) -> Value {
        self.post(CLUSTERS, cluster.clone()).await;
        let name = cluster["name"].as_str().expect("a name");
        self.until_ended(name, "CLUSTER_CREATE", 1).await;
        self.cluster(name).await
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) -> Value {
        let body = json!({"replicas": replicas, "wait_for": "reached", "wait_timeout": "180s"});
        self.post(&format!("{CLUSTERS}/{name}/scale"), body).await
    }

    /// Starts to scale a group and returns the id of the action.
    pub(crate) async fn begin_scale(&self, name: &str, replicas: u32) -> String {
        let body = json!({"replicas": replicas, "wait_for": "applied"});
        let answer = self.call(Method::POST, &format!("{CLUSTERS}/{name}/scale"), Some(body)).await;
        assert!(answer.status().is_success(), "{answer:?}");
        answer.headers()["muster-action-id"].to_str().expect("a text").to_owned()
    }

    /// Starts an update with these query parameters.
    pub(crate) async fn begin_update(&self, name: &str, parameters: &str, changes: &Value) {
        let path = format!("{CLUSTERS}/{name}?wait_for=applied&{parameters}");
        self.answer(Method::PATCH, &path, Some(changes.clone())).await;
    }

    /// Cancels an action and waits for its end.
    pub(crate) async fn cancel(&self, action: &str) {
        self.post(&format!("/actions/{action}/cancel"), json!({"wait_for": "reached"})).await;
    }

    /// Waits until a cluster has an event with this reason.
    pub(crate) async fn until_event(&self, name: &str, reason: &str) -> Vec<String> {
        eventually(&format!("{reason} of {name}"), TIMEOUT, async || {
            let events = self.messages(name, reason).await;
            if events.is_empty() { Err(self.log_tail()) } else { Ok(events) }
        })
        .await
    }

    pub(crate) async fn restart_head(&self, name: &str) -> Value {
        let body = json!({"wait_for": "reached", "wait_timeout": "180s"});
        self.post(&format!("{CLUSTERS}/{name}/restart_head"), body).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        let path = format!("{CLUSTERS}/{name}?wait_for=reached&wait_timeout=180s");
        self.answer(Method::DELETE, &path, None).await;
    }

    pub(crate) async fn cluster(&self, name: &str) -> Value {
        self.get(&format!("{CLUSTERS}/{name}")).await
    }

    /// Lists the `nodes`, `events` or `actions` of a cluster.
    pub(crate) async fn list(&self, name: &str, what: &str) -> Vec<Value> {
        let list = self.get(&format!("{CLUSTERS}/{name}/{what}")).await;
        list[what].as_array().cloned().unwrap_or_default()
    }

    /// Lists the workers of a cluster by name.
    pub(crate) async fn workers(&self, name: &str) -> Vec<Member> {
        let nodes = self.list(name, "nodes").await;
        let worker = |node: &&Value| node["role"] == "worker";
        let mut workers: Vec<Member> = nodes.iter().filter(worker).map(|node| self.member(node)).collect();
        workers.sort_by(|left, right| left.name.cmp(&right.name));
        workers
    }

    pub(crate) async fn head(&self, name: &str) -> Member {
        let nodes = self.list(name, "nodes").await;
        self.member(nodes.iter().find(|node| node["role"] == "head").expect("a head"))
    }

    fn member(&self, node: &Value) -> Member {
        let text = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
        let local = self.data().join("local");
        // The folder of a plain process is named after the node, not after its cluster.
        let own = local.join(text("id")).join(text("id"));
        let folder = if own.exists() { own } else { local.join(text("clusterId")).join(text("id")) };
        Member {
            name: text("name"),
            state: text("state"),
            reason: text("statusReason"),
            pid: text("physicalId").parse().ok(),
            folder,
        }
    }

    /// Lists the messages of a cluster's events with this reason, oldest first.
    pub(crate) async fn messages(&self, name: &str, reason: &str) -> Vec<String> {
        let events = self.list(name, "events").await;
        let events = events.iter().filter(|event| event["reason"] == reason);
        events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Polls a cluster until it fulfils the condition.
    pub(crate) async fn until(&self, name: &str, good: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("another state of {name}"), TIMEOUT, async || {
            let shown = self.cluster(name).await;
            if good(&shown) { Ok(shown) } else { Err(format!("{shown:#}\n{}", self.log_tail())) }
        })
        .await
    }

    /// Waits until this many workers are active and no action is running.
    pub(crate) async fn until_active(&self, name: &str, workers: u32) -> Value {
        self.until(name, |cluster| state(cluster) == "ACTIVE" && cluster["readyWorkers"] == workers).await
    }

    /// Waits until `count` actions of this kind have ended, and returns the last one.
    pub(crate) async fn until_ended(&self, name: &str, kind: &str, count: usize) -> Value {
        let path = format!("{CLUSTERS}/{name}/actions?action={kind}");
        eventually(&format!("the end of {kind} number {count} of {name}"), TIMEOUT, async || {
            let actions = self.get(&path).await["actions"].as_array().cloned().unwrap_or_default();
            let done: Vec<&Value> = actions.iter().filter(|action| !action["endedAt"].is_null()).collect();
            let newest = done.iter().max_by_key(|action| action["endedAt"].as_str());
            let newest = newest.filter(|_| done.len() >= count).map(|newest| (*newest).clone());
            newest.ok_or_else(|| format!("{actions:#?}\n{}", self.log_tail()))
        })
        .await
    }

    /// Asserts that exactly the processes of active nodes run.
    pub(crate) async fn check_processes(&self, name: &str) {
        let nodes = self.list(name, "nodes").await;
        let working = nodes.iter().filter(|node| node["state"] == "ACTIVE");
        let mut shown: Vec<i32> = working.map(|node| self.member(node).pid()).collect();
        let running =
            self.traces().processes.into_iter().filter(|(_, command)| !command.starts_with("muster shim"));
        let mut running: Vec<i32> = running.map(|(pid, _)| pid).collect();
        shown.sort_unstable();
        running.sort_unstable();
        assert_eq!(shown, running, "{nodes:#?}");
    }

    /// Waits until a process with these words in its command runs that did not run before.
    pub(crate) async fn until_started(&self, before: &Traces, words: &str) -> i32 {
        let known: Vec<i32> = before.processes.iter().map(|(pid, _)| *pid).collect();
        eventually(&format!("a new process {words:?}"), TIMEOUT, async || {
            let processes = self.traces().processes;
            let new = processes.iter().find(|(pid, command)| {
                !known.contains(pid) && command.contains(words) && !command.starts_with("muster shim")
            });
            new.map(|(pid, _)| *pid).ok_or_else(|| format!("{processes:?}\n{}", self.log_tail()))
        })
        .await
    }

    /// Deletes a cluster and asserts that nothing of it is left.
    pub(crate) async fn delete_without_trace(&self, name: &str) {
        let short = short_folders(&self.data().join("local"));
        self.delete(name).await;
        self.traces().assert_none();
        let left: Vec<_> = short.into_iter().filter(|link| link.symlink_metadata().is_ok()).collect();
        assert!(left.is_empty(), "folders for sockets are left: {left:?}");
    }
}

/// One node of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) pid: Option<i32>,
    folder: PathBuf,
}

impl Member {
    pub(crate) fn pid(&self) -> i32 {
        self.pid.unwrap_or_else(|| panic!("{} runs", self.name))
    }

    /// Path of the state that its shim writes.
    pub(crate) fn state_file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Reads its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the provider has asked its head to drain it.
    pub(crate) async fn until_draining(&self) {
        eventually(&format!("the drain of {}", self.name), TIMEOUT, async || {
            let text = std::fs::read(self.folder.join("seat.json")).unwrap_or_default();
            let seat: Value = serde_json::from_slice(&text).unwrap_or_default();
            if seat["draining"] == true { Ok(()) } else { Err(seat) }
        })
        .await;
    }

    pub(crate) fn shim(&self) -> i32 {
        let text = std::fs::read(self.state_file()).expect("its shim wrote its state");
        let state: Value = serde_json::from_slice(&text).expect("JSON");
        state["shim"]["pid"].as_i64().and_then(|pid| pid.try_into().ok()).expect("a number")
    }
}

pub(crate) fn state(cluster: &Value) -> &str {
    cluster["state"].as_str().unwrap_or_default()
}

pub(crate) fn reason(cluster: &Value) -> &str {
    cluster["statusReason"].as_str().unwrap_or_default()
}

//! A machine of the test's own, as far as Muster knows: a server with its own data and runtime folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_testkit::Process;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::traces::{self, Traces};

/// Longer than anything here takes on a busy machine; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How soon something is looked at again that cannot tell.
pub(crate) const SOON: Duration = Duration::from_millis(20);

/// Where the clusters of the tests are.
const CLUSTERS: &str = "/namespaces/demo/clusters";

/// A server, its folders, and everything that it started. When it goes, so must have all of that.
pub(crate) struct Laptop {
    server: Option<Process>,
    variables: Vec<(String, String)>,
    runtime: PathBuf,
    rest: String,
    client: reqwest::Client,
    folder: TempDir,
}

impl Laptop {
    /// One on which no framework is installed.
    pub(crate) async fn bare() -> Self {
        Self::with(&[]).await
    }

    /// One with Dask, or nothing if the test is skipped.
    pub(crate) async fn with_dask() -> Option<(Self, muster_testkit::Python)> {
        let python = muster_testkit::python("dask").await?;
        let path = python.path().display().to_string();
        Some((Self::with(&[("MUSTER_PYTHON", &path)]).await, python))
    }

    /// One whose server has these variables.
    pub(crate) async fn with(variables: &[(&str, &str)]) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let mut laptop = Self {
            server: None,
            variables: variables.collect(),
            runtime: folder.path().join("run"),
            rest: String::new(),
            client: reqwest::Client::new(),
            folder,
        };
        laptop.start().await;
        laptop
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Starts the server, which finds what the last one left.
    pub(crate) async fn start(&mut self) {
        std::fs::create_dir_all(&self.runtime).expect("a runtime folder");
        let server = self.spawn();
        server.wait_for_line("serving", PATIENCE).await;
        let announced = std::fs::read(self.data().join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        self.rest = format!("http://{}", announced["rest"].as_str().expect("an address"));
        self.server = Some(server);
    }

    fn spawn(&self) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(["serve", "--dev", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.data()).env("XDG_RUNTIME_DIR", &self.runtime);
        // Inherited by whatever it starts, so that nothing of it can hide.
        command.env(traces::MARK, self.path()).env_remove("MUSTER_PYTHON").env_remove("VIRTUAL_ENV");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Process::spawn("muster", &command)
    }

    /// Ends the server as a power cut would, but for the machine.
    pub(crate) async fn kill(&mut self) {
        let mut server = self.server.take().expect("a server");
        server.kill();
        server.wait_for_exit(PATIENCE).await;
    }

    pub(crate) async fn kill_and_start_again(&mut self) {
        self.kill().await;
        self.start().await;
    }

    /// From its next start on, sockets are elsewhere.
    pub(crate) fn move_runtime_folder(&mut self) -> PathBuf {
        std::mem::replace(&mut self.runtime, self.folder.path().join("elsewhere"))
    }

    pub(crate) fn server_pid(&self) -> Option<i32> {
        self.server.as_ref()?.id()?.try_into().ok()
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        self.try_call(method, path, body).await.expect("the server answers")
    }

    /// The same for a server that may be killed meanwhile.
    pub(crate) async fn try_call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> reqwest::Result<Response> {
        let request = self.client.request(method, format!("{}/apis/v1alpha2{path}", self.rest));
        match body {
            Some(body) => request.json(&body).send().await,
            None => request.send().await,
        }
    }

    async fn answer(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let response = self.call(method, path, body).await;
        let status = response.status();
        let text = response.text().await.expect("a body");
        assert_eq!(status, StatusCode::OK, "{path}: {text}\n{}", self.words());
        serde_json::from_str(&text).expect("JSON")
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.answer(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.answer(Method::POST, path, Some(body)).await
    }

    /// Asks for a cluster, and waits until it is there or cannot be.
    pub(crate) async fn create(&self, cluster: &Value) -> Value {
        let path = format!("{CLUSTERS}?wait_for=reached&wait_timeout=60s");
        self.post(&path, cluster.clone()).await
    }

    /// Asks for a cluster that will not come to work, and waits until that is said.
    pub(crate) async fn create_in_vain(&self, cluster: &Value) -> Value {
        self.post(CLUSTERS, cluster.clone()).await;
        let name = cluster["name"].as_str().expect("a name");
        self.until_ended(name, "CLUSTER_CREATE", 1).await;
        self.cluster(name).await
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) -> Value {
        let body = json!({"replicas": replicas, "wait_for": "reached", "wait_timeout": "60s"});
        self.post(&format!("{CLUSTERS}/{name}/scale"), body).await
    }

    pub(crate) async fn restart_head(&self, name: &str) -> Value {
        let body = json!({"wait_for": "reached", "wait_timeout": "60s"});
        self.post(&format!("{CLUSTERS}/{name}/restart_head"), body).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        let path = format!("{CLUSTERS}/{name}?wait_for=reached&wait_timeout=60s");
        self.answer(Method::DELETE, &path, None).await;
    }

    pub(crate) async fn cluster(&self, name: &str) -> Value {
        self.get(&format!("{CLUSTERS}/{name}")).await
    }

    /// What a cluster has: `nodes`, `events` or `actions`.
    pub(crate) async fn list(&self, name: &str, what: &str) -> Vec<Value> {
        let list = self.get(&format!("{CLUSTERS}/{name}/{what}")).await;
        list[what].as_array().cloned().unwrap_or_default()
    }

    /// The workers of a cluster by name.
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
        let folder = self.data().join("local").join(text("clusterId")).join(text("id"));
        Member {
            name: text("name"),
            state: text("state"),
            reason: text("statusReason"),
            pid: text("physicalId").parse().ok(),
            folder,
        }
    }

    /// What is told of a cluster with this word, oldest first.
    pub(crate) async fn told(&self, name: &str, reason: &str) -> Vec<String> {
        let events = self.list(name, "events").await;
        let told = events.iter().filter(|event| event["reason"] == reason);
        told.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Looks at a cluster until it is as it should be.
    pub(crate) async fn until(&self, name: &str, good: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let seen = async {
            loop {
                last = self.cluster(name).await;
                if good(&last) {
                    return;
                }
                tokio::time::sleep(SOON).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, seen).await;
        assert!(in_time.is_ok(), "{last:#}\n{}", self.words());
        last
    }

    /// Waits until so many workers work and no action is under way.
    pub(crate) async fn until_active(&self, name: &str, workers: u32) -> Value {
        self.until(name, |cluster| state(cluster) == "ACTIVE" && cluster["readyWorkers"] == workers).await
    }

    /// Waits until an action of this kind has ended, and shows the last one.
    pub(crate) async fn until_ended(&self, name: &str, kind: &str, count: usize) -> Value {
        let ended = async {
            loop {
                let path = format!("{CLUSTERS}/{name}/actions?action={kind}");
                let actions = self.get(&path).await["actions"].as_array().cloned().unwrap_or_default();
                let done: Vec<&Value> =
                    actions.iter().filter(|action| !action["endedAt"].is_null()).collect();
                let newest = done.iter().max_by_key(|action| action["endedAt"].as_str());
                if let Some(newest) = newest.filter(|_| done.len() >= count) {
                    return (**newest).clone();
                }
                tokio::time::sleep(SOON).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("{}", self.words()))
    }

    /// The last words of the server.
    fn words(&self) -> String {
        self.server.as_ref().map(Process::tail).unwrap_or_default()
    }

    /// Everything that there is of clusters outside the database.
    pub(crate) fn traces(&self) -> Traces {
        Traces::of(self.path(), &self.data().join("local"), self.server_pid())
    }

    /// Deletes a cluster, and looks that nothing of it is left.
    pub(crate) async fn delete_without_trace(&self, name: &str) {
        self.delete(name).await;
        self.traces().are_none();
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        drop(self.server.take());
        let traces = self.traces();
        traces.kill();
        if !std::thread::panicking() {
            traces.are_none();
        }
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

    /// What its shim has written down.
    pub(crate) fn state_file(&self) -> PathBuf {
        self.folder.join("state.json")
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

/// A cluster of Dask.
pub(crate) fn dask(name: &str, workers: u32) -> Value {
    json!({
        "name": name,
        "framework": "dask",
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": workers}]},
    })
}

/// A cluster of any command.
pub(crate) fn processes(name: &str, workers: u32, properties: &Value) -> Value {
    json!({
        "name": name,
        "profile": "local.process-1.0",
        "profile_properties": properties,
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": workers}]},
    })
}

/// A cluster of commands that do nothing for long.
pub(crate) fn sleepers(name: &str, workers: u32) -> Value {
    processes(name, workers, &json!({"command": ["sleep", "1000"]}))
}

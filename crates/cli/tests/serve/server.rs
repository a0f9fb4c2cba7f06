//! A `muster serve` process for a test, with its own folder and ports; it ends with the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use muster_testkit::{Process, ProcessFolder};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

/// Bound of all waits, far longer than they take; only a hang reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    process: Process,
    folder: ProcessFolder,
    data: PathBuf,
    arguments: Vec<String>,
    pub(crate) rest: String,
    pub(crate) grpc: String,
    pub(crate) token: Option<String>,
    client: reqwest::Client,
}

impl Server {
    /// Starts a development server: simulated nodes, no authentication.
    pub(crate) async fn dev() -> Self {
        Self::start(&["--dev"]).await
    }

    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::start_in(folder, arguments).await
    }

    pub(crate) async fn start_in(folder: impl Into<ProcessFolder>, arguments: &[&str]) -> Self {
        let folder = folder.into();
        let data = folder.path().join("data");
        Self::start_on(folder, data, arguments).await
    }

    /// Starts a server with another data folder.
    pub(crate) async fn start_on(
        folder: impl Into<ProcessFolder>,
        data: PathBuf,
        arguments: &[&str],
    ) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let process = spawn_on(&data, &arguments);
        process.wait_for_line("serving", TIMEOUT).await;
        let announced = std::fs::read(data.join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        let address = |key: &str| format!("http://{}", announced[key].as_str().expect("an address"));
        let (rest, grpc) = (address("rest"), address("grpc"));
        // The server closes connections that are idle for 30 s, perhaps while a request is being sent.
        let client = reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(10));
        let client = client.build().expect("a client");
        Self { process, folder: folder.into(), data, arguments, rest, grpc, token: None, client }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Kills it, and starts it again on the same folder.
    pub(crate) async fn kill_and_start_again(self) -> Self {
        self.killed().await.start_again().await
    }

    /// Kills it.
    pub(crate) async fn killed(mut self) -> Self {
        self.process.kill();
        self.process.wait_for_exit(TIMEOUT).await;
        self
    }

    /// Starts it again on the same folder after it has ended.
    pub(crate) async fn start_again(self) -> Self {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        Self::start_on(self.folder, self.data, &arguments).await
    }

    /// Stops it, and starts it on the same folder with other arguments.
    pub(crate) async fn start_again_with(mut self, arguments: &[&str]) -> Self {
        self.stop().await;
        Self::start_on(self.folder, self.data, arguments).await
    }

    /// Waits for the first log line with these words.
    pub(crate) async fn wait_for_log(&self, words: &str) -> String {
        self.process.wait_for_line(words, TIMEOUT).await
    }

    /// Returns its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).expect("a log")
    }

    /// Calls a probe and returns status and body.
    pub(crate) async fn probe(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(format!("{}{path}", self.rest)).send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json().await.expect("probes answer in JSON"))
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) async fn stop(&mut self) -> std::process::ExitStatus {
        self.process.terminate();
        self.process.wait_for_exit(TIMEOUT).await
    }

    /// Waits until the server has ended, with the builds that it ran: they would write to its folder while it is removed.
    pub(crate) async fn wait_for_end(mut self) {
        self.process.wait_for_exit_of_all(TIMEOUT).await;
    }

    /// Returns the URL of a path of the core API.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/apis/v1alpha2{path}", self.rest)
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        self.call_at(method, &format!("/apis/v1alpha2{path}"), body).await
    }

    /// Calls a path of any API.
    pub(crate) async fn call_at(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let mut request = self.client.request(method, format!("{}{path}", self.rest));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.expect("the server answers")
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.call(Method::GET, path, None).await;
        assert_eq!(response.status(), StatusCode::OK, "GET {path}");
        response.json().await.expect("JSON")
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let response = self.call(Method::POST, path, Some(body)).await;
        let status = response.status();
        let text = response.text().await.expect("a body");
        assert_eq!(status, StatusCode::OK, "POST {path}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Sends a request that must be refused; returns status, code and message.
    pub(crate) async fn refusal(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, String, String) {
        let response = self.call(method, path, body).await;
        let status = response.status().as_u16();
        let body: Value = response.json().await.expect("a refusal is JSON");
        assert_eq!(body["error"], body["message"], "{body}");
        let word = body["details"][0]["reason"].as_str().unwrap_or_default().to_owned();
        (status, word, body["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Creates a cluster of simulated nodes and waits until it is active.
    pub(crate) async fn create(&self, name: &str, workers: u32) -> Value {
        let path = "/namespaces/demo/clusters?wait_for=reached";
        self.post(path, cluster(name, workers)).await
    }

    /// Runs a command against this server.
    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Returns a command against this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(arguments).env("MUSTER_DATA_DIR", self.data()).env_remove("MUSTER_SERVER");
        command.env("MUSTER_NO_AUTOSTART", "1");
        command
    }
}

/// Starts a server without waiting for it.
pub(crate) fn spawn(folder: &tempfile::TempDir, arguments: &[String]) -> Process {
    spawn_on(&folder.path().join("data"), arguments)
}

fn spawn_on(data: &Path, arguments: &[String]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(data).args(arguments);
    Process::spawn("muster", &command)
}

pub(crate) fn cluster(name: &str, workers: u32) -> Value {
    json!({
        "name": name,
        "profile": "simulated.node-1.0",
        "cluster_spec": {"worker_group_spec": [{"group_name": "small", "replicas": workers}]},
    })
}

/// Returns a cluster whose nodes take this many seconds to start.
pub(crate) fn slow_cluster(name: &str, workers: u32, seconds: u32) -> Value {
    let mut cluster = cluster(name, workers);
    cluster["profile_properties"] = json!({"metadata": {"simulated_wait_time": seconds}});
    cluster
}

//! A `muster serve` of the test's own: own folder, own ports, gone at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use muster_testkit::Process;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

/// Longer than anything here takes; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    process: Process,
    folder: tempfile::TempDir,
    data: PathBuf,
    arguments: Vec<String>,
    pub(crate) rest: String,
    pub(crate) grpc: String,
    pub(crate) token: Option<String>,
    client: reqwest::Client,
}

impl Server {
    /// A server for development: simulated nodes, nobody is asked.
    pub(crate) async fn dev() -> Self {
        Self::start(&["--dev"]).await
    }

    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::start_in(folder, arguments).await
    }

    pub(crate) async fn start_in(folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        let data = folder.path().join("data");
        Self::start_on(folder, data, arguments).await
    }

    /// A server whose data folder is elsewhere.
    pub(crate) async fn start_on(folder: tempfile::TempDir, data: PathBuf, arguments: &[&str]) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let process = spawn_on(&data, &arguments);
        process.wait_for_line("serving", PATIENCE).await;
        let announced = std::fs::read(data.join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        let address = |key: &str| format!("http://{}", announced[key].as_str().expect("an address"));
        let (rest, grpc) = (address("rest"), address("grpc"));
        Self { process, folder, data, arguments, rest, grpc, token: None, client: reqwest::Client::new() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Ends it as a power cut would, and starts it again on the same folder.
    pub(crate) async fn kill_and_start_again(self) -> Self {
        self.killed().await.start_again().await
    }

    /// Ends it as a power cut would.
    pub(crate) async fn killed(mut self) -> Self {
        self.process.kill();
        self.process.wait_for_exit(PATIENCE).await;
        self
    }

    /// Starts it again on the same folder, once it has ended.
    pub(crate) async fn start_again(self) -> Self {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        Self::start_on(self.folder, self.data, &arguments).await
    }

    /// Ends it, and starts it on the same folder with other arguments.
    pub(crate) async fn start_again_with(mut self, arguments: &[&str]) -> Self {
        self.stop().await;
        Self::start_on(self.folder, self.data, arguments).await
    }

    /// The first line of its log with these words.
    pub(crate) async fn says(&self, words: &str) -> String {
        self.process.wait_for_line(words, PATIENCE).await
    }

    /// All of its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).expect("a log")
    }

    /// What a probe answers: status and body.
    pub(crate) async fn probe(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(format!("{}{path}", self.rest)).send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json().await.expect("probes answer in JSON"))
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) -> std::process::ExitStatus {
        self.process.terminate();
        self.process.wait_for_exit(PATIENCE).await
    }

    /// The address of a path of the core API.
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

    /// What a refusal says: its status, its word and its sentence.
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

    /// A cluster of simulated nodes, up.
    pub(crate) async fn create(&self, name: &str, workers: u32) -> Value {
        let path = "/namespaces/demo/clusters?wait_for=reached";
        self.post(path, cluster(name, workers)).await
    }

    /// The command line against this server.
    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(arguments).env("MUSTER_DATA_DIR", self.data()).env_remove("MUSTER_SERVER");
        command.env("MUSTER_NO_AUTOSTART", "1");
        command.output().expect("the binary runs")
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

/// A cluster whose nodes take so many seconds to come up.
pub(crate) fn slow_cluster(name: &str, workers: u32, seconds: u32) -> Value {
    let mut cluster = cluster(name, workers);
    cluster["profile_properties"] = json!({"metadata": {"simulated_wait_time": seconds}});
    cluster
}

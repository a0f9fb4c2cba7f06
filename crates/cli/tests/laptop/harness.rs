//! The harness of these tests: a server with its own data and runtime folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_testkit::Process;
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

use crate::traces::{self, Traces};

/// Bound of all waits, far longer than they take even on a busy machine; only a hang reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

/// A server, its folders and its processes. Dropping it asserts that nothing of them is left.
pub(crate) struct Harness {
    server: Option<Process>,
    variables: Vec<(String, String)>,
    runtime: PathBuf,
    rest: String,
    client: reqwest::Client,
    folder: TempDir,
}

impl Harness {
    /// Starts a server without any framework.
    pub(crate) async fn bare() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with Dask; `None` if the test is skipped.
    pub(crate) async fn with_dask() -> Option<(Self, muster_testkit::Python)> {
        Self::with_framework("dask").await
    }

    /// Starts a server with this framework; `None` if the test is skipped.
    pub(crate) async fn with_framework(name: &str) -> Option<(Self, muster_testkit::Python)> {
        let python = muster_testkit::python(name).await?;
        let path = python.path().display().to_string();
        Some((Self::with(&[("MUSTER_PYTHON", &path)]).await, python))
    }

    /// Starts a server with these environment variables.
    pub(crate) async fn with(variables: &[(&str, &str)]) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let mut harness = Self {
            server: None,
            variables: variables.collect(),
            runtime: folder.path().join("run"),
            rest: String::new(),
            client: reqwest::Client::new(),
            folder,
        };
        harness.start().await;
        harness
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The address of the REST API.
    pub(crate) fn rest(&self) -> &str {
        &self.rest
    }

    /// Starts a server on the folders of the last one.
    pub(crate) async fn start(&mut self) {
        std::fs::create_dir_all(&self.runtime).expect("a runtime folder");
        let server = self.spawn();
        server.wait_for_line("serving", TIMEOUT).await;
        let announced = std::fs::read(self.data().join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        self.rest = format!("http://{}", announced["rest"].as_str().expect("an address"));
        self.server = Some(server);
    }

    fn spawn(&self) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(["serve", "--dev", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.data()).env("XDG_RUNTIME_DIR", &self.runtime);
        // All processes that the server starts inherit it, so that none is missed.
        command.env(traces::MARK, self.path()).env_remove("MUSTER_PYTHON").env_remove("VIRTUAL_ENV");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Process::spawn("muster", &command)
    }

    /// Kills the server.
    pub(crate) async fn kill(&mut self) {
        let mut server = self.server.take().expect("a server");
        server.kill();
        server.wait_for_exit(TIMEOUT).await;
    }

    pub(crate) async fn kill_and_start_again(&mut self) {
        self.kill().await;
        self.start().await;
    }

    /// Runs a command in the namespace of the tests and returns its output.
    pub(crate) fn muster(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(arguments).env("MUSTER_DATA_DIR", self.data()).env("MUSTER_NAMESPACE", "demo");
        let output = command.env("MUSTER_NO_AUTOSTART", "1").output().expect("muster runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Changes the runtime folder of the next server, and returns the old one.
    pub(crate) fn move_runtime_folder(&mut self) -> PathBuf {
        std::mem::replace(&mut self.runtime, self.folder.path().join("elsewhere"))
    }

    pub(crate) fn server_pid(&self) -> Option<i32> {
        self.server.as_ref()?.id()?.try_into().ok()
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        self.try_call(method, path, body).await.expect("the server answers")
    }

    /// Calls a server that may be killed meanwhile.
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

    pub(crate) async fn answer(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let response = self.call(method, path, body).await;
        let status = response.status();
        let text = response.text().await.expect("a body");
        assert_eq!(status, StatusCode::OK, "{path}: {text}\n{}", self.log_tail());
        serde_json::from_str(&text).expect("JSON")
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.answer(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.answer(Method::POST, path, Some(body)).await
    }

    /// The last lines of the server's log.
    pub(crate) fn log_tail(&self) -> String {
        self.server.as_ref().map(Process::tail).unwrap_or_default()
    }

    /// Lists everything of clusters outside the database.
    pub(crate) fn traces(&self) -> Traces {
        Traces::find(self.path(), &self.data().join("local"), self.server_pid())
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        drop(self.server.take());
        let traces = self.traces();
        traces.kill();
        for link in traces::short_folders(&self.data().join("local")) {
            drop(std::fs::remove_file(link));
        }
        if !std::thread::panicking() {
            traces.assert_none();
        }
    }
}

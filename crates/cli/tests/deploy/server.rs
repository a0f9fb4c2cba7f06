//! A `muster serve` process for a test.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use muster_testkit::Process;
use reqwest::Method;
use serde_json::Value;

/// Bound of a start, far longer than it takes; only a hang reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct Server {
    process: Process,
    folder: tempfile::TempDir,
    client: reqwest::Client,
    pub(crate) rest: String,
    pub(crate) grpc: String,
    pub(crate) token: String,
}

/// Adds the arguments that serve on free ports, and returns the data folder.
fn serve(command: &mut Command, folder: &tempfile::TempDir, arguments: &[&str]) -> PathBuf {
    let data = folder.path().join("data");
    command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(&data).args(arguments);
    data
}

/// Starts a server that must fail, outside of a pod; returns its exit code and output.
pub(crate) async fn refused(folder: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    serve(command.env_remove("KUBERNETES_SERVICE_HOST"), folder, arguments);
    let mut command = tokio::process::Command::from(command);
    let ended = tokio::time::timeout(TIMEOUT, command.kill_on_drop(true).output()).await;
    let ended = ended.expect("it ends in time").expect("it runs");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

impl Server {
    /// Starts a server on a data folder. Callers use the token of its user unless given another.
    pub(crate) async fn start(folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_muster")), folder, arguments).await
    }

    /// Starts a server with a prepared command.
    pub(crate) async fn start_by(
        mut command: Command,
        folder: tempfile::TempDir,
        arguments: &[&str],
    ) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let data = serve(&mut command, &folder, arguments);
        let process = Process::spawn("muster", &command);
        process.wait_for_line("serving", TIMEOUT).await;
        let announced = std::fs::read(data.join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        let address = |key: &str| format!("http://{}", announced[key].as_str().expect("an address"));
        let token = std::fs::read_to_string(data.join("token")).unwrap_or_default().trim().to_owned();
        let (rest, grpc, client) = (address("rest"), address("grpc"), reqwest::Client::new());
        Self { process, folder, client, rest, grpc, token }
    }

    /// Stops it and returns its folder for the next one.
    pub(crate) async fn stopped(mut self) -> tempfile::TempDir {
        self.process.terminate();
        self.process.wait_for_exit(TIMEOUT).await;
        self.folder
    }

    /// Waits for the first log line with these words.
    pub(crate) async fn wait_for_log(&self, words: &str) -> String {
        self.process.wait_for_line(words, TIMEOUT).await
    }

    /// Returns status and body.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut request =
            self.client.request(method, format!("{}{path}", self.rest)).bearer_auth(&self.token);
        request = request.header("openstack-api-version", "clustering 1.14");
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.expect("the server answers");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a body");
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Calls the core API, which must succeed, and returns the body.
    pub(crate) async fn core(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.call(method.clone(), &format!("/apis/v1alpha2{path}"), body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// Waits until a watch reports a cluster of this name.
    pub(crate) async fn discovered(&self, namespace: &str, name: &str) -> Value {
        let url = format!("{}/apis/v1alpha2/namespaces/{namespace}/clusters:watch", self.rest);
        let mut watch = self.client.get(url).bearer_auth(&self.token).send().await.expect("a watch");
        let mut rest = String::new();
        let mut seen = String::new();
        let discovered = async {
            loop {
                while let Some(end) = rest.find('\n') {
                    let line: String = rest.drain(..=end).collect();
                    let message: Value = serde_json::from_str(&line).expect("JSON");
                    if message["cluster"]["name"] == name {
                        return message["cluster"].clone();
                    }
                    seen.push_str(&line);
                }
                let chunk = watch.chunk().await.expect("a whole stream").expect("the stream is open");
                rest.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        let in_time = tokio::time::timeout(TIMEOUT, discovered).await;
        in_time.unwrap_or_else(|_| panic!("the watch does not report {name}, only:\n{seen}"))
    }

    /// Runs a command against this server.
    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(arguments).env("MUSTER_DATA_DIR", self.folder.path().join("data"));
        command.env_remove("MUSTER_SERVER").env("MUSTER_NO_AUTOSTART", "1").output().expect("the binary runs")
    }
}

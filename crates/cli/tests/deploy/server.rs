//! A `muster serve` of the test's own.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use muster_testkit::Process;
use reqwest::Method;
use serde_json::Value;

/// Longer than a start takes; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Server {
    process: Process,
    folder: tempfile::TempDir,
    client: reqwest::Client,
    pub(crate) rest: String,
    pub(crate) grpc: String,
    pub(crate) token: String,
}

/// Has a command that runs the binary serve on free ports; where its data is.
fn serve(command: &mut Command, folder: &tempfile::TempDir, arguments: &[&str]) -> PathBuf {
    let data = folder.path().join("data");
    command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(&data).args(arguments);
    data
}

/// What a server ends with that cannot start outside of a pod: its exit code, and what it says.
pub(crate) async fn refused(folder: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    serve(command.env_remove("KUBERNETES_SERVICE_HOST"), folder, arguments);
    let mut command = tokio::process::Command::from(command);
    let ended = tokio::time::timeout(PATIENCE, command.kill_on_drop(true).output()).await;
    let ended = ended.expect("it ends in time").expect("it runs");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

impl Server {
    /// With a folder for its data, and these arguments. Callers have the token of its user unless they are given another.
    pub(crate) async fn start(folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_muster")), folder, arguments).await
    }

    /// The same by a command that runs the binary.
    pub(crate) async fn start_by(
        mut command: Command,
        folder: tempfile::TempDir,
        arguments: &[&str],
    ) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let data = serve(&mut command, &folder, arguments);
        let process = Process::spawn("muster", &command);
        process.wait_for_line("serving", PATIENCE).await;
        let announced = std::fs::read(data.join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        let address = |key: &str| format!("http://{}", announced[key].as_str().expect("an address"));
        let token = std::fs::read_to_string(data.join("token")).unwrap_or_default().trim().to_owned();
        let (rest, grpc, client) = (address("rest"), address("grpc"), reqwest::Client::new());
        Self { process, folder, client, rest, grpc, token }
    }

    /// Ends it; its folder, for the next one.
    pub(crate) async fn stopped(mut self) -> tempfile::TempDir {
        self.process.terminate();
        self.process.wait_for_exit(PATIENCE).await;
        self.folder
    }

    /// The first line of its log with these words.
    pub(crate) async fn says(&self, words: &str) -> String {
        self.process.wait_for_line(words, PATIENCE).await
    }

    /// Status and body.
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

    /// The body of an answer of the core API that is no refusal.
    pub(crate) async fn core(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.call(method.clone(), &format!("/apis/v1alpha2{path}"), body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// A cluster of this name as soon as a watch tells of it.
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
                let chunk = watch.chunk().await.expect("a whole stream").expect("it goes on");
                rest.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, discovered).await;
        in_time.unwrap_or_else(|_| panic!("the watch does not report {name}, only:\n{seen}"))
    }

    /// The command line against this server.
    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(arguments).env("MUSTER_DATA_DIR", self.folder.path().join("data"));
        command.env_remove("MUSTER_SERVER").env("MUSTER_NO_AUTOSTART", "1").output().expect("the binary runs")
    }
}

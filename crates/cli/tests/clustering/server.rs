//! A server with the clustering API, and a client of it.

use std::process::Command;
use std::time::Duration;

pub(crate) use muster_testkit::DatabaseKind as Kind;
use muster_testkit::{Process, eventually};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

/// Bound of all waits, far longer than they take; only a hang reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A response: status, headers and body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the message of a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }

    /// Returns status, class and message of a refusal.
    pub(crate) fn refusal(&self) -> (u16, &str, &str) {
        (self.status, self.body["error"]["type"].as_str().unwrap_or_default(), self.message())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the id of the action in the answer.
    pub(crate) fn action(&self) -> String {
        let location = self.header("location");
        location.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// A server with its own folder, ports and database; it ends with the test.
pub(crate) struct Server {
    process: Process,
    folder: tempfile::TempDir,
    _database: Option<muster_testkit::Database>,
    client: reqwest::Client,
    pub(crate) base: String,
    pub(crate) token: Option<String>,
    version: String,
}

impl Server {
    /// Starts a development server without authentication; `None` if the database is not available.
    pub(crate) async fn start(database: Kind) -> Option<Self> {
        Self::start_with(database, &[], |_| {}).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::start(Kind::Sqlite).await.expect("SQLite is always there")
    }

    /// Starts a development server with more arguments and with the files that `prepare` writes into its folder.
    pub(crate) async fn start_with(
        database: Kind,
        arguments: &[&str],
        prepare: impl Fn(&std::path::Path),
    ) -> Option<Self> {
        Self::launch(database, &[&["--dev"], arguments].concat(), prepare).await
    }

    /// Starts a server outside of development mode, called by the user that runs it.
    pub(crate) async fn strict(arguments: &[&str]) -> Self {
        let mut server = Self::launch(Kind::Sqlite, arguments, |_| {}).await.expect("SQLite is available");
        let token = std::fs::read_to_string(server.folder.path().join("data/token")).expect("a token");
        server.token = Some(token.trim().to_owned());
        server
    }

    /// Starts a server with exactly these arguments, and with the files that `prepare` writes into its folder.
    pub(crate) async fn launch(
        database: Kind,
        arguments: &[&str],
        prepare: impl Fn(&std::path::Path),
    ) -> Option<Self> {
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(folder.path());
        let data = folder.path().join("data");
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.current_dir(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(&data).args(arguments);
        let database = match database {
            Kind::Sqlite => None,
            Kind::Postgres => {
                let database = muster_testkit::postgres().await?.database().await;
                command.args(["--database-url", database.url()]);
                Some(database)
            }
        };
        let process = Process::spawn("muster", &command);
        process.wait_for_line("serving", TIMEOUT).await;
        let announced = std::fs::read(data.join("server.json")).expect("an announcement");
        let announced: Value = serde_json::from_slice(&announced).expect("JSON");
        let base = format!("http://{}", announced["rest"].as_str().expect("an address"));
        Some(Self {
            process,
            folder,
            _database: database,
            client: reqwest::Client::new(),
            base,
            token: None,
            version: "clustering latest".to_owned(),
        })
    }

    /// Replaces a file in the folder in which the server was started.
    pub(crate) fn write_file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("a file");
    }

    /// Waits for the first log line with these words.
    pub(crate) async fn wait_for_log(&self, words: &str) -> String {
        self.process.wait_for_line(words, TIMEOUT).await
    }

    /// Waits until the server has logged this many such lines.
    pub(crate) async fn wait_for_lines(&self, text: &str, count: usize) {
        eventually(&format!("{count} lines with {text:?}"), TIMEOUT, async || {
            let log = std::fs::read_to_string(self.process.log()).expect("a log");
            if log.matches(text).count() >= count { Ok(()) } else { Err(log) }
        })
        .await;
    }

    /// Sets the API version of the next requests.
    pub(crate) fn set_version(&mut self, version: &str) -> &mut Self {
        version.clone_into(&mut self.version);
        self
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let text = body.map(|body| body.to_string());
        self.send_text(method, &format!("/clustering/v1{path}"), text, "application/json").await
    }

    pub(crate) async fn send_text(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        content_type: &str,
    ) -> Answer {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if !self.version.is_empty() {
            request = request.header("openstack-api-version", &self.version);
        }
        if let Some(token) = &self.token {
            request = request.header("x-auth-token", token);
        }
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, content_type).body(body);
        }
        let answer = request.send().await.expect("the server answers");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.expect("a body");
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status, headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    /// Creates a profile of simulated nodes.
    pub(crate) async fn profile(&self, name: &str) -> String {
        self.profile_with(name, json!({"flavor": "small"})).await
    }

    pub(crate) async fn profile_with(&self, name: &str, properties: Value) -> String {
        let spec = json!({"type": "simulated.node", "version": "1.0", "properties": properties});
        let made = self.post("/profiles", json!({"profile": {"name": name, "spec": spec}})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["profile"]["id"].as_str().expect("an id").to_owned()
    }

    /// Creates a cluster of simulated nodes and waits for the end of its creation.
    pub(crate) async fn cluster(&self, name: &str, mut fields: Value) -> Value {
        if fields.get("profile_id").is_none() {
            fields["profile_id"] = self.profile(&format!("{name}-profile")).await.into();
        }
        fields["name"] = name.into();
        let made = self.post("/clusters", json!({"cluster": fields})).await;
        assert_eq!(made.status, 202, "{}", made.body);
        self.wait_for_end(&made.action()).await;
        let id = made.body["cluster"]["id"].as_str().expect("an id").to_owned();
        self.get(&format!("/clusters/{id}")).await.body["cluster"].clone()
    }

    /// Waits until an action has ended.
    pub(crate) async fn wait_for_end(&self, id: &str) -> Value {
        eventually("the end of an action", TIMEOUT, async || {
            let shown = self.get(&format!("/actions/{id}")).await;
            assert_eq!(shown.status, StatusCode::OK.as_u16(), "{}", shown.body);
            let action = shown.body["action"].clone();
            let status = action["status"].as_str().unwrap_or_default();
            if ["SUCCEEDED", "FAILED", "CANCELLED"].contains(&status) { Ok(action) } else { Err(action) }
        })
        .await
    }

    /// Waits until a resource has this status.
    pub(crate) async fn until(&self, path: &str, key: &str, status: &str) {
        eventually(&format!("the status {status} of {path}"), TIMEOUT, async || {
            let shown = self.get(path).await.body[key]["status"].clone();
            if shown == status { Ok(()) } else { Err(shown) }
        })
        .await;
    }

    /// Creates a policy and attaches it to a cluster; returns the action.
    pub(crate) async fn attach_new(&self, cluster: &Value, name: &str, spec: Value) -> Value {
        let made = self.post("/policies", json!({"policy": {"name": name, "spec": spec}})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        self.act(cluster, json!({"policy_attach": {"policy_id": made.body["policy"]["id"]}})).await
    }

    /// Executes an operation on a cluster and waits for its end.
    pub(crate) async fn act(&self, cluster: &Value, operation: Value) -> Value {
        let id = cluster["id"].as_str().expect("an id");
        let accepted = self.post(&format!("/clusters/{id}/actions"), operation).await;
        assert_eq!(accepted.status, 202, "{}", accepted.body);
        self.wait_for_end(&accepted.action()).await
    }
}

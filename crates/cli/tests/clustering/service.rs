//! A server with the clustering API, and a client that speaks it.

use std::process::Command;
use std::time::Duration;

pub(crate) use muster_testkit::DatabaseKind as Kind;
use muster_testkit::{Process, eventually};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

/// Longer than anything here takes; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An answer: its status, its headers, its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The text of a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }

    /// Status, class and text of a refusal.
    pub(crate) fn refusal(&self) -> (u16, &str, &str) {
        (self.status, self.body["error"]["type"].as_str().unwrap_or_default(), self.message())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The action that it says to look at.
    pub(crate) fn action(&self) -> String {
        let location = self.header("location");
        location.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// A server of the test's own: own folder, own ports, own database, gone at the end.
pub(crate) struct Service {
    process: Process,
    folder: tempfile::TempDir,
    _database: Option<muster_testkit::Database>,
    client: reqwest::Client,
    pub(crate) base: String,
    pub(crate) token: Option<String>,
    version: String,
}

impl Service {
    /// A server for development, where nobody is asked; none where there is no such database.
    pub(crate) async fn start(database: Kind) -> Option<Self> {
        Self::start_with(database, &[], |_| {}).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::start(Kind::Sqlite).await.expect("SQLite is always there")
    }

    /// The same with more arguments, and with what `prepare` puts into its folder.
    pub(crate) async fn start_with(
        database: Kind,
        arguments: &[&str],
        prepare: impl Fn(&std::path::Path),
    ) -> Option<Self> {
        Self::launch(database, &[&["--dev"], arguments].concat(), prepare).await
    }

    /// A server as it is outside of development, called by the user that runs it.
    pub(crate) async fn strict(arguments: &[&str]) -> Self {
        let mut service = Self::launch(Kind::Sqlite, arguments, |_| {}).await.expect("SQLite is there");
        let token = std::fs::read_to_string(service.folder.path().join("data/token")).expect("a token");
        service.token = Some(token.trim().to_owned());
        service
    }

    /// A server with just these arguments, and with what `prepare` puts into its folder.
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
        process.wait_for_line("serving", PATIENCE).await;
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

    /// The first line of its log with these words.
    pub(crate) async fn says(&self, words: &str) -> String {
        self.process.wait_for_line(words, PATIENCE).await
    }

    /// Waits until the server has written so many such lines.
    pub(crate) async fn wait_for_lines(&self, text: &str, count: usize) {
        eventually(&format!("{count} lines with {text:?}"), PATIENCE, async || {
            let log = std::fs::read_to_string(self.process.log()).expect("a log");
            if log.matches(text).count() >= count { Ok(()) } else { Err(log) }
        })
        .await;
    }

    /// The same, as a client that knows this version.
    pub(crate) fn speaks(&mut self, version: &str) -> &mut Self {
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

    /// A profile of simulated nodes.
    pub(crate) async fn profile(&self, name: &str) -> String {
        self.profile_with(name, json!({"flavor": "small"})).await
    }

    pub(crate) async fn profile_with(&self, name: &str, properties: Value) -> String {
        let spec = json!({"type": "simulated.node", "version": "1.0", "properties": properties});
        let made = self.post("/profiles", json!({"profile": {"name": name, "spec": spec}})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["profile"]["id"].as_str().expect("an id").to_owned()
    }

    /// A cluster of simulated nodes, as it is once its creation has ended.
    pub(crate) async fn cluster(&self, name: &str, mut fields: Value) -> Value {
        if fields.get("profile_id").is_none() {
            fields["profile_id"] = self.profile(&format!("{name}-profile")).await.into();
        }
        fields["name"] = name.into();
        let made = self.post("/clusters", json!({"cluster": fields})).await;
        assert_eq!(made.status, 202, "{}", made.body);
        self.ended(&made.action()).await;
        let id = made.body["cluster"]["id"].as_str().expect("an id").to_owned();
        self.get(&format!("/clusters/{id}")).await.body["cluster"].clone()
    }

    /// An action once it has ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        eventually("the end of an action", PATIENCE, async || {
            let shown = self.get(&format!("/actions/{id}")).await;
            assert_eq!(shown.status, StatusCode::OK.as_u16(), "{}", shown.body);
            let action = shown.body["action"].clone();
            let status = action["status"].as_str().unwrap_or_default();
            if ["SUCCEEDED", "FAILED", "CANCELLED"].contains(&status) { Ok(action) } else { Err(action) }
        })
        .await
    }

    /// Waits until something shows this status.
    pub(crate) async fn until(&self, path: &str, key: &str, status: &str) {
        eventually(&format!("the status {status} of {path}"), PATIENCE, async || {
            let shown = self.get(path).await.body[key]["status"].clone();
            if shown == status { Ok(()) } else { Err(shown) }
        })
        .await;
    }

    /// A new policy, attached to a cluster; how that went.
    pub(crate) async fn attached(&self, cluster: &Value, name: &str, spec: Value) -> Value {
        let made = self.post("/policies", json!({"policy": {"name": name, "spec": spec}})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        self.act(cluster, json!({"policy_attach": {"policy_id": made.body["policy"]["id"]}})).await
    }

    /// Has something done to a cluster, and waits for its end.
    pub(crate) async fn act(&self, cluster: &Value, deed: Value) -> Value {
        let id = cluster["id"].as_str().expect("an id");
        let accepted = self.post(&format!("/clusters/{id}/actions"), deed).await;
        assert_eq!(accepted.status, 202, "{}", accepted.body);
        self.ended(&accepted.action()).await
    }
}

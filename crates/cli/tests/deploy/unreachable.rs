//! A server that is started while the Kubernetes API is unreachable.

use std::path::PathBuf;
use std::process::Command;

use muster_testkit::{Component, Namespace, OwnKubernetes, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Server, TIMEOUT};

struct OutageScenario {
    // Dropped first: its Kubernetes deletes it.
    namespace: Namespace,
    own: OwnKubernetes,
    kubeconfig: PathBuf,
}

impl OutageScenario {
    async fn open() -> Option<Self> {
        let own = muster_testkit::own_kubernetes().await?;
        let namespace = own.namespace().await;
        let kubeconfig = own.kubeconfig().to_owned();
        Some(Self { namespace, own, kubeconfig })
    }

    fn arguments(&self) -> [&str; 4] {
        let kubeconfig = self.kubeconfig.to_str().expect("a plain path");
        ["--kubeconfig", kubeconfig, "--namespace", self.namespace.name()]
    }

    fn clusters(&self) -> String {
        format!("/apis/v1alpha2/namespaces/{}/clusters", self.namespace.name())
    }

    /// Creates a cluster on Kubernetes and waits for this milestone.
    async fn create(&self, server: &Server, name: &str, milestone: &str) -> Value {
        let cluster = json!({"name": name, "framework": "spark", "provider": "kubernetes",
            "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 1}]}});
        self.submit(server, &cluster, milestone).await
    }

    async fn submit(&self, server: &Server, cluster: &Value, milestone: &str) -> Value {
        let path = format!("{}?wait_for={milestone}&wait_timeout=60s", self.clusters());
        let (status, made) = server.call(Method::POST, &path, Some(cluster)).await;
        assert_eq!(status, 200, "{made}");
        made
    }

    async fn get(&self, server: &Server, path: &str) -> Value {
        server.call(Method::GET, &format!("{}/{path}", self.clusters()), None).await.1
    }

    /// Waits until the response contains these words.
    async fn until(&self, server: &Server, path: &str, words: &str) {
        eventually(&format!("{words:?} in {path}"), TIMEOUT, async || {
            let shown = self.get(server, path).await.to_string();
            if shown.contains(words) { Ok(()) } else { Err(shown) }
        })
        .await;
    }
}

#[tokio::test]
async fn a_known_kubernetes_is_waited_for_while_everything_else_works() {
    let Some(scenario) = OutageScenario::open().await else { return };
    let server = Server::start(tempfile::tempdir().unwrap(), &scenario.arguments()).await;
    assert_eq!(scenario.create(&server, "fred", "reached").await["state"], "ACTIVE");
    let folder = server.stopped().await;

    scenario.own.kill(Component::ApiServer).await;
    let server = Server::start(folder, &scenario.arguments()).await;
    let shown = scenario.get(&server, "fred").await;
    assert_eq!(shown["state"], "ACTIVE", "what is not seen is not taken for gone: {shown}");
    let local = json!({"name": "local", "provider": "local", "profile": "local.process-1.0",
        "profile_properties": {"command": ["sleep", "600"]},
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 1}]}});
    assert_eq!(scenario.submit(&server, &local, "reached").await["state"], "ACTIVE");
    scenario.create(&server, "barney", "accepted").await;
    let why = "cannot read namespace kube-system: Kubernetes API unreachable";
    scenario.until(&server, "barney/actions", why).await;

    scenario.own.start(Component::ApiServer).await;
    scenario.until(&server, "barney", r#""state":"ACTIVE""#).await;
    for name in ["local", "fred", "barney"] {
        let path = format!("{}/{name}?wait_for=reached", scenario.clusters());
        let (status, gone) = server.call(Method::DELETE, &path, None).await;
        assert_eq!(status, 200, "{gone}");
    }
}

#[tokio::test]
async fn another_kubernetes_at_the_same_address_is_refused() {
    let Some(scenario) = OutageScenario::open().await else { return };
    let server = Server::start(tempfile::tempdir().unwrap(), &scenario.arguments()).await;
    assert_eq!(scenario.create(&server, "fred", "reached").await["state"], "ACTIVE");
    let folder = server.stopped().await;

    let file = folder.path().join("data/kubernetes.json");
    let mut remembered: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    remembered["id"] = "another".into();
    std::fs::write(&file, remembered.to_string()).unwrap();
    scenario.own.kill(Component::ApiServer).await;
    let server = Server::start(folder, &scenario.arguments()).await;
    scenario.own.start(Component::ApiServer).await;
    scenario.create(&server, "barney", "accepted").await;
    let why = "is not the one of the last start (another): restart the server";
    scenario.until(&server, "barney/actions", why).await;
    // After a restart, the server knows its identity.
    let server = Server::start(server.stopped().await, &scenario.arguments()).await;
    assert_eq!(scenario.create(&server, "wilma", "reached").await["state"], "ACTIVE");
}

#[tokio::test]
async fn an_unknown_kubernetes_that_is_unreachable_is_an_error_unless_its_id_is_configured() {
    let Some(scenario) = OutageScenario::open().await else { return };
    scenario.own.kill(Component::ApiServer).await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir"]);
    let output = command.arg(folder.path().join("data")).args(scenario.arguments()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("Kubernetes is unreachable: cannot read namespace kube-system"), "{printed}");
    assert!(printed.contains("--instance-id"), "{printed}");

    let arguments = [scenario.arguments().as_slice(), &["--instance-id", "mine"]].concat();
    let server = Server::start(folder, &arguments).await;
    scenario.own.start(Component::ApiServer).await;
    assert_eq!(scenario.create(&server, "fred", "reached").await["state"], "ACTIVE");
}

//! A token that expires while the server runs.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use muster_testkit::{Component, Namespace, OwnKubernetes, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::release;
use crate::server::Server;

/// Longer than the minute for which the Kubernetes client caches a token.
const TIMEOUT: Duration = Duration::from_mins(3);

const ACCOUNT: &str = "robot";

/// Creates an account with all rights.
async fn account(own: &OwnKubernetes, namespace: &Namespace) {
    release::account(namespace, ACCOUNT).await;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace.name()}],
    }))
    .expect("a binding");
    Api::all(own.client()).create(&PostParams::default(), &binding).await.expect("it is made");
}

/// Recreates the account, which invalidates its old tokens.
async fn another_account(namespace: &Namespace) {
    let accounts = namespace.api::<ServiceAccount>();
    accounts.delete(ACCOUNT, &DeleteParams::default()).await.expect("the deletion is accepted");
    release::account(namespace, ACCOUNT).await;
}

struct ExpiryScenario {
    server: Server,
    clusters: String,
}

impl ExpiryScenario {
    async fn create(&self, name: &str) {
        let group = json!({"group_name": "default", "replicas": 1});
        let cluster =
            json!({"name": name, "framework": "spark", "cluster_spec": {"worker_group_spec": [group]}});
        let path = format!("{}?wait_for=reached&wait_timeout=60s", self.clusters);
        let made = self.server.core(Method::POST, &path, Some(&cluster)).await;
        assert_eq!(made["state"], "ACTIVE", "{made}");
    }

    async fn get(&self, path: &str) -> Value {
        self.server.core(Method::GET, path, None).await
    }

    /// Waits until the response fulfils a condition.
    async fn until(&self, what: &str, path: &str, wanted: impl Fn(&Value) -> bool) {
        eventually(what, TIMEOUT, async || {
            let shown = self.get(path).await;
            if wanted(&shown) { Ok(()) } else { Err(shown) }
        })
        .await;
    }
}

#[tokio::test]
async fn an_expired_token_is_read_again_from_its_file_and_no_change_is_missed() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let namespace = own.namespace().await;
    account(&own, &namespace).await;
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, release::token(&namespace, ACCOUNT).await).expect("written");
    let kubeconfig = release::kubeconfig_of(&own, &folder, &json!({"tokenFile": token}));
    let arguments = ["--kubeconfig", kubeconfig.to_str().expect("plain"), "--namespace", namespace.name()];
    let server = Server::start(folder, &arguments).await;
    let scenario = ExpiryScenario { server, clusters: format!("/namespaces/{}/clusters", namespace.name()) };
    scenario.create("fred").await;
    scenario.create("barney").await;

    another_account(&namespace).await;
    // Running watches continue with the old token; this restarts all of them.
    own.kill(Component::ApiServer).await;
    own.start(Component::ApiServer).await;
    let scale = json!({"replicas": 2, "wait_for": "accepted"});
    let path = format!("{}/fred/scale", scenario.clusters);
    scenario.server.core(Method::POST, &path, Some(&scale)).await;
    let actions = format!("{}/fred/actions", scenario.clusters);
    let why = "the Kubernetes API rejects the server's credentials";
    scenario.until("a reason about the credentials", &actions, |shown| shown.to_string().contains(why)).await;
    let theirs = Api::<Deployment>::namespaced(own.client(), namespace.name());
    theirs.delete("barney-m", &DeleteParams::background()).await.expect("another program deletes it");
    assert_eq!(
        scenario.get(&format!("{}/barney", scenario.clusters)).await["state"],
        "ACTIVE",
        "it is unknown"
    );

    std::fs::write(&token, release::token(&namespace, ACCOUNT).await).expect("written");
    let done = |shown: &Value| shown["readyWorkers"] == 2 && shown["state"] == "ACTIVE";
    scenario.until("resized", &format!("{}/fred", scenario.clusters), done).await;
    let one = |shown: &Value| shown["clusters"].as_array().is_some_and(|all| all.len() == 1);
    scenario.until("history", &format!("{}?deleted=only", scenario.clusters), one).await;
}

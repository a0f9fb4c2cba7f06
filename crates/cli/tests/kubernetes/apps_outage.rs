//! An app is unknown while Kubernetes does not answer, and unknown is not gone.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{DeleteParams, PostParams};
use muster_testkit::{Component, eventually};
use serde_json::json;

use crate::server::{Server, TIMEOUT};

#[tokio::test]
async fn during_an_outage_of_kubernetes_nothing_is_deleted_and_afterwards_it_is() {
    let Some(kubernetes) = muster_testkit::own_kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path").to_owned();
    let arguments =
        ["--dev", "--kubeconfig", &kubeconfig, "--namespace", namespace.name(), "--app-grace", "1"];
    let server = Server::start(&arguments).await;
    let muster = |words: &[&str]| {
        let output = server.muster(&[words, &["-n", namespace.name()]].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let labels = json!({"app": "bob"});
    let container = json!({"name": "driver", "image": "example.test/driver:1"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    let set: ReplicaSet =
        serde_json::from_value(json!({"metadata": {"name": "bob"}, "spec": spec})).expect("a ReplicaSet");
    let sets = namespace.api::<ReplicaSet>();
    sets.create(&PostParams::default(), &set).await.expect("it is accepted");
    let own = ["create", "own", "--framework", "spark", "--workers", "0", "--provider", "kubernetes"];
    let (code, printed) = muster(&[&own[..], &["--app", "rs/bob", "--ephemeral"]].concat());
    assert_eq!(code, Some(0), "{printed}");

    kubernetes.kill(Component::ApiServer).await;
    let delete = ["delete", "own", "--app", "rs/bob", "--app-status", "completed"];
    let (code, printed) = muster(&delete);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("cannot be observed, so the cluster stays"), "{printed}");
    kubernetes.start(Component::ApiServer).await;

    let (_, shown) = muster(&["get", "own"]);
    assert!(!shown.contains("DELETING") && shown.contains("own"), "{shown}");
    eventually("the ReplicaSet is deleted", TIMEOUT, async || {
        sets.delete("bob", &DeleteParams::background()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    eventually("the cluster is gone", TIMEOUT, async || match muster(&["get", "own"]) {
        (Some(4), _) => Ok(()),
        (_, printed) => Err(printed),
    })
    .await;
}

//! `muster logs` of nodes without logs.

use std::process::Output;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use muster_testkit::eventually;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

/// A cluster of one pod with this cpu request.
fn of_a_pod(cpu: &str) -> Value {
    let container =
        json!({"name": "main", "image": "example.test/it:1", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "name": "fred", "provider": "kubernetes", "profile": "kubernetes.pod-1.0",
        "profile_properties": {"template": {"spec": {"containers": [container]}}},
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 1}]},
    })
}

/// Returns exit code and message of a refusal.
fn refused(output: &Output) -> (Option<i32>, String) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Requests the log until the message appears: before the server has observed the pod, it is another one.
async fn wait_for_message(
    harness: &Harness,
    server: &Server,
    more: &[&str],
    words: &str,
) -> (Option<i32>, String) {
    eventually(&format!("{words:?}"), TIMEOUT, async || {
        let (code, why) = refused(&harness.muster(server, &[&["logs", "fred"], more].concat()));
        if why.contains(words) { Ok((code, why)) } else { Err(why) }
    })
    .await
}

#[rstest]
#[case::once(&[])]
#[case::followed(&["-f"])]
#[tokio::test]
async fn a_pending_pod_has_no_log_and_the_error_says_why(#[case] more: &[&str]) {
    let Some(harness) = Harness::with(None).await else { return };
    let server = harness.server(&[]).await;
    server.post(&format!("{}?wait_for=applied", harness.clusters()), of_a_pod("1000")).await;
    let (code, why) = wait_for_message(&harness, &server, more, "Insufficient cpu").await;
    assert_eq!(code, Some(3), "{why}");
    assert!(why.contains("has not started and has no log yet: "), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
}

#[tokio::test]
async fn a_removed_pod_has_no_log() {
    let Some(harness) = Harness::with(None).await else { return };
    let server = harness.server(&[]).await;
    server.post(&format!("{}?wait_for=reached", harness.clusters()), of_a_pod("100m")).await;
    let pods = harness.namespace.api::<Pod>();
    for pod in pods.list(&ListParams::default()).await.expect("a list") {
        pods.delete(&pod.metadata.name.expect("a name"), &DeleteParams::default())
            .await
            .expect("the deletion is accepted");
    }
    let (code, why) = wait_for_message(&harness, &server, &[], "does not exist").await;
    assert_eq!(code, Some(3), "{why}");
}

#[tokio::test]
async fn a_node_that_serves_no_logs_is_not_waited_for() {
    let Some(harness) = Harness::with(None).await else { return };
    let server = harness.server(&[]).await;
    server.post(&format!("{}?wait_for=reached", harness.clusters()), of_a_pod("100m")).await;
    // The node has no address.
    let (code, why) = refused(&harness.muster(&server, &["logs", "fred"]));
    assert_eq!(code, Some(3), "{why}");
    assert!(
        why.contains("cannot read the log of pod") && why.contains("no preferred addresses found"),
        "{why}"
    );
}

//! Faults around the end of an app: of its driver, the driver's node, and Muster's servers.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use muster_testkit::{Side, eventually};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app_harness::{AppHarness, SHORT_GRACE, labels, stateful_set};
use crate::harness::{Harness, output_of};
use crate::server::{Server, TIMEOUT};

/// A fault of a driver's pod.
#[derive(Debug, Clone, Copy)]
enum Fault {
    OutOfMemory,
    NodeLost,
}

impl Fault {
    /// Writes the pod status that the kubelet or the pod garbage collector would write.
    async fn apply(self, harness: &AppHarness, pod: &str) {
        let pods = harness.harness.namespace.api::<Pod>();
        let found = pods.get(pod).await.expect("a pod");
        let is_restarted = found.spec.and_then(|spec| spec.restart_policy).as_deref() == Some("Always");
        let ended = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let container = json!({"name": "driver", "image": "i", "imageID": "i", "ready": false,
            "restartCount": u8::from(is_restarted),
            "state": if is_restarted { json!({"waiting": {"reason": "CrashLoopBackOff"}}) } else { ended.clone() },
            "lastState": if is_restarted { ended } else { json!({}) }});
        let status = match self {
            Self::OutOfMemory if is_restarted => {
                json!({"phase": "Running", "containerStatuses": [container]})
            }
            Self::OutOfMemory => json!({"phase": "Failed", "containerStatuses": [container]}),
            Self::NodeLost => json!({"phase": "Failed", "reason": "NodeLost", "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]}),
        };
        let patch = Patch::Merge(json!({"status": status}));
        pods.patch_status(pod, &PatchParams::default(), &patch).await.expect("a status");
        if matches!(self, Self::NodeLost) {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            pods.delete(pod, &now).await.expect("it is deleted");
        }
    }
}

impl AppHarness {
    /// Creates a bare pod, which is not restarted.
    async fn bare_pod(&self, name: &str) {
        let container = json!({"name": "driver", "image": "example.test/driver:1"});
        let pod = json!({"metadata": {"name": name, "labels": labels(name)},
            "spec": {"restartPolicy": "Never", "containers": [container]}});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        self.harness.namespace.api::<Pod>().create(&PostParams::default(), &pod).await.expect("a pod");
    }
}

#[rstest]
#[case::out_of_memory(Fault::OutOfMemory)]
#[case::node_lost(Fault::NodeLost)]
#[tokio::test]
async fn a_restarted_driver_keeps_its_cluster_and_one_that_does_not_return_loses_it(#[case] fault: Fault) {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    harness.bare_pod("ann").await;
    output_of(&harness.create("bobs", &["--app", "bob", "--ephemeral"]));
    output_of(&harness.create("anns", &["--app", "pod/ann", "--ephemeral"]));
    let driver = harness.pod_of("bob").await;
    fault.apply(&harness, &driver).await;
    fault.apply(&harness, "ann").await;
    harness.wait_until_deleted("anns").await;
    // The fault of the other one was earlier.
    harness.assert_exists("bobs");
    let next = harness.pod_of("bob").await;
    let shown = output_of(&harness.muster(&["get", "--app", &next, "-o", "name"]));
    assert!(shown.contains("bobs"), "the next driver finds the cluster: {shown}");
    harness.close().await;
}

#[tokio::test]
async fn a_cluster_stays_while_pods_that_outlive_their_app_run() {
    let Some(harness) = AppHarness::open().await else { return };
    let sets = harness.harness.namespace.api::<StatefulSet>();
    sets.create(&PostParams::default(), &stateful_set("bob")).await.expect("a StatefulSet");
    harness.pod_of("bob").await;
    output_of(&harness.create("bobs", &["--app", "bob", "--ephemeral"]));
    harness.deployment("ann").await;
    output_of(&harness.create("anns", &["--app", "ann", "--ephemeral"]));
    output_of(&harness.create("shared", &[]));
    output_of(&harness.muster(&["app", "attach", "deploy/ann", "--cluster", "shared"]));
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    sets.delete("bob", &orphan).await.expect("it is deleted");
    eventually("the StatefulSet is gone", TIMEOUT, async || {
        let found = sets.get_opt("bob").await.expect("an answer");
        if found.is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
    harness.scale("ann", 0).await;
    harness.end_pods_of("ann").await;
    harness.wait_until_deleted("anns").await;
    // The fault of the other one was earlier, and its grace as short.
    harness.assert_exists("bobs");
    let deployments = harness.harness.namespace.api::<Deployment>();
    deployments.delete("ann", &DeleteParams::background()).await.expect("it is deleted");
    eventually("an app that is gone is shown so", TIMEOUT, async || {
        let list = output_of(&harness.muster(&["app", "list", "--cluster", "shared"]));
        if list.contains("gone") && !list.contains("running") { Ok(()) } else { Err(list) }
    })
    .await;
    harness.end_pods().await;
    harness.wait_until_deleted("bobs").await;
    harness.close().await;
}

/// Lists the accepted deletions of all servers on the database.
async fn deletions(server: &Server) -> Vec<Value> {
    let actions = server.get("/actions?action=CLUSTER_DELETE").await;
    actions["actions"].as_array().cloned().unwrap_or_default()
}

#[rstest]
#[case::before_it_arrives(Side::Before)]
#[case::before_it_is_answered(Side::After)]
// Commands block a thread, and the gate is in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_survives_a_server_killed_between_decision_and_deletion(#[case] side: Side) {
    let Some(harness) = Harness::with(None).await else { return };
    let gate = harness.kubernetes.gate().await;
    let server = harness.server_through(&gate.kubeconfig(), SHORT_GRACE).await;
    let mut harness = AppHarness { harness, server };
    let set = harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    eventually("the app is marked", TIMEOUT, async || match harness.label_of(&set).await.as_deref() {
        Some("own") => Ok(()),
        label => Err(format!("{label:?}")),
    })
    .await;
    gate.open(Some((1, side)));
    harness.scale("bob", 0).await;
    harness.end_pods().await;
    timeout(TIMEOUT, gate.closed()).await.expect("the deletion is begun");
    let server = harness.server.killed().await;
    gate.open_again();
    harness.server = server.start_again().await;
    harness.wait_until_deleted("own").await;
    let deletions = deletions(&harness.server).await;
    assert_eq!(deletions.len(), 1, "{deletions:?}");
    harness.close().await;
}

#[tokio::test]
async fn of_two_servers_one_ends_a_cluster_and_the_other_takes_over() {
    let Some(harness) = Harness::with(None).await else { return };
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    let own = [SHORT_GRACE, &["--database-url", database.url()]].concat();
    let (one, other) = (harness.server(&own).await, harness.server(&own).await);
    let mut harness = AppHarness { harness, server: one };
    harness.deployment("bob").await;
    harness.deployment("ann").await;
    output_of(&harness.create("bobs", &["--app", "bob", "--ephemeral"]));
    output_of(&harness.create("anns", &["--app", "ann", "--ephemeral"]));
    harness.scale("bob", 0).await;
    harness.end_pods().await;
    harness.wait_until_deleted("bobs").await;
    assert_eq!(deletions(&other).await.len(), 1);
    // Kill either the server that observed until now, or the other one.
    let killed = harness.server.killed().await;
    harness.server = other;
    harness.scale("ann", 0).await;
    harness.end_pods().await;
    harness.wait_until_deleted("anns").await;
    assert_eq!(deletions(&harness.server).await.len(), 2);
    drop(killed);
    harness.close().await;
}

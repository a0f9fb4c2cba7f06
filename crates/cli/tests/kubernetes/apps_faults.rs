//! Faults around the end of an app: of its driver, of the driver's node, and of Muster's servers.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use muster_testkit::{Side, eventually};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::apps::{Bed, SHORT_GRACE, labels, stateful_set};
use crate::harness::{Harness, said};
use crate::server::{PATIENCE, Server};

/// What happens to a driver's pod.
#[derive(Debug, Clone, Copy)]
enum Fault {
    OutOfMemory,
    NodeLost,
}

impl Fault {
    /// Writes what the kubelet writes, or the pod garbage collector in its place.
    async fn strike(self, bed: &Bed, pod: &str) {
        let pods = bed.harness.namespace.api::<Pod>();
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

impl Bed {
    /// A driver that is not restarted.
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
async fn a_driver_that_comes_back_keeps_its_cluster_and_one_that_does_not_loses_it(#[case] fault: Fault) {
    let Some(bed) = Bed::open().await else { return };
    bed.deployment("bob").await;
    bed.bare_pod("ann").await;
    said(&bed.create("bobs", &["--app", "bob", "--ephemeral"]));
    said(&bed.create("anns", &["--app", "pod/ann", "--ephemeral"]));
    let driver = bed.pod_of("bob").await;
    fault.strike(&bed, &driver).await;
    fault.strike(&bed, "ann").await;
    bed.is_gone("anns").await;
    // What happened to the other one happened first.
    bed.is_there("bobs");
    let next = bed.pod_of("bob").await;
    let shown = said(&bed.muster(&["get", "--app", &next, "-o", "name"]));
    assert!(shown.contains("bobs"), "the next driver finds the cluster: {shown}");
    bed.close().await;
}

#[tokio::test]
async fn while_pods_that_outlive_their_app_run_its_cluster_stays() {
    let Some(bed) = Bed::open().await else { return };
    let sets = bed.harness.namespace.api::<StatefulSet>();
    sets.create(&PostParams::default(), &stateful_set("bob")).await.expect("a StatefulSet");
    bed.pod_of("bob").await;
    said(&bed.create("bobs", &["--app", "bob", "--ephemeral"]));
    bed.deployment("ann").await;
    said(&bed.create("anns", &["--app", "ann", "--ephemeral"]));
    said(&bed.create("shared", &[]));
    said(&bed.muster(&["app", "attach", "deploy/ann", "--cluster", "shared"]));
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    sets.delete("bob", &orphan).await.expect("it is deleted");
    eventually("the StatefulSet is gone", PATIENCE, async || {
        let found = sets.get_opt("bob").await.expect("an answer");
        if found.is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
    bed.scale("ann", 0).await;
    bed.end_pods_of("ann").await;
    bed.is_gone("anns").await;
    // What happened to the other one happened first, and its time was as short.
    bed.is_there("bobs");
    let deployments = bed.harness.namespace.api::<Deployment>();
    deployments.delete("ann", &DeleteParams::background()).await.expect("it is deleted");
    eventually("an app that is gone is shown so", PATIENCE, async || {
        let list = said(&bed.muster(&["app", "list", "--cluster", "shared"]));
        if list.contains("gone") && !list.contains("running") { Ok(()) } else { Err(list) }
    })
    .await;
    bed.end_pods().await;
    bed.is_gone("bobs").await;
    bed.close().await;
}

/// The deletions that were accepted, of all servers on its database.
async fn deletions(server: &Server) -> Vec<Value> {
    let actions = server.get("/actions?action=CLUSTER_DELETE").await;
    actions["actions"].as_array().cloned().unwrap_or_default()
}

#[rstest]
#[case::before_it_arrives(Side::Before)]
#[case::before_it_is_answered(Side::After)]
// Commands block a thread, and the gate is in this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_between_decision_and_deletion_is_survived_by_the_deletion(#[case] side: Side) {
    let Some(harness) = Harness::with(None).await else { return };
    let gate = harness.kubernetes.gate().await;
    let server = harness.server_through(&gate.kubeconfig(), SHORT_GRACE).await;
    let mut bed = Bed { harness, server };
    let set = bed.deployment("bob").await;
    said(&bed.create("own", &["--app", "bob", "--ephemeral"]));
    eventually("the app is marked", PATIENCE, async || match bed.label_of(&set).await.as_deref() {
        Some("own") => Ok(()),
        label => Err(format!("{label:?}")),
    })
    .await;
    gate.open(Some((1, side)));
    bed.scale("bob", 0).await;
    bed.end_pods().await;
    timeout(PATIENCE, gate.closed()).await.expect("the deletion is begun");
    let server = bed.server.killed().await;
    gate.open_again();
    bed.server = server.start_again().await;
    bed.is_gone("own").await;
    let deletions = deletions(&bed.server).await;
    assert_eq!(deletions.len(), 1, "{deletions:?}");
    bed.close().await;
}

#[tokio::test]
async fn two_servers_end_a_cluster_once_and_one_goes_on_for_the_other() {
    let Some(harness) = Harness::with(None).await else { return };
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    let own = [SHORT_GRACE, &["--database-url", database.url()]].concat();
    let (one, other) = (harness.server(&own).await, harness.server(&own).await);
    let mut bed = Bed { harness, server: one };
    bed.deployment("bob").await;
    bed.deployment("ann").await;
    said(&bed.create("bobs", &["--app", "bob", "--ephemeral"]));
    said(&bed.create("anns", &["--app", "ann", "--ephemeral"]));
    bed.scale("bob", 0).await;
    bed.end_pods().await;
    bed.is_gone("bobs").await;
    assert_eq!(deletions(&other).await.len(), 1);
    // The one that watched until now, or the other one, is killed.
    let killed = bed.server.killed().await;
    bed.server = other;
    bed.scale("ann", 0).await;
    bed.end_pods().await;
    bed.is_gone("anns").await;
    assert_eq!(deletions(&bed.server).await.len(), 2);
    drop(killed);
    bed.close().await;
}

//! The reasons of clusters that are not as they should be.

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use muster_core::action::ActionStatus;
use muster_core::cluster::{Cluster, ClusterStatus, Framework};
use muster_testkit::Operator;
use serde_json::json;

use crate::harness::Harness;

/// Waits until the reason of a cluster contains this text.
async fn until_reason_contains(harness: &Harness, cluster: &Cluster, text: &str) -> Cluster {
    let has_reason =
        async || Some(harness.cluster(cluster.id).await).filter(|row| row.status_reason.contains(text));
    harness.until(text, has_reason).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unschedulable_worker_has_the_reason_of_the_scheduler() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let mut new = harness.cluster_request(Framework::Ray, 1);
    new.0.groups[0].shape.cpu = "1000".parse().ok();
    harness.try_create(&new).await.unwrap();
    let cluster =
        until_reason_contains(&harness, &new.0, "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu")
            .await;
    assert_eq!(cluster.status, ClusterStatus::Creating);
    let published =
        async || Some(harness.events(cluster.id, "FailedScheduling").await).filter(|all| !all.is_empty());
    let events = harness.until("an event of Kubernetes", published).await;
    assert!(events[0].message.contains("3 Insufficient cpu"), "{events:?}");
    assert_eq!(events[0].object_kind.as_str(), "NODE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_named_with_its_numbers() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}},
    }))
    .unwrap();
    harness.namespace.api::<ResourceQuota>().create(&PostParams::default(), &quota).await.unwrap();
    let new = harness.cluster_request(Framework::Ray, 3);
    harness.try_create(&new).await.unwrap();
    let cluster = until_reason_contains(&harness, &new.0, "exceeded quota: few").await;
    assert!(cluster.status_reason.contains("limited: pods=2"), "{}", cluster.status_reason);
    // Some clients show the first line only, so the numbers must be in it.
    assert!(!cluster.status_reason.contains('\n'), "{}", cluster.status_reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_an_operators_refusal_is_the_reason_until_the_cause_is_removed() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let mut new = harness.cluster_request(Framework::Ray, 1);
    let recipe = json!({"head": {"env": {"REDIS_USERNAME": "fred"}}});
    new.1.properties = recipe.as_object().cloned().unwrap();
    let created = harness.try_create(&new).await.unwrap();
    let created = harness.ended(created).await;
    let words = "cannot set redis username in rayStartParams or environment variables";
    assert_eq!(created.status, ActionStatus::Failed);
    assert!(created.status_reason.contains(words), "{}", created.status_reason);
    until_reason_contains(&harness, &new.0, words).await;

    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let mut object = objects.get("fred").await.unwrap();
    let container = &mut object.data["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    container["env"] = json!([]);
    objects.replace("fred", &PostParams::default(), &object).await.unwrap();
    let active =
        async || Some(harness.cluster(new.0.id).await).filter(|row| row.status == ClusterStatus::Active);
    let row = harness.until("an active cluster", active).await;
    assert!(!row.status_reason.contains(words), "{}", row.status_reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_a_crash_loop_has_its_exit_code_as_a_reason() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let pods = harness.namespace.api::<Pod>();
    let workers = pods.list(&ListParams::default().labels("ray.io/node-type=worker")).await.unwrap();
    let name = workers.items[0].metadata.name.clone().unwrap();
    let container = json!({
        "name": "ray-worker", "image": "x", "imageID": "x", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    });
    let ready = json!({"type": "Ready", "status": "False"});
    let status = json!({"status": {"conditions": [ready], "containerStatuses": [container]}});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let row = until_reason_contains(
        &harness,
        &cluster,
        "CrashLoopBackOff: container 'ray-worker' was started 5 times",
    )
    .await;
    assert!(row.status_reason.contains("exit code 137 (OOMKilled)"), "{}", row.status_reason);
    assert_eq!(row.status, ClusterStatus::Warning);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_does_not_run_is_named() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(()) = own.custom_resources(Operator::KubeRay).await else { return };
    let Some(harness) = Harness::on((*own).clone()).await else { return };
    let new = harness.cluster_request(Framework::Ray, 1);
    harness.try_create(&new).await.unwrap();
    let words = "the KubeRay operator (rayclusters.ray.io) has not reacted to the cluster for 30 s";
    until_reason_contains(&harness, &new.0, words).await;
}

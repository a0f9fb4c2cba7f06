//! A replica whose watches lag does not report old state.

use kube::api::{DeleteParams, Patch, PatchParams};
use muster_core::action::ActionStatus;
use muster_core::cluster::{Cluster, Framework};
use muster_core::node::NodeRole;
use muster_engine::ports::provider::{
    ClusterTarget, MemberId, ObjectState, Observed, ObservedMember, Provider as _, ProviderError,
};
use muster_kube::Kubernetes;
use muster_testkit::{Gate, Operator};
use serde_json::json;

use crate::harness::Harness;

/// Observes a cluster through a replica, with the cluster's present row.
async fn observe(
    harness: &Harness,
    replica: &Kubernetes,
    cluster: &Cluster,
) -> Result<Observed, ProviderError> {
    let cluster = harness.cluster(cluster.id).await;
    let profile = harness.fresh.store.profiles_of(&[cluster.profile_id]).await.unwrap().remove(0);
    let nodes = harness.fresh.store.members(cluster.id).await.unwrap();
    replica.observe(ClusterTarget { cluster: &cluster, profile: &profile }, &nodes).await
}

/// The desired workers of the object and the number of their pods; none if there is no object.
fn workers(observed: &Observed) -> Option<(u32, usize)> {
    let ObjectState::Present(spec) = &observed.object else { return None };
    let pods = observed.members.iter().filter(|member| member.role == NodeRole::Worker).count();
    Some((spec.groups[0].desired, pods))
}

/// Creates a cluster with one worker, and a replica that has observed it and whose watches report nothing from then on.
async fn silent_replica(harness: &Harness) -> (Cluster, Gate, Kubernetes) {
    let cluster = harness.created(Framework::Ray, 1).await;
    let gate = harness.kubernetes.gate().await;
    let replica = harness.replica(&gate.kubeconfig()).await;
    let observes_one =
        async || observe(harness, &replica, &cluster).await.ok().filter(|all| workers(all) == Some((1, 1)));
    harness.until("the replica observes one worker", observes_one).await;
    gate.hold_watches();
    (cluster, gate, replica)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_another_replica_is_observed_although_the_watches_are_silent() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let (cluster, _gate, replica) = silent_replica(&harness).await;
    let resized = harness.resized(&cluster, 3).await;
    assert_eq!(resized.status, ActionStatus::Succeeded, "{}", resized.status_reason);
    let observed = observe(&harness, &replica, &cluster).await.unwrap();
    assert_eq!(workers(&observed), Some((3, 3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_resize_that_another_replica_recorded_is_observed_although_the_watches_are_silent() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let (cluster, _gate, replica) = silent_replica(&harness).await;
    let size = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}]);
    let patch = Patch::Json::<()>(serde_json::from_value(size).unwrap());
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    objects.patch("fred", &PatchParams::default(), &patch).await.unwrap();
    let is_recorded = async || (harness.cluster(cluster.id).await.groups[0].desired == 2).then_some(());
    harness.until("the size is recorded", is_recorded).await;
    let observed = observe(&harness, &replica, &cluster).await.unwrap();
    assert_eq!(workers(&observed).map(|(desired, _)| desired), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_another_replica_recorded_is_observed_although_the_watches_are_silent() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let (cluster, _gate, replica) = silent_replica(&harness).await;
    let worker = async || {
        let nodes = harness.fresh.store.members(cluster.id).await.unwrap();
        nodes.iter().find(|node| node.role == NodeRole::Worker && node.physical_id.is_some()).cloned()
    };
    let old = harness.until("a worker", worker).await;
    harness.objects(["", "v1", "Pod"]).delete(&old.name, &DeleteParams::default()).await.unwrap();
    let replaced = async || worker().await.filter(|node| MemberId::of(node) != MemberId::of(&old));
    let new = harness.until("another pod is recorded", replaced).await;
    let observed = observe(&harness, &replica, &cluster).await.unwrap();
    let is_new = |member: &ObservedMember| Some(&member.id) == MemberId::of(&new).as_ref();
    assert!(observed.members.iter().any(is_new), "{:?}", observed.members);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_another_replica_created_is_observed_although_the_watches_are_silent() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let first = harness.created(Framework::Ray, 0).await;
    let gate = harness.kubernetes.gate().await;
    let replica = harness.replica(&gate.kubeconfig()).await;
    harness.until("the replica observes", async || observe(&harness, &replica, &first).await.ok()).await;

    gate.hold_watches();
    let (cluster, profile) = harness.cluster_request(Framework::Ray, 1);
    let second =
        (Cluster { object_name: "second".to_owned(), name: "second".to_owned(), ..cluster }, profile);
    let action = harness.try_create(&second).await.unwrap();
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
    let observed = observe(&harness, &replica, &second.0).await.unwrap();
    assert_eq!(workers(&observed), Some((1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_object_is_observed_as_absent_after_a_start() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 0).await;
    let row = harness.cluster(cluster.id).await;
    let profile = harness.fresh.store.profiles_of(&[row.profile_id]).await.unwrap().remove(0);
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    objects.delete("fred", &DeleteParams::default()).await.unwrap();
    let gone = async || objects.get_opt("fred").await.unwrap().is_none().then_some(());
    harness.until("the object is gone", gone).await;
    // The watches of a replica that has just started never reported the deletion.
    let replica = harness.replica(harness.kubernetes.kubeconfig()).await;
    let target = ClusterTarget { cluster: &row, profile: &profile };
    let observed =
        harness.until("the replica observes", async || replica.observe(target, &[]).await.ok()).await;
    assert_eq!(workers(&observed), None);
}

//! Requests that arrive late: after their action was cancelled, or after its cluster was deleted.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use muster_core::action::{ActionStatus, Milestone};
use muster_core::cluster::{Cluster, Framework};
use muster_core::ids::NodeId;
use muster_core::profile::Profile;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::{Provider as _, ProviderResource};
use muster_testkit::Operator;
use rstest::rstest;
use serde_json::json;
use uuid::Uuid;

use crate::harness::Harness;
use crate::pods::{of_pods, pods};

fn of_ray(harness: &Harness, workers: u32) -> (Cluster, Profile) {
    harness.cluster_request(Framework::Ray, workers)
}

#[rstest]
#[case::pods(of_pods)]
#[case::objects_of_operators(of_ray)]
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_created_late_is_deleted_with_its_cluster(
    #[case] request: fn(&Harness, u32) -> (Cluster, Profile),
) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_) = kubernetes.operator(Operator::KubeRay).await else { return };
    let gate = kubernetes.gate().await;
    let Some(harness) = Harness::through(kubernetes, &gate).await else { return };
    let new = request(&harness, 1);
    gate.hold_writes();
    harness.try_create(&new).await.unwrap();
    gate.write_came().await;
    let delete = harness.submit_preempting_delete(new.0.id).await;
    // The deletion must not end before the request has.
    let early = harness.engine.wait(delete, Milestone::Reached, TimeSpan::from_secs(2)).await.unwrap();
    gate.release_writes();
    assert!(!early.status.is_final(), "{}", early.status_reason);
    let ended = harness.ended(delete).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    // KubeRay may create a pod for an object that is being deleted; the garbage collector removes it.
    let no_pods = async || pods(&harness).await.is_empty().then_some(());
    harness.until("no pods", no_pods).await;
    let clusters =
        harness.objects(["ray.io", "v1", "RayCluster"]).list(&ListParams::default()).await.unwrap();
    assert!(clusters.items.iter().all(|cluster| cluster.metadata.deletion_timestamp.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_this_database_are_listed_and_removed_as_leftovers() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let database = harness.fresh.store.database_id().await.unwrap();
    let (own, other) = (NodeId::from_uuid(Uuid::now_v7()), NodeId::from_uuid(Uuid::now_v7()));
    let api = harness.namespace.api::<Pod>();
    for (name, node, fence) in
        [("own", own, format!("{database}/1")), ("other", other, "another/1".to_owned())]
    {
        let pod = json!({
            "metadata": {"name": name, "labels": {"muster.dev/node": node.to_string()},
                "annotations": {"muster.dev/fence": fence}},
            "spec": {"containers": [{"name": "main", "image": "example.test/it:1"}]},
        });
        api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let provider = std::sync::Arc::new(harness.replica(harness.kubernetes.kubeconfig()).await);
    let nodes = std::sync::Arc::clone(&provider).node_provider().unwrap();
    let listed =
        async || nodes.list_resources().await.ok().filter(|made| made.contains(&ProviderResource::Node(own)));
    let made = harness.until("the pod is listed", listed).await;
    assert!(
        !made.contains(&ProviderResource::Node(other)),
        "a pod with a fence of another database is no leftover of this one"
    );
    nodes.remove_leftover(ProviderResource::Node(own)).await.unwrap();
    let gone = async || (pods(&harness).await == ["other"]).then_some(());
    harness.until("the pod is gone", gone).await;
}

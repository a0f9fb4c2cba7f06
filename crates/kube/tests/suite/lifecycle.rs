//! The lifecycle of a cluster, per flavor: creation, scaling, restart and deletion.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams, PostParams};
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus, Framework};
use muster_core::node::NodeStatus;
use muster_testkit::Operator;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, exactly, object};

const RAY_CLUSTER: [&str; 3] = ["ray.io", "v1", "RayCluster"];

const DOMINO: &str = "distributed-compute.dominodatalab.com";

async fn started(operator: Option<Operator>) -> Option<Harness> {
    match operator {
        Some(operator) => Harness::with(operator).await,
        None => Harness::on(muster_testkit::kubernetes().await?).await,
    }
}

#[rstest]
#[case::kuberay(Framework::Ray, "kuberay", Some(Operator::KubeRay))]
#[case::dask_operator(Framework::Dask, "dask-operator", Some(Operator::Dask))]
#[case::native(Framework::Spark, "native", None)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_created_scaled_restarted_and_deleted(
    #[case] framework: Framework,
    #[case] flavor: &str,
    #[case] operator: Option<Operator>,
) {
    let Some(harness) = started(operator).await else { return };
    let cluster = harness.created(framework, 2).await;
    assert_eq!((cluster.status, cluster.flavor.as_deref()), (ClusterStatus::Active, Some(flavor)));
    let nodes = harness.nodes(cluster.id).await;
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    assert!(nodes.iter().all(|node| node.status == NodeStatus::Active), "{nodes:?}");

    resize(&harness, &cluster, 4).await;
    let workers = harness.workers(cluster.id).await;
    let victim = &workers[1];
    let mut inputs = exactly(3);
    inputs["candidates"] = json!([victim.id]);
    let action = harness.done(ActionKind::ClusterResize, &cluster, inputs).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let left: Vec<_> = harness.workers(cluster.id).await.into_iter().map(|node| node.id).collect();
    let stay: Vec<_> = workers.iter().filter(|node| node.id != victim.id).map(|node| node.id).collect();
    assert!(left.len() == 3 && stay.iter().all(|id| left.contains(id)), "only the chosen worker was removed");

    // Workers of Spark register with the next master; those of other frameworks are replaced with the head.
    restart_head(&harness, &cluster, framework != Framework::Spark).await;
    delete_completely(&harness, &cluster).await;
}

#[rstest]
#[case("RayCluster", Framework::Ray, json!({}))]
#[case("DaskCluster", Framework::Dask, json!({}))]
#[case(
    "SparkCluster",
    Framework::Spark,
    json!({"workerMemoryLimit": "3Gi", "driver": {"selector": {"app.kubernetes.io/instance": "driver-pod"}}})
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_domino_is_discovered_scaled_restarted_and_deleted(
    #[case] kind: &str,
    #[case] framework: Framework,
    #[case] mut spec: Value,
) {
    let Some(harness) = Harness::with(Operator::Domino).await else { return };
    spec["worker"] = json!({"replicas": 1, "resources": {"requests": {"cpu": "250m", "memory": "250Mi"}}});
    spec["autoscaling"] = json!({"minReplicas": 1, "maxReplicas": 5});
    let objects = harness.objects([DOMINO, "v1alpha1", kind]);
    let mut theirs = object([DOMINO, "v1alpha1", kind], "theirs", &spec);
    let user = ("dominodatalab.com/starting-user-id".to_owned(), "u1".to_owned());
    theirs.metadata.labels = Some([user].into());
    objects.create(&PostParams::default(), &theirs).await.unwrap();
    let found = harness.discovered("theirs").await;
    assert_eq!((found.framework, found.flavor.as_deref()), (Some(framework), Some("domino")));
    assert_eq!((found.owner.scheme.as_str(), found.owner.id.as_str()), ("domino", "u1"));
    assert_eq!((found.groups[0].min, found.groups[0].max), (0, Some(5)));
    let active =
        async || Some(harness.cluster(found.id).await).filter(|row| row.status == ClusterStatus::Active);
    harness.until("active", active).await;

    resize(&harness, &found, 3).await;
    let spec = objects.get("theirs").await.unwrap().data["spec"].clone();
    assert_eq!((&spec["worker"]["replicas"], &spec["autoscaling"]["minReplicas"]), (&json!(3), &json!(3)));
    resize(&harness, &found, 2).await;
    restart_head(&harness, &found, false).await;
    delete_completely(&harness, &found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ray_cluster_has_its_addresses_and_no_victims_after_a_resize() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 2).await;
    let endpoints = &cluster.observed.endpoints;
    let host = format!("fred-head-svc.{}.svc", harness.namespace.name());
    assert_eq!(endpoints["address"], format!("ray://{host}:10001"));
    let environment = harness.engine.environment(&cluster).await.unwrap();
    let variables = (environment["RAY_ADDRESS"].as_str(), environment["RAY_AUTH_MODE"].as_str());
    assert_eq!(variables, (endpoints["address"].as_str(), "token"));
    assert!(environment["RAY_AUTH_TOKEN"].len() >= 32, "the operator's own secret");

    resize(&harness, &cluster, 1).await;
    let object: DynamicObject = harness.objects(RAY_CLUSTER).get("fred").await.unwrap();
    let group = &object.data["spec"]["workerGroupSpecs"][0];
    assert_eq!((&group["replicas"], &group["scaleStrategy"]["workersToDelete"]), (&json!(1), &Value::Null));
}

/// Resizes a cluster and checks the number of its workers.
async fn resize(harness: &Harness, cluster: &Cluster, workers: u32) {
    let action = harness.resized(cluster, workers).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(harness.workers(cluster.id).await.len(), usize::try_from(workers).unwrap());
}

/// Restarts the head of a cluster, and checks that the head and, if `with_workers`, all workers have new pods.
async fn restart_head(harness: &Harness, cluster: &Cluster, with_workers: bool) {
    let pod_uid = |node: &muster_core::node::Node| node.data["member"]["uid"].clone();
    let worker_uids = async || harness.workers(cluster.id).await.iter().map(pod_uid).collect::<Vec<_>>();
    let workers = worker_uids().await;
    let head = harness.head(cluster.id).await;
    let restart = harness.submit(ActionKind::NodeRecover, cluster, Some(head.id), json!({})).await;
    let restart = harness.ended(restart).await;
    assert_eq!(restart.status, ActionStatus::Succeeded, "{}", restart.status_reason);
    let new_head = harness.head(cluster.id).await;
    assert_eq!((new_head.id, new_head.status), (head.id, NodeStatus::Active));
    assert_ne!(pod_uid(&new_head), pod_uid(&head));
    let now = worker_uids().await;
    assert_eq!(now.len(), workers.len());
    assert!(workers.iter().all(|worker| now.contains(worker) != with_workers), "{workers:?} {now:?}");
}

/// Deletes a cluster and checks that nothing of it stays.
async fn delete_completely(harness: &Harness, cluster: &Cluster) {
    let action = harness.done(ActionKind::ClusterDelete, cluster, json!({})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert!(harness.cluster(cluster.id).await.deleted_at.is_some());
    assert_eq!(harness.nodes(cluster.id).await, []);
    // A stateful set may replace a pod while it is deleted itself; Kubernetes removes that pod too, but later.
    let all_leave = async || {
        let pods = harness.namespace.api::<Pod>().list(&ListParams::default()).await.unwrap();
        pods.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()).then_some(())
    };
    harness.until("all pods are being deleted", all_leave).await;
}

//! A whole life, per flavor.

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
async fn a_cluster_is_made_scaled_restarted_and_deleted(
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

    grows(&harness, &cluster, 4).await;
    let workers = harness.workers(cluster.id).await;
    let victim = &workers[1];
    let mut inputs = exactly(3);
    inputs["candidates"] = json!([victim.id]);
    let action = harness.done(ActionKind::ClusterResize, &cluster, inputs).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let left: Vec<_> = harness.workers(cluster.id).await.into_iter().map(|node| node.id).collect();
    let stay: Vec<_> = workers.iter().filter(|node| node.id != victim.id).map(|node| node.id).collect();
    assert!(left.len() == 3 && stay.iter().all(|id| left.contains(id)), "the chosen one went, and no other");

    // Workers of Spark tell the next master of themselves; others are of no use to another head.
    has_another_head(&harness, &cluster, framework != Framework::Spark).await;
    ends(&harness, &cluster).await;
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
async fn a_cluster_of_domino_is_found_scaled_restarted_and_deleted(
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

    grows(&harness, &found, 3).await;
    let spec = objects.get("theirs").await.unwrap().data["spec"].clone();
    assert_eq!((&spec["worker"]["replicas"], &spec["autoscaling"]["minReplicas"]), (&json!(3), &json!(3)));
    grows(&harness, &found, 2).await;
    has_another_head(&harness, &found, false).await;
    ends(&harness, &found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ray_cluster_says_how_it_is_reached_and_forgets_its_victims() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 2).await;
    let endpoints = &cluster.observed.endpoints;
    let host = format!("fred-head-svc.{}.svc", harness.namespace.name());
    assert_eq!(endpoints["address"], format!("ray://{host}:10001"));
    let environment = harness.engine.environment(&cluster).await.unwrap();
    let said = (environment["RAY_ADDRESS"].as_str(), environment["RAY_AUTH_MODE"].as_str());
    assert_eq!(said, (endpoints["address"].as_str(), "token"));
    assert!(environment["RAY_AUTH_TOKEN"].len() >= 32, "the operator's own secret");

    grows(&harness, &cluster, 1).await;
    let object: DynamicObject = harness.objects(RAY_CLUSTER).get("fred").await.unwrap();
    let group = &object.data["spec"]["workerGroupSpecs"][0];
    assert_eq!((&group["replicas"], &group["scaleStrategy"]["workersToDelete"]), (&json!(1), &Value::Null));
}

/// Grows or shrinks to just so many workers.
async fn grows(harness: &Harness, cluster: &Cluster, workers: u32) {
    let action = harness.resized(cluster, workers).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(harness.workers(cluster.id).await.len(), usize::try_from(workers).unwrap());
}

/// Gets another head in the place of the one it has.
async fn has_another_head(harness: &Harness, cluster: &Cluster, with_workers: bool) {
    let making = |node: &muster_core::node::Node| node.data["member"]["uid"].clone();
    let makings = async || harness.workers(cluster.id).await.iter().map(making).collect::<Vec<_>>();
    let workers = makings().await;
    let head = harness.head(cluster.id).await;
    let restart = harness.submit(ActionKind::NodeRecover, cluster, Some(head.id), json!({})).await;
    let restart = harness.ended(restart).await;
    assert_eq!(restart.status, ActionStatus::Succeeded, "{}", restart.status_reason);
    let again = harness.head(cluster.id).await;
    assert_eq!((again.id, again.status), (head.id, NodeStatus::Active));
    assert_ne!(making(&again), making(&head));
    let now = makings().await;
    assert_eq!(now.len(), workers.len());
    assert!(workers.iter().all(|worker| now.contains(worker) != with_workers), "{workers:?} {now:?}");
}

/// Goes, and leaves nothing.
async fn ends(harness: &Harness, cluster: &Cluster) {
    let action = harness.done(ActionKind::ClusterDelete, cluster, json!({})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert!(harness.cluster(cluster.id).await.deleted_at.is_some());
    assert_eq!(harness.nodes(cluster.id).await, []);
    // A stateful set may replace a pod while it is deleted itself; Kubernetes removes that pod too, but later.
    let all_leave = async || {
        let pods = harness.namespace.api::<Pod>().list(&ListParams::default()).await.unwrap();
        pods.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()).then_some(())
    };
    harness.until("nothing that stays", all_leave).await;
}

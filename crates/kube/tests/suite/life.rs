//! A whole life, per flavor.

use kube::Api;
use kube::api::DynamicObject;
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{ClusterStatus, Framework};
use muster_core::node::NodeStatus;
use muster_testkit::Operator;
use serde_json::{Value, json};

use crate::fixture::{Fixture, exactly};

const RAY_CLUSTER: [&str; 3] = ["ray.io", "v1", "RayCluster"];

async fn spec(objects: &Api<DynamicObject>, name: &str) -> Value {
    objects.get(name).await.unwrap().data["spec"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ray_cluster_is_made_scaled_restarted_and_deleted() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let cluster = house.created(Framework::Ray, 2).await;
    assert_eq!((cluster.status, cluster.flavor.as_deref()), (ClusterStatus::Active, Some("kuberay")));
    let endpoints = &cluster.observed.endpoints;
    let host = format!("fred-head-svc.{}.svc", house.namespace.name());
    assert_eq!(endpoints["address"], format!("ray://{host}:10001"));
    let environment = house.engine.environment(&cluster).await.unwrap();
    assert_eq!(
        (environment["RAY_ADDRESS"].as_str(), environment["RAY_AUTH_MODE"].as_str()),
        (endpoints["address"].as_str(), "token")
    );
    assert!(environment["RAY_AUTH_TOKEN"].len() >= 32, "the operator's own secret");
    let nodes = house.nodes(cluster.id).await;
    assert_eq!(nodes.len(), 3);
    assert!(
        nodes.iter().all(|node| node.status == NodeStatus::Active && node.physical_id.is_some()),
        "{nodes:?}"
    );

    let action = house.resized(&cluster, 4).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(house.workers(cluster.id).await.len(), 4);

    let workers = house.workers(cluster.id).await;
    let victim = &workers[1];
    let mut inputs = exactly(3);
    inputs["candidates"] = json!([victim.id]);
    let action = house.done(ActionKind::ClusterResize, &cluster, inputs).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let left: Vec<_> = house.workers(cluster.id).await.into_iter().map(|node| node.id).collect();
    let stay: Vec<_> = workers.iter().filter(|node| node.id != victim.id).map(|node| node.id).collect();
    assert_eq!(left.len(), 3);
    assert!(stay.iter().all(|id| left.contains(id)), "the chosen one went, and no other");
    let objects = house.objects(RAY_CLUSTER);
    let group = &spec(&objects, "fred").await["workerGroupSpecs"][0];
    assert_eq!((&group["replicas"], &group["scaleStrategy"]["workersToDelete"]), (&json!(3), &Value::Null));

    let head = house.head(cluster.id).await;
    let restart = house.submit(ActionKind::NodeRecover, &cluster, Some(head.id), json!({})).await;
    let restart = house.ended(restart).await;
    assert_eq!(restart.status, ActionStatus::Succeeded, "{}", restart.status_reason);
    let again = house.head(cluster.id).await;
    assert_eq!((again.id, again.status), (head.id, NodeStatus::Active));
    assert_ne!(again.physical_id, head.physical_id);

    let action = house.done(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert!(objects.get_opt("fred").await.unwrap().is_none());
    assert!(house.cluster(cluster.id).await.deleted_at.is_some());
}

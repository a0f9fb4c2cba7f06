//! The testbed's operators create clusters whose pods run.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use muster_testkit::{Kubernetes, Namespace, Operator};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::timeout;

/// A time limit for operators, which need seconds, but longer on a machine that compiles.
const SOON: Duration = Duration::from_mins(2);

/// The custom resources of a kind in a namespace.
struct Clusters<'a> {
    namespace: &'a Namespace,
    kind: ApiResource,
    api: Api<DynamicObject>,
}

impl<'a> Clusters<'a> {
    fn new(kubernetes: &Kubernetes, namespace: &'a Namespace, [group, version, kind]: [&str; 3]) -> Self {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Self { namespace, api: Api::namespaced_with(kubernetes.client(), namespace.name(), &kind), kind }
    }

    async fn create(&self, name: &str, spec: Value) -> kube::Result<DynamicObject> {
        let object = DynamicObject::new(name, &self.kind).data(json!({"spec": spec}));
        self.api.create(&PostParams::default(), &object).await
    }

    async fn wait_for(&self, name: &str, field: &str, value: &str) {
        let what = format!("{field} is {value}");
        let reached = |object: &DynamicObject| object.data.pointer(field) == Some(&json!(value));
        self.namespace.wait(&what, &self.api, name, SOON, reached).await;
    }
}

/// Waits until a namespace has exactly this many pods and all of them run, and returns their names.
async fn running_pods(namespace: &Namespace, count: usize) -> BTreeSet<String> {
    let mut running = BTreeSet::new();
    let mut all = BTreeSet::new();
    let seen = timeout(SOON, async {
        let mut changes = pin!(watcher(namespace.api::<Pod>(), watcher::Config::default()).default_backoff());
        while let Some(change) = changes.next().await {
            match change {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    if phase == Some("Running") {
                        running.insert(pod.name_any());
                    }
                    all.insert(pod.name_any());
                }
                Ok(Event::Delete(pod)) => {
                    running.remove(&pod.name_any());
                    all.remove(&pod.name_any());
                }
                Ok(Event::Init | Event::InitDone) | Err(_) => continue,
            }
            if running.len() == count && all == running {
                return;
            }
        }
    });
    let in_time = seen.await.is_ok();
    assert!(in_time, "of {count} pods only {running:?} run, of {all:?}");
    running
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "example.test/it:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})
}

#[tokio::test]
async fn kuberay_makes_a_cluster_ready_whose_pods_run() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_kuberay) = kubernetes.operator(Operator::KubeRay).await else { return };
    let namespace = kubernetes.namespace().await;
    let clusters = Clusters::new(&kubernetes, &namespace, ["ray.io", "v1", "RayCluster"]);
    let template = |name| json!({"spec": {"containers": [container(name)]}});
    let spec = json!({
        "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
        "workerGroupSpecs": [{
            "groupName": "workers", "replicas": 2, "minReplicas": 0, "maxReplicas": 5, "rayStartParams": {},
            "template": template("ray-worker"),
        }],
    });
    clusters.create("fred", spec).await.unwrap();
    clusters.wait_for("fred", "/status/state", "ready").await;
    running_pods(&namespace, 3).await;
}

const DOMINO: &str = "distributed-compute.dominodatalab.com";

fn worker(replicas: u32) -> Value {
    json!({"replicas": replicas, "resources": {"requests": {"cpu": "250m", "memory": "250Mi"}}})
}

#[rstest]
#[case("RayCluster", json!({}), ["fred-ray-head-0", "fred-ray-worker-0", "fred-ray-worker-1"])]
#[case("DaskCluster", json!({}), ["fred-dask-scheduler-0", "fred-dask-worker-0", "fred-dask-worker-1"])]
#[case(
    "SparkCluster",
    json!({"workerMemoryLimit": "3Gi", "driver": {"selector": {"app.kubernetes.io/instance": "driver-pod"}}}),
    ["fred-spark-master-0", "fred-spark-worker-0", "fred-spark-worker-1"],
)]
#[tokio::test]
async fn domino_makes_a_cluster_running_whose_pods_run(
    #[case] kind: &str,
    #[case] mut spec: Value,
    #[case] pods: [&str; 3],
) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_domino) = kubernetes.operator(Operator::Domino).await else { return };
    let namespace = kubernetes.namespace().await;
    let clusters = Clusters::new(&kubernetes, &namespace, [DOMINO, "v1alpha1", kind]);
    spec["worker"] = worker(2);
    clusters.create("fred", spec).await.unwrap();
    clusters.wait_for("fred", "/status/clusterStatus", "Running").await;
    assert_eq!(running_pods(&namespace, 3).await, BTreeSet::from(pods.map(str::to_owned)));
}

#[tokio::test]
async fn dominos_webhooks_refuse_in_their_words() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_domino) = kubernetes.operator(Operator::Domino).await else { return };
    let namespace = kubernetes.namespace().await;
    let clusters = Clusters::new(&kubernetes, &namespace, [DOMINO, "v1alpha1", "RayCluster"]);
    let refusal = clusters.create("fred", json!({"worker": {"replicas": 2}})).await.unwrap_err();
    let kube::Error::Api(status) = refusal else { panic!("not an answer of the API server: {refusal}") };
    assert_eq!(status.code, 422, "{status:?}");
    assert!(status.message.contains("spec.worker.resources.requests"), "{status:?}");
}

#[tokio::test]
async fn the_dask_operator_makes_a_cluster_whose_pods_run() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_dask) = kubernetes.operator(Operator::Dask).await else { return };
    let namespace = kubernetes.namespace().await;
    let clusters = Clusters::new(&kubernetes, &namespace, ["kubernetes.dask.org", "v1", "DaskCluster"]);
    let ports = json!([{"name": "tcp-comm", "port": 8786, "protocol": "TCP", "targetPort": "tcp-comm"}]);
    let selector = json!({"dask.org/cluster-name": "fred", "dask.org/component": "scheduler"});
    let mut scheduler = container("scheduler");
    scheduler["ports"] = json!([{"name": "tcp-comm", "containerPort": 8786}]);
    let spec = json!({
        "worker": {"replicas": 2, "spec": {"containers": [container("worker")]}},
        "scheduler": {
            "spec": {"containers": [scheduler]},
            "service": {"type": "ClusterIP", "selector": selector, "ports": ports},
        },
    });
    clusters.create("fred", spec).await.unwrap();
    // The phase is not checked: two handlers of the operator write it concurrently, so that it may stay `Pending`.
    running_pods(&namespace, 3).await;
}

#[tokio::test]
async fn a_namespace_with_clusters_is_gone_after_its_test() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_domino) = kubernetes.operator(Operator::Domino).await else { return };
    let watcher = kubernetes.namespace().await;
    let namespace = kubernetes.namespace().await;
    let name = namespace.name().to_owned();
    let clusters = Clusters::new(&kubernetes, &namespace, [DOMINO, "v1alpha1", "DaskCluster"]);
    clusters.create("fred", json!({"worker": worker(1)})).await.unwrap();
    clusters.wait_for("fred", "/status/clusterStatus", "Running").await;
    let left = clusters.api.clone();
    drop(clusters);

    drop(namespace);

    assert!(left.get_opt("fred").await.unwrap().is_none(), "clusters go before their namespace");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(kubernetes.client());
    watcher.wait_gone("a dropped namespace is deleted, clusters and all", &namespaces, &name, SOON).await;
}

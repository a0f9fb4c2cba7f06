//! Domino's clusters, with the rights of the chart and with those of a scaler alone.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use muster_testkit::{Operator, eventually};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::release;
use crate::server::{Server, TIMEOUT};

const GROUP: &str = "distributed-compute.dominodatalab.com";

#[rstest]
#[case("RayCluster", json!({}))]
#[case("DaskCluster", json!({}))]
#[case(
    "SparkCluster",
    json!({"workerMemoryLimit": "3Gi", "driver": {"selector": {"app.kubernetes.io/instance": "driver-pod"}}})
)]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_a_cluster_of_domino(
    #[case] kind: &str,
    #[case] mut spec: Value,
) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_) = kubernetes.operator(Operator::Domino).await else { return };
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    spec["worker"] = json!({"replicas": 1, "resources": {"requests": {"cpu": "250m", "memory": "250Mi"}}});
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind));
    let theirs = DynamicObject::new("theirs", &resource).data(json!({"spec": spec}));
    let objects: Api<DynamicObject> =
        Api::namespaced_with(harness.kubernetes.client(), harness.namespace.name(), &resource);
    objects.create(&PostParams::default(), &theirs).await.unwrap();

    let found = harness.server.discovered(harness.namespace.name(), "theirs").await;
    assert_eq!(found["flavor"], "domino", "{found}");
    for (what, (status, answer)) in [
        ("grows", harness.scale("theirs", 2).await),
        ("shrinks", harness.scale("theirs", 1).await),
        ("gets another head", harness.restart_head("theirs").await),
    ] {
        assert_eq!(status, 200, "{what}: {answer}");
        assert_eq!(
            (&answer["state"], &answer["readyWorkers"]),
            (&json!("ACTIVE"), &answer["desiredWorkers"])
        );
    }
    harness.delete("theirs").await;
    assert!(objects.get_opt("theirs").await.unwrap().is_none());
}

/// The rights that a service needs to scale clusters and restart their heads.
fn role_of_a_scaler(namespace: &str, account: &str) -> Vec<Value> {
    let named = |kind: &str, more: Value| {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": account, "namespace": namespace},
        });
        object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        object
    };
    let plurals = ["rayclusters", "daskclusters", "sparkclusters"];
    let rules = json!([
        {"apiGroups": [GROUP], "resources": plurals, "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
    ]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account});
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
    vec![
        named("Role", json!({"rules": rules})),
        named("RoleBinding", json!({"roleRef": role, "subjects": [subject]})),
    ]
}

#[tokio::test]
async fn the_scaler_api_needs_rights_on_clusters_and_their_pods_only() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_) = kubernetes.operator(Operator::Domino).await else { return };
    let namespace = kubernetes.namespace().await;
    release::account(&namespace, "scaler").await;
    release::apply(&kubernetes, &namespace, &role_of_a_scaler(namespace.name(), "scaler")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let token = release::token(&namespace, "scaler").await;
    let kubeconfig = release::kubeconfig(&kubernetes, &folder, &token);
    let kubeconfig = kubeconfig.to_str().expect("a plain path");
    // It may not read the identity of this Kubernetes.
    let own =
        ["--compute-namespace", namespace.name(), "--namespace", namespace.name(), "--instance-id", "here"];
    let server = Server::start(folder, &[&["--kubeconfig", kubeconfig][..], &own].concat()).await;

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "RayCluster"));
    let spec = json!({
        "autoscaling": {"minReplicas": 1, "maxReplicas": 5, "averageCPUUtilization": 80},
        "worker": {"replicas": 1, "resources": {"requests": {"cpu": "250m", "memory": "250Mi"}}},
    });
    let theirs = DynamicObject::new("theirs", &resource).data(json!({"spec": spec}));
    let objects: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), namespace.name(), &resource);
    objects.create(&PostParams::default(), &theirs).await.unwrap();

    let path = |verb: &str| format!("/ddl_cluster_scaler/{verb}/rayclusters/theirs");
    let call = async |method: Method, path: &str, body: Option<&Value>| server.call(method, path, body).await;
    eventually("it is shown", TIMEOUT, async || {
        let (status, shown) = call(Method::GET, &path("cluster"), None).await;
        if status == 200 { Ok(()) } else { Err(shown) }
    })
    .await;
    let (status, scaled) = call(Method::PATCH, &path("scale"), Some(&json!({"replicas": 2}))).await;
    assert_eq!((status, &scaled["effective_replicas"]), (200, &json!(2)), "{scaled}");
    let (status, listed) = call(Method::GET, "/ddl_cluster_scaler/list/rayclusters", None).await;
    assert_eq!((status, &listed["count"]), (200, &json!(1)), "{listed}");
    let is_ready_since = async |since: &str| {
        let status = format!("{}?started_at={since}", path("restart_head_status"));
        eventually("the head is ready", TIMEOUT, async || {
            let (_, answer) = call(Method::GET, &status, None).await;
            if answer["status"] == "restarted_and_ready" { Ok(()) } else { Err(answer) }
        })
        .await;
    };
    is_ready_since("2020-01-01T00:00:00Z").await;
    let (status, restarted) = call(Method::PATCH, &path("restart_head"), Some(&json!({}))).await;
    assert_eq!(status, 202, "{restarted}");
    is_ready_since(restarted["started_at"].as_str().expect("a time")).await;
}

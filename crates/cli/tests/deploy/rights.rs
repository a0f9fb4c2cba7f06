//! Muster with the rights of the chart, and with one right less.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use muster_testkit::{Operator, eventually};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, WAIT, of_framework, of_pods, without};
use crate::server::TIMEOUT;

#[rstest]
#[case::in_a_namespace(false)]
#[case::everywhere(true)]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_ray_and_for_pods(#[case] everywhere: bool) {
    let Some(harness) = Harness::open(everywhere, |_| {}).await else { return };
    let made = harness.create(&of_framework("ray", 1)).await;
    assert_eq!((&made["flavor"], &made["provider"]), (&json!("kuberay"), &json!("kubernetes")), "{made}");
    let (status, scaled) = harness.scale("fred", 2).await;
    assert_eq!(status, 200, "{scaled}");
    let (_, environment) = harness.run(&["env", "fred"]);
    assert!(environment.contains("RAY_AUTH_TOKEN="), "the operator's secret was read: {environment}");
    harness.delete("fred").await;
    assert!(harness.ray("fred").await.is_none_or(|object| object.metadata.deletion_timestamp.is_some()));

    harness.create(&of_pods(1)).await;
    let (status, scaled) = harness.scale("barney", 2).await;
    assert_eq!(status, 200, "{scaled}");
    harness.delete("barney").await;

    let templates = harness.clusters().replace("/clusters", "/compute_templates");
    let small = json!({"name": "small", "cpu": 1, "memory": 1});
    harness.server.core(Method::POST, &templates, Some(&small)).await;
    harness.server.core(Method::DELETE, &format!("{templates}/small"), None).await;
}

/// The simulated kubelet (kwok) ends the pods of Jobs with exit status 0.
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_jobs() {
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    harness.create(&of_framework("ray", 0)).await;
    for job in ["one", "two"] {
        let (good, printed) = harness.run(&["job", "submit", "fred", "--name", job, "--", "true"]);
        assert!(good, "{printed}");
    }
    let (good, printed) = harness.run(&["job", "wait", "one"]);
    assert!(good && printed.contains("SUCCEEDED"), "{printed}");
    let (good, printed) = harness.run(&["job", "stop", "two"]);
    assert!(good, "{printed}");
    harness.delete("fred").await;
}

#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_logs() {
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    let (good, printed) = harness.request_missing_log().await;
    assert!(!good && printed.contains("has not started and has no log yet"), "{printed}");
}

#[rstest]
#[case::native("spark", None, [2, 1])]
#[case::dask_operator("dask", Some(Operator::Dask), [1, 2])]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_spark_and_dask(
    #[case] framework: &str,
    #[case] operator: Option<Operator>,
    #[case] sizes: [u32; 2],
) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    if let Some(operator) = operator
        && kubernetes.operator(operator).await.is_none()
    {
        return;
    }
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    harness.create(&of_framework(framework, sizes[0])).await;
    let (status, scaled) = harness.scale("fred", sizes[1]).await;
    assert_eq!(status, 200, "{scaled}");
    let (status, restarted) = harness.restart_head("fred").await;
    assert_eq!(status, 200, "{restarted}");
    harness.delete("fred").await;
}

#[tokio::test]
async fn stored_configurations_need_only_the_right_to_get_config_maps() {
    let read_only = |role: &mut Value| {
        for verb in ["list", "watch", "create", "delete"] {
            without(role, verb, "configmaps");
        }
    };
    let Some(harness) = Harness::open(false, read_only).await else { return };
    for (name, data) in [("big", json!({"sparkmasterconfig": "masters"})), ("masters", json!({"a.conf": ""}))]
    {
        let map = serde_json::from_value(json!({"metadata": {"name": name}, "data": data}));
        let maps = harness.namespace.api::<ConfigMap>();
        maps.create(&PostParams::default(), &map.expect("a ConfigMap")).await.expect("it is created");
    }
    let path = format!("{}?{WAIT}&stored_config=big", harness.clusters());
    let made = harness.server.core(Method::POST, &path, Some(&of_framework("spark", 1))).await;
    let spark = json!({"config_name": "big", "master_config": "masters"});
    assert_eq!(made["profileProperties"]["spark"], spark, "{made}");
    harness.delete("fred").await;
}

#[tokio::test]
async fn a_missing_right_is_named_with_its_verb_and_resource() {
    let Some(harness) = Harness::open(false, |role| without(role, "patch", "rayclusters")).await else {
        return;
    };
    harness.create(&of_framework("ray", 1)).await;
    let (status, refused) = harness.scale("fred", 2).await;
    let printed = refused.to_string();
    assert_ne!(status, 200, "{printed}");
    assert!(printed.contains("cannot change RayCluster") && printed.contains("forbidden"), "{printed}");
    assert!(printed.contains("cannot patch resource \\\"rayclusters\\\""), "{printed}");
    let object = harness.ray("fred").await.expect("the cluster");
    assert_eq!(object.data["spec"]["workerGroupSpecs"][0]["replicas"], 1, "it is as it was");
    harness.delete("fred").await;
}

#[tokio::test]
async fn a_creation_without_the_right_fails_and_names_it() {
    let Some(harness) = Harness::open(false, |role| without(role, "create", "pods")).await else { return };
    let path = format!("/apis/v1alpha2{}?{WAIT}", harness.clusters());
    let (_, answer) = harness.server.call(Method::POST, &path, Some(&of_pods(1))).await;
    let (_, row) =
        harness.server.call(Method::GET, &format!("/apis/v1alpha2{}/barney", harness.clusters()), None).await;
    let printed = format!("{answer}{row}");
    assert!(printed.contains("cannot create resource \\\"pods\\\""), "{printed}");
}

#[tokio::test]
async fn logs_without_the_right_name_it() {
    let Some(harness) = Harness::open(false, |role| without(role, "get", "pods/log")).await else { return };
    let (good, printed) = harness.request_missing_log().await;
    assert!(!good && printed.contains("cannot get resource \"pods/log\""), "{printed}");
}

#[tokio::test]
async fn operators_are_found_without_the_right_to_list_definitions() {
    let blind = |role: &mut Value| {
        without(role, "list", "customresourcedefinitions");
        without(role, "watch", "customresourcedefinitions");
    };
    let Some(harness) = Harness::open(false, blind).await else { return };
    let made = harness.create(&of_framework("ray", 1)).await;
    assert_eq!((&made["flavor"], &made["state"]), (&json!("kuberay"), &json!("ACTIVE")), "{made}");
    let printed = harness.server.wait_for_log("cannot watch custom resource definitions").await;
    assert!(
        printed.contains("cannot list resource") && printed.contains("customresourcedefinitions"),
        "{printed}"
    );
    // Probing the resource works instead.
    let (status, ready) = harness.server.call(Method::GET, "/readyz", None).await;
    assert_eq!((status, ready), (200, json!({"status": "ready"})));
    harness.delete("fred").await;
}

#[tokio::test]
async fn clusters_that_cannot_be_watched_are_a_warning_of_readiness() {
    let unwatched = |role: &mut Value| {
        without(role, "list", "rayclusters");
        without(role, "watch", "rayclusters");
    };
    let Some(harness) = Harness::open(false, unwatched).await else { return };
    let ready = eventually("a warning", TIMEOUT, async || {
        let (status, ready) = harness.server.call(Method::GET, "/readyz", None).await;
        if status == 200 && ready["warnings"].is_array() { Ok(ready) } else { Err(ready) }
    })
    .await;
    let warning = ready["warnings"][0].as_str().unwrap_or_default();
    assert!(
        warning.contains("clusters of flavor kuberay in namespace") && warning.contains("rayclusters"),
        "{ready}"
    );
}

//! Muster with the rights of the chart, and with one less.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use muster_testkit::{Operator, eventually};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, WAIT, of_framework, of_pods, without};
use crate::server::PATIENCE;

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

#[tokio::test]
async fn the_rights_of_the_chart_are_enough_to_ask_for_logs() {
    let Some(harness) = Harness::open(false, |_| {}).await else { return };
    let (good, said) = harness.log_of_nothing().await;
    assert!(!good && said.contains("has not started and has no log yet"), "{said}");
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
async fn stored_configurations_need_no_more_than_to_get_config_maps() {
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
async fn a_right_that_is_missing_is_named_with_its_verb_and_its_resource() {
    let Some(harness) = Harness::open(false, |role| without(role, "patch", "rayclusters")).await else {
        return;
    };
    harness.create(&of_framework("ray", 1)).await;
    let (status, refused) = harness.scale("fred", 2).await;
    let said = refused.to_string();
    assert_ne!(status, 200, "{said}");
    assert!(said.contains("cannot change RayCluster") && said.contains("forbidden"), "{said}");
    assert!(said.contains("cannot patch resource \\\"rayclusters\\\""), "{said}");
    let object = harness.ray("fred").await.expect("the cluster");
    assert_eq!(object.data["spec"]["workerGroupSpecs"][0]["replicas"], 1, "it is as it was");
    harness.delete("fred").await;
}

#[tokio::test]
async fn what_may_not_be_made_fails_with_a_sentence_that_names_the_right() {
    let Some(harness) = Harness::open(false, |role| without(role, "create", "pods")).await else { return };
    let path = format!("/apis/v1alpha2{}?{WAIT}", harness.clusters());
    let (_, answer) = harness.server.call(Method::POST, &path, Some(&of_pods(1))).await;
    let (_, row) =
        harness.server.call(Method::GET, &format!("/apis/v1alpha2{}/barney", harness.clusters()), None).await;
    let said = format!("{answer}{row}");
    assert!(said.contains("cannot create resource \\\"pods\\\""), "{said}");
}

#[tokio::test]
async fn logs_that_may_not_be_read_say_which_right_is_missing() {
    let Some(harness) = Harness::open(false, |role| without(role, "get", "pods/log")).await else { return };
    let (good, said) = harness.log_of_nothing().await;
    assert!(!good && said.contains("cannot get resource \"pods/log\""), "{said}");
}

#[tokio::test]
async fn whoever_may_not_list_definitions_finds_the_operators_all_the_same() {
    let blind = |role: &mut Value| {
        without(role, "list", "customresourcedefinitions");
        without(role, "watch", "customresourcedefinitions");
    };
    let Some(harness) = Harness::open(false, blind).await else { return };
    let made = harness.create(&of_framework("ray", 1)).await;
    assert_eq!((&made["flavor"], &made["state"]), (&json!("kuberay"), &json!("ACTIVE")), "{made}");
    let said = harness.server.says("cannot follow which operators are installed").await;
    assert!(said.contains("cannot list resource") && said.contains("customresourcedefinitions"), "{said}");
    // It is asked instead, and that works.
    let (status, ready) = harness.server.call(Method::GET, "/readyz", None).await;
    assert_eq!((status, ready), (200, json!({"status": "ready"})));
    harness.delete("fred").await;
}

#[tokio::test]
async fn clusters_that_may_not_be_watched_are_a_warning_of_readiness() {
    let unwatched = |role: &mut Value| {
        without(role, "list", "rayclusters");
        without(role, "watch", "rayclusters");
    };
    let Some(harness) = Harness::open(false, unwatched).await else { return };
    let ready = eventually("a warning", PATIENCE, async || {
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

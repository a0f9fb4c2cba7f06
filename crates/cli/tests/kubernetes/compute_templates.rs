//! Compute templates in `ConfigMap`s.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use muster_testkit::eventually;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

fn map(name: &str, labels: &Value, data: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "data": data}))
        .expect("a ConfigMap")
}

/// Waits until the server lists these templates.
async fn wait_for_templates(server: &Server, templates: &str, names: &[&str]) {
    eventually("the list of templates", TIMEOUT, async || {
        let list = server.get(templates).await;
        let all = list["computeTemplates"].as_array().cloned().unwrap_or_default();
        let found: Vec<Value> = all.into_iter().map(|mut template| template["name"].take()).collect();
        if found == names { Ok(()) } else { Err(list) }
    })
    .await;
}

#[tokio::test]
async fn templates_are_config_maps_of_any_creator_and_other_maps_are_not_touched() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let templates = format!("/namespaces/{}/compute_templates", harness.namespace.name());
    let maps: Api<ConfigMap> = harness.namespace.api();

    // Created by Muster, in the form of the KubeRay API server.
    let small = json!({"name": "small", "cpu": 2, "memory": 4, "gpu": 1,
                       "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]});
    server.post(&templates, small).await;
    let made = maps.get("small").await.expect("its ConfigMap");
    let labels = json!({"ray.io/config-type": "compute-template", "ray.io/compute-template": "small"});
    assert_eq!(json!(made.metadata.labels), labels);
    let data = json!({
        "name": "small", "namespace": harness.namespace.name(), "cpu": "2", "memory": "4", "memory_unit": "Gi",
        "gpu": "1", "gpu_accelerator": "", "extended_resources": "{}",
        "tolerations": r#"[{"effect":"NoSchedule","key":"k","operator":"Exists","value":""}]"#,
    });
    assert_eq!(json!(made.data), data);

    // Created by other programs, in their older form.
    let theirs = map(
        "theirs",
        &json!({"ray.io/config-type": "compute-template"}),
        &json!({"cpu": "1", "memory": "2"}),
    );
    maps.create(&PostParams::default(), &theirs).await.expect("a ConfigMap");
    wait_for_templates(&server, &templates, &["small", "theirs"]).await;
    let shown = server.get(&format!("{templates}/theirs")).await;
    assert_eq!((&shown["memory"], &shown["memoryUnit"]), (&json!(2), &json!("Gi")), "{shown}");

    // A ConfigMap that is not a template is neither listed nor deleted, and its name is in use.
    maps.create(&PostParams::default(), &map("plain", &json!({}), &json!({"cpu": "1"})))
        .await
        .expect("a ConfigMap");
    for method in [Method::GET, Method::DELETE] {
        let (status, ..) = server.refusal(method, &format!("{templates}/plain"), None).await;
        assert_eq!(status, 404);
    }
    let plain = json!({"name": "plain", "cpu": 1, "memory": 1});
    let (status, reason, _) = server.refusal(Method::POST, &templates, Some(plain)).await;
    assert_eq!((status, reason.as_str()), (409, "ComputeTemplateExists"));
    assert!(maps.get_opt("plain").await.expect("an answer").is_some());

    // Pods get the shape, and the object records the template.
    let group = json!({"group_name": "default", "replicas": 1, "compute_template": "theirs"});
    let spec = json!({"head_group_spec": {"compute_template": "small"}, "worker_group_spec": [group]});
    let fred = json!({"name": "fred", "framework": "ray", "cluster_spec": spec});
    server.post(&format!("{}?wait_for=applied", harness.clusters()), fred).await;
    let object = harness.ray_clusters().get("fred").await.expect("a RayCluster").data;
    let head = &object["spec"]["headGroupSpec"]["template"];
    assert_eq!(head["metadata"]["annotations"]["ray.io/compute-template"], "small");
    let amounts = json!({"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"});
    assert_eq!(head["spec"]["containers"][0]["resources"]["limits"], amounts, "{head}");
    assert_eq!(
        head["spec"]["tolerations"],
        json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}])
    );
    let worker = &object["spec"]["workerGroupSpecs"][0]["template"];
    assert_eq!(worker["metadata"]["annotations"]["ray.io/compute-template"], "theirs");
    assert_eq!(worker["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "1", "memory": "2Gi"}));
    let (status, reason, _) = server.refusal(Method::DELETE, &format!("{templates}/small"), None).await;
    assert_eq!((status, reason.as_str()), (409, "ComputeTemplateInUse"));

    // Deletions here and there are seen on the other side.
    let deleted = server.call(Method::DELETE, &format!("{templates}/small?force=true"), None).await;
    assert_eq!(deleted.status(), StatusCode::OK);
    assert!(maps.get_opt("small").await.expect("an answer").is_none());
    maps.delete("theirs", &DeleteParams::default()).await.expect("it is deleted");
    wait_for_templates(&server, &templates, &[]).await;
    let gone =
        server.call(Method::DELETE, &format!("{}/fred?wait_for=reached", harness.clusters()), None).await;
    assert!(gone.status().is_success(), "{}", gone.status());
}

//! Images that Jobs build. Without a container engine, the test writes what the builder would leave in its pod.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use muster_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

/// Waits for the pod of a build.
async fn pod_of(harness: &Harness, number: usize) -> String {
    let pods: Api<Pod> = harness.namespace.api();
    eventually("the pod of a build", TIMEOUT, async || {
        let found = pods.list(&ListParams::default().labels("muster.dev/image-build")).await.expect("a list");
        let open = found.items.iter().filter(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Pending")
        });
        let names: Vec<String> = open.filter_map(|pod| pod.metadata.name.clone()).collect();
        match names.as_slice() {
            [name] => Ok(name.clone()),
            _ => Err(format!("{} pods instead of one, in build {number}", names.len())),
        }
    })
    .await
}

/// Ends the builder as a kubelet would report it.
async fn end(harness: &Harness, pod: &str, code: i32, message: &str) {
    let state = json!({"terminated": {"exitCode": code, "message": message}});
    let container = json!({
        "name": "build", "image": "b", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    });
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
    let pods: Api<Pod> = harness.namespace.api();
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.expect("a status");
}

async fn wait_for_state(server: &Server, path: &str, state: &str) -> Value {
    eventually("a state", TIMEOUT, async || {
        let template = server.get(path).await;
        if template["state"] == state { Ok(template) } else { Err(template) }
    })
    .await
}

#[tokio::test]
async fn an_image_is_built_by_one_job_even_if_the_server_is_killed() {
    let Some(harness) = Harness::open().await else { return };
    let namespace = harness.namespace.name();
    let server = harness.server(&["--image-registry", "registry.test/muster"]).await;
    let templates = format!("/namespaces/{namespace}/image_templates");
    // No node has this resource, so that pods stay pending until the test changes them.
    let shape =
        json!({"name": "builder", "cpu": 1, "memory": 1, "gpu": 1, "gpuAccelerator": "example.test/none"});
    server.post(&format!("/namespaces/{namespace}/compute_templates"), shape).await;
    let image = |name: &str| {
        json!({
            "name": name, "provider": "kubernetes", "baseImage": "rayproject/ray:2.46.0", "pipPackages": ["six"],
            "computeTemplate": "builder",
        })
    };
    server.post(&templates, image("good")).await;
    let pod = pod_of(&harness, 1).await;
    let jobs: Api<Job> = harness.namespace.api();
    let [job] = &jobs.list(&ListParams::default()).await.expect("a list").items[..] else {
        panic!("one Job")
    };
    let spec = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).expect("a pod");
    let variables = spec.containers[0].env.clone().unwrap_or_default();
    let of =
        |name: &str| variables.iter().find(|given| given.name == name).and_then(|given| given.value.clone());
    let dockerfile = of("DOCKERFILE").unwrap_or_default();
    assert!(dockerfile.starts_with("FROM rayproject/ray:2.46.0\nRUN "), "{dockerfile}");
    let address = of("IMAGE").unwrap_or_default();
    assert!(address.starts_with(&format!("registry.test/muster/{namespace}/good:")), "{address}");

    // Another server continues with the same Job.
    let server = server.kill_and_start_again().await;
    wait_for_state(&server, &format!("{templates}/good"), "BUILDING").await;
    end(&harness, &pod, 0, "sha256:abc").await;
    let ready = wait_for_state(&server, &format!("{templates}/good"), "READY").await;
    assert_eq!((&ready["digest"], &ready["image"]), (&json!("sha256:abc"), &json!(address)), "{ready}");
    assert_eq!(jobs.list(&ListParams::default()).await.expect("a list").items.len(), 1);

    // A cluster uses the image.
    let groups = json!([{"groupName": "g", "replicas": 0, "imageTemplate": "good"}]);
    let cluster = json!({
        "name": "fred", "framework": "ray",
        "clusterSpec": {"headGroupSpec": {"imageTemplate": "good"}, "workerGroupSpec": groups},
    });
    server.post(&harness.clusters(), cluster).await;
    let object = harness.ray_clusters().get("fred").await.expect("its object");
    let container = &object.data["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], address);

    server.post(&templates, image("bad")).await;
    let pod = pod_of(&harness, 2).await;
    end(&harness, &pod, 1, "ERROR: no such package").await;
    let failed = wait_for_state(&server, &format!("{templates}/bad"), "FAILED").await;
    assert_eq!(failed["statusReason"], "ERROR: no such package", "{failed}");

    let (status, _, why) = server.refusal(Method::DELETE, &format!("{templates}/good"), None).await;
    assert_eq!(status, 409, "{why}");
    for name in ["good", "bad"] {
        let path = format!("{templates}/{name}?force=true");
        assert!(server.call(Method::DELETE, &path, None).await.status().is_success());
    }
    eventually("the Jobs are gone", TIMEOUT, async || {
        let left = jobs.list(&ListParams::default()).await.expect("a list").items;
        let stay = left.iter().filter(|job| job.metadata.deletion_timestamp.is_none()).count();
        if stay == 0 { Ok(()) } else { Err(format!("{stay} Jobs")) }
    })
    .await;
}

#[tokio::test]
async fn without_a_registry_or_a_base_image_nothing_is_built() {
    let Some(harness) = Harness::open().await else { return };
    let templates = format!("/namespaces/{}/image_templates", harness.namespace.name());
    let image = json!({"name": "a", "provider": "kubernetes", "baseImage": "b:1"});
    let server = harness.server(&[]).await;
    let (status, _, why) = server.refusal(Method::POST, &templates, Some(image)).await;
    assert_eq!(status, 400, "{why}");
    assert!(why.contains("set image_registry"), "{why}");
    let server = harness.server(&["--image-registry", "registry.test"]).await;
    let image = json!({"name": "a", "provider": "kubernetes"});
    let (status, _, why) = server.refusal(Method::POST, &templates, Some(image)).await;
    assert_eq!(status, 400, "{why}");
    assert!(why.starts_with("base_image is empty"), "{why}");
}

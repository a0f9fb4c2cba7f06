//! Machines served by the real server.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, ResourceExt as _};
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::server::{PATIENCE, Server};

/// The documents that `muster machines crds` prints.
fn definitions() -> Vec<CustomResourceDefinition> {
    let printed =
        std::process::Command::new(env!("CARGO_BIN_EXE_muster")).args(["machines", "crds"]).output();
    let printed = printed.expect("the binary runs");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let text = String::from_utf8(printed.stdout).expect("text");
    let read = |document: &str| {
        let value: Value = serde_saphyr::from_str(document).expect("YAML");
        serde_json::from_value(value).expect("a definition")
    };
    text.split("---\n").map(read).collect()
}

#[tokio::test]
async fn a_server_is_ready_once_it_answers_reviews_and_gives_slots_to_guests() {
    let Some(kubernetes) = muster_testkit::own_kubernetes().await else { return };
    let client = kubernetes.client();
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path").to_owned();
    let server =
        Server::start(&["--dev", "--kubeconfig", &kubeconfig, "--webhook-listen", "127.0.0.1:0"]).await;
    // The custom resources are waited for.
    let (status, answer) = server.probe("/readyz").await;
    assert_eq!((status, &answer["status"]), (503, &json!("unready")), "{answer}");
    assert!(answer["reason"].as_str().is_some_and(|why| why.contains("machines are not served")), "{answer}");
    for definition in definitions() {
        Api::all(client.clone()).create(&PostParams::default(), &definition).await.expect("a definition");
    }
    eventually("the server is ready", PATIENCE, async || match server.probe("/readyz").await {
        (200, _) => Ok(()),
        (status, answer) => Err(format!("{status} {answer}")),
    })
    .await;

    let node = Api::<Node>::all(client.clone()).get("node-0").await.expect("a node").name_any();
    let machine = json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "general", "labels": {"imperator.tenzen-y.io/machine-group": "general"}},
        "spec": {
            "nodePool": [{"name": node, "mode": "ready", "taint": true, "machineType": [{"name": "medium"}]}],
            "machineTypes": [{"name": "medium", "spec": {"cpu": "6", "memory": "48Gi"}, "available": 4}],
        },
    });
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("imperator.tenzen-y.io", "v1alpha1", "Machine"));
    let machines: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let machine: DynamicObject = serde_json::from_value(machine).expect("a Machine");
    machines.create(&PostParams::default(), &machine).await.expect("a Machine");
    let counted = async |expected: Value| {
        eventually(&format!("it is counted {expected}"), PATIENCE, async || {
            let machine = machines.get("general").await.expect("a Machine");
            let usage = machine.data["status"]["availableMachines"][0]["usage"].clone();
            if usage == expected { Ok(()) } else { Err(machine.data["status"].clone()) }
        })
        .await;
    };
    counted(json!({"maximum": 4, "reserved": 4, "used": 0, "waiting": 0})).await;

    let labels = json!({"imperator.tenzen.io/inject-resource": "enabled"});
    let namespace = json!({"metadata": {"name": "guests", "labels": labels}});
    let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.expect("a namespace");
    let labels = json!({"imperator.tenzen-y.io/machine-group": "general",
        "imperator.tenzen-y.io/machine-type": "medium", "imperator.tenzen-y.io/pod-role": "guest"});
    let guest = json!({"metadata": {"name": "ann", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]}});
    let guest: Pod = serde_json::from_value(guest).expect("a pod");
    Api::namespaced(client, "guests").create(&PostParams::default(), &guest).await.expect("a guest");
    counted(json!({"maximum": 4, "reserved": 3, "used": 1, "waiting": 0})).await;
    let metrics =
        reqwest::get(format!("{}/metrics", server.rest)).await.expect("metrics").text().await.expect("text");
    let slots = "muster_machine_slots{group=\"general\",machine_type=\"medium\",state=\"used\"} 1";
    assert!(metrics.contains(slots), "{metrics}");
}

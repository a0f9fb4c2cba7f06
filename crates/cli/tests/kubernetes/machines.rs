//! Machine types on the real server.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use muster_testkit::{Operator, OwnKubernetes, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::output_of;
use crate::machine_objects::{GUESTS, General, NODE};
use crate::server::{Server, TIMEOUT};

/// Parses the documents that `muster machines crds` prints.
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

/// Checks machine types in profiles of the clustering API.
async fn check_profiles(server: &Server) {
    let create = async |name: &str, machine_type: &str| {
        let machines = json!({"machine_group": "general", "machine_type": machine_type});
        let properties = json!({"namespace": GUESTS, "provider": "kubernetes", "worker": machines});
        let spec = json!({"type": "spark.cluster", "version": "1.0", "properties": properties});
        let profile = json!({"profile": {"name": name, "spec": spec}});
        let made = server.call_at(Method::POST, "/clustering/v1/profiles", Some(profile)).await;
        let status = made.status().as_u16();
        let made: Value = made.json().await.expect("JSON");
        if status != 201 {
            return (status, made);
        }
        let cluster =
            json!({"cluster": {"name": name, "profile_id": made["profile"]["id"], "desired_capacity": 1}});
        let made = server.call_at(Method::POST, "/clustering/v1/clusters", Some(cluster)).await;
        (made.status().as_u16(), made.json().await.expect("JSON"))
    };
    let (status, refused) = create("wrong", "large").await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused.to_string().contains("use one of medium"), "{refused}");
    let (status, made) = create("profiled", "medium").await;
    assert_eq!(status, 202, "{made}");
    wait_until_queued(server, "profiled").await;
}

/// Checks that the workers of a `RayCluster`, which its operator creates, are guests.
async fn check_kuberay(server: &Server, kubernetes: &OwnKubernetes) {
    output_of(&server.muster(&["delete", "profiled", "-n", GUESTS]));
    let Some(_) = kubernetes.operator(Operator::KubeRay).await else { return };
    let rachel = ["create", "rachel", "--framework", "ray", "--provider", "kubernetes", "--no-wait"];
    let sized = ["--workers", "1", "--machine-type", "general/medium", "-n", GUESTS];
    eventually("RayClusters are served", TIMEOUT, async || {
        let made = server.muster(&[&rachel[..], &sized].concat());
        if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
    })
    .await;
    wait_until_queued(server, "rachel").await;
    output_of(&server.muster(&["scale", "fred", "--workers", "3", "-n", GUESTS]));
    eventually("it has its slot", TIMEOUT, async || {
        let shown = server.get("/namespaces/guests/clusters/rachel").await;
        if shown["state"] == "ACTIVE" { Ok(()) } else { Err(shown) }
    })
    .await;
    let pods: Api<Pod> = Api::namespaced(kubernetes.client(), GUESTS);
    let workers = pods.list(&ListParams::default().labels("ray.io/node-type=worker")).await.expect("pods");
    let node = workers.items[0].spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    assert_eq!((workers.items.len(), node), (1, Some(NODE)));
}

/// Waits until the reason of a cluster is a missing slot.
async fn wait_until_queued(server: &Server, cluster: &str) {
    eventually(&format!("{cluster} waits for a slot"), TIMEOUT, async || {
        let shown = server.get(&format!("/namespaces/guests/clusters/{cluster}")).await;
        let reason = shown["statusReason"].as_str().unwrap_or_default();
        if reason.contains("waiting for slot 1 of medium") { Ok(()) } else { Err(shown) }
    })
    .await;
}

#[tokio::test]
async fn a_server_is_ready_once_it_answers_reviews_and_assigns_slots_to_guests() {
    let Some(kubernetes) = muster_testkit::own_kubernetes().await else { return };
    let client = kubernetes.client();
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path").to_owned();
    let server =
        Server::start(&["--dev", "--kubeconfig", &kubeconfig, "--webhook-listen", "127.0.0.1:0"]).await;
    // The server waits for the custom resources.
    let (status, answer) = server.probe("/readyz").await;
    assert_eq!((status, &answer["status"]), (503, &json!("unready")), "{answer}");
    assert!(
        answer["reason"].as_str().is_some_and(|why| why.contains("machine types are not ready")),
        "{answer}"
    );
    for definition in definitions() {
        Api::all(client.clone()).create(&PostParams::default(), &definition).await.expect("a definition");
    }
    eventually("the server is ready", TIMEOUT, async || match server.probe("/readyz").await {
        (200, _) => Ok(()),
        (status, answer) => Err(format!("{status} {answer}")),
    })
    .await;

    let general = General::create(client.clone(), 4).await;
    general.wait_for_counts(json!({"maximum": 4, "reserved": 4, "used": 0, "waiting": 0})).await;

    general.add_guest().await;
    general.wait_for_counts(json!({"maximum": 4, "reserved": 3, "used": 1, "waiting": 0})).await;
    let shown = output_of(&server.muster(&["machines", "-o", "wide"]));
    let line =
        shown.lines().find(|line| line.starts_with("general/medium")).unwrap_or_else(|| panic!("{shown}"));
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[1..], ["6", "48Gi", "0", "4", "3", "1", "0", "guests/ann", "<missing>"]);
    let listed = server.get("/machines").await;
    let guest = &listed["machineGroups"][0]["types"][0]["guests"][0];
    assert_eq!(
        (&guest["namespace"], &guest["pod"], &guest["hasSlot"]),
        (&json!("guests"), &json!("ann"), &json!(true))
    );
    // A cluster takes slots too, and waits while there are none.
    let create = |workers: &'static str, machine_type: &'static str| {
        let own = ["create", "fred", "--framework", "spark", "--provider", "kubernetes", "--no-wait"];
        let sized = ["--workers", workers, "--machine-type", machine_type, "-n", "guests"];
        server.muster(&[&own[..], &sized].concat())
    };
    let refused = create("1", "general/large");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("machine type 'large' not found in group 'general': use one of medium"), "{why}");
    output_of(&create("4", "general/medium"));
    let cluster = async || server.get("/namespaces/guests/clusters/fred").await;
    wait_until_queued(&server, "fred").await;
    general.wait_for_counts(json!({"maximum": 4, "reserved": 0, "used": 4, "waiting": 1})).await;
    let guests: Api<Pod> = Api::namespaced(client, GUESTS);
    guests.delete("ann", &DeleteParams::default().grace_period(0)).await.expect("it is deleted");
    eventually("it has all its slots", TIMEOUT, async || {
        let shown = cluster().await;
        if shown["state"] == "ACTIVE" { Ok(()) } else { Err(shown) }
    })
    .await;
    let group = &cluster().await["clusterSpec"]["workerGroupSpec"][0];
    assert_eq!((&group["machineGroup"], &group["machineType"]), (&json!("general"), &json!("medium")));
    assert_eq!(group["shape"]["cpu"], "6", "{group}");
    check_profiles(&server).await;
    check_kuberay(&server, &kubernetes).await;
    let metrics =
        reqwest::get(format!("{}/metrics", server.rest)).await.expect("metrics").text().await.expect("text");
    let slots = "muster_machine_slots{group=\"general\",machine_type=\"medium\",state=\"used\"} 4";
    assert!(metrics.contains(slots), "{metrics}");
}

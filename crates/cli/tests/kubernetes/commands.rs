//! The same commands as with local clusters.

use std::process::Stdio;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PostParams;
use muster_testkit::eventually;
use serde_json::json;

use crate::harness::{Harness, output_of};
use crate::server::TIMEOUT;

#[tokio::test]
async fn the_same_commands_manage_a_cluster_on_kubernetes() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let muster = |arguments: &[&str]| output_of(&harness.muster(&server, arguments));
    let shown =
        muster(&["create", "fred", "--framework", "ray", "--provider", "kubernetes", "--workers", "3"]);
    assert!(shown.contains("ACTIVE") && shown.contains("3/3"), "{shown}");
    let namespace = harness.namespace.name();
    let way_in = format!("kubectl -n {namespace} port-forward svc/fred-head-svc 8265");
    assert!(shown.contains(&way_in), "{shown}");
    assert_eq!(harness.desired_workers().await, [("fred".to_owned(), 3.into())]);

    assert!(muster(&["scale", "fred", "--workers", "1"]).contains("1/1"));
    let nodes = muster(&["nodes", "fred"]);
    assert!(nodes.lines().any(|line| line.contains(" head ") && line.contains("ACTIVE")), "{nodes}");
    muster(&["restart", "fred"]);
    let events = muster(&["events", "fred"]);
    assert!(events.contains("CreatedHeadPod") && events.contains("CLUSTER_RESIZE"), "{events}");
    assert!(muster(&["env", "fred"]).contains("RAY_AUTH_TOKEN="));
    muster(&["delete", "fred"]);
    assert_eq!(harness.desired_workers().await, []);
}

#[tokio::test]
async fn a_creation_that_waits_for_machines_is_completed_by_a_scale() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("slow.json");
    // No node has so many processors.
    let group = json!({"group_name": "g", "replicas": 2, "shape": {"cpu": "100000"}});
    let cluster = json!({"name": "slow", "framework": "ray", "cluster_spec": {"worker_group_spec": [group]}});
    std::fs::write(&file, cluster.to_string()).expect("a file");
    let file = file.to_str().expect("a path of plain letters");
    let mut create = server.command(&["create", "-f", file, "-n", harness.namespace.name()]);
    let create = create.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let is_created = eventually("an object", TIMEOUT, async || {
        if harness.desired_workers().await.is_empty() { Err("no object") } else { Ok(()) }
    });
    is_created.await;
    let scaled = harness.muster(&server, &["scale", "slow", "--workers", "0"]);
    let created = create.wait_with_output().expect("it can be waited for");
    let scaled = output_of(&scaled);
    assert!(scaled.contains("ACTIVE") && scaled.contains("0/0"), "{scaled}");
    let created = output_of(&created);
    assert!(created.contains("ACTIVE") && created.contains("0/0"), "{created}");
    output_of(&harness.muster(&server, &["delete", "slow"]));
}

#[tokio::test]
async fn clusters_without_a_provider_are_created_on_kubernetes() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let shown = output_of(&harness.muster(&server, &["create", "fred", "--framework", "ray", "-o", "json"]));
    assert!(shown.contains(r#""provider": "kubernetes""#), "{shown}");
    let local = harness.muster(&server, &["create", "here", "--framework", "spark", "--provider", "nowhere"]);
    let why = String::from_utf8_lossy(&local.stderr).into_owned();
    assert!(why.contains("provider 'nowhere' not found: use one of kubernetes, local"), "{why}");
    output_of(&harness.muster(&server, &["delete", "fred"]));
}

/// The master of a Spark cluster that another program creates.
fn master_of_spark(cluster: &str) -> Deployment {
    let labels = json!({"oshinko-cluster": cluster, "oshinko-type": "master"});
    let container = json!({"name": "master", "image": "example.test/spark:1"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
    let deployment = json!({"metadata": {"name": format!("{cluster}-m"), "labels": labels}, "spec": spec});
    serde_json::from_value(deployment).expect("a Deployment")
}

#[tokio::test]
async fn the_framework_selects_among_clusters_of_one_name() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let muster = |arguments: &[&str]| output_of(&harness.muster(&server, arguments));
    muster(&["create", "fred", "--framework", "ray", "--workers", "0"]);
    let theirs = harness.namespace.api::<Deployment>();
    theirs
        .create(&PostParams::default(), &master_of_spark("fred"))
        .await
        .expect("created by another program");
    let why = eventually("a name that two clusters have", TIMEOUT, async || {
        let got = harness.muster(&server, &["get", "fred"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if got.status.success() { Err(text(&got.stdout)) } else { Ok(text(&got.stderr)) }
    });
    let why = why.await;
    assert!(why.contains("choose one by framework, provider or id"), "{why}");
    assert!(why.contains("ray on kubernetes: ") && why.contains("spark on kubernetes: "), "{why}");
    assert_eq!(harness.muster(&server, &["delete", "fred"]).status.code(), Some(2));

    assert!(muster(&["get", "fred", "--framework", "spark"]).contains("spark"));
    muster(&["scale", "fred", "--framework", "ray", "--workers", "1"]);
    for command in ["nodes", "events", "actions", "env"] {
        muster(&[command, "fred", "--framework", "ray", "--provider", "kubernetes"]);
    }
    muster(&["restart", "fred", "--framework", "ray"]);
    muster(&["delete", "fred", "--framework", "ray"]);
    assert!(muster(&["get", "fred"]).contains("spark"), "it is the only one now");
    assert_eq!(muster(&["get", "--framework", "ray", "-o", "name"]), "");
    assert_eq!(muster(&["get", "--framework", "spark", "-o", "name"]), "fred\n");
}

//! GPU devices, which only one node uses at a time. The devices of these tests exist in the configuration only.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::clusters::{CLUSTERS, Member, reason, state};
use crate::harness::Harness;
use crate::recipes::dask;
use crate::traces::kill;

/// Starts a harness with Dask and two devices; `None` if the test is skipped.
async fn two_gpus() -> Option<Harness> {
    let python = muster_testkit::python("dask").await?;
    let path = python.path().display().to_string();
    Some(Harness::with(&[("MUSTER_PYTHON", &path), ("MUSTER_GPUS", "2")]).await)
}

/// A Dask cluster whose workers request one device each.
fn with_gpus(name: &str, workers: u32) -> Value {
    let mut cluster = dask(name, workers);
    cluster["cluster_spec"]["worker_group_spec"][0]["shape"] = json!({"gpu": 1});
    cluster
}

/// Returns the devices of the nodes that have some, by the name of the node.
async fn devices(harness: &Harness, cluster: &str) -> Vec<(String, Value)> {
    let nodes = harness.list(cluster, "nodes").await;
    let mut devices: Vec<(String, Value)> = nodes
        .iter()
        .filter(|node| !node["gpuDevices"].is_null())
        .map(|node| (node["name"].as_str().unwrap_or_default().to_owned(), node["gpuDevices"].clone()))
        .collect();
    devices.sort_by(|(left, _), (right, _)| left.cmp(right));
    devices
}

fn device(node: &str, number: u32) -> (String, Value) {
    (node.to_owned(), json!([number]))
}

/// Returns the value of a variable in the environment of a node.
fn variable(node: &Member, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{}/environ", node.pid())).expect("it runs");
    let variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut values =
        variables.filter_map(|one| Some(one.split_once('=').filter(|(key, _)| *key == name)?.1.to_owned()));
    values.next()
}

/// Creates a cluster that has to wait for a device, and waits until it says so.
async fn create_waiting(harness: &Harness, name: &str, why: &str) {
    harness.post(CLUSTERS, with_gpus(name, 1)).await;
    harness.until(name, |cluster| reason(cluster).contains(why)).await;
    let node = &harness.workers(name).await[0];
    assert_eq!((node.state.as_str(), node.reason.as_str()), ("CREATING", why));
}

#[tokio::test]
async fn a_node_waits_for_a_gpu_until_another_cluster_frees_one() {
    let Some(harness) = two_gpus().await else { return };
    let large = harness.call(Method::POST, CLUSTERS, Some(with_gpus("large", 3))).await;
    assert_eq!(large.status(), StatusCode::BAD_REQUEST);
    let refused = large.text().await.expect("a body");
    let sentence = "its nodes together request 3 × 1 = 3 gpu; this machine has 2: request less";
    assert!(refused.contains(sentence), "{refused}");

    assert_eq!(state(&harness.create(&with_gpus("fred", 2)).await), "ACTIVE");
    let both = [device("fred-worker-1", 0), device("fred-worker-2", 1)];
    assert_eq!(devices(&harness, "fred").await, both);
    let shown = harness.muster(&["nodes", "fred"]);
    let line = |text: &str, node: &str| {
        let line = text.lines().find(|line| line.starts_with(node)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{node} is not in {text}"))
    };
    assert!(line(&shown, "fred-worker-2").ends_with(" 1"), "{shown}");
    let described = harness.muster(&["describe", "fred"]);
    assert!(line(&described, "fred-worker-1").ends_with(" 0"), "{described}");

    create_waiting(&harness, "ann", "waiting for 1 GPU: 2 of 2 are in use by fred").await;
    let warned = harness.until_event("ann", "Overcommitted").await;
    assert!(warned[0].ends_with("it is overcommitted; nodes wait until enough gpus are free"), "{warned:?}");
    // A cluster without gpus does not wait, and sees no device.
    assert_eq!(state(&harness.create(&dask("bob", 1)).await), "ACTIVE");
    assert_eq!(variable(&harness.workers("bob").await[0], "CUDA_VISIBLE_DEVICES").as_deref(), Some(""));
    assert_eq!(devices(&harness, "bob").await, []);

    assert_eq!(harness.scale("fred", 1).await["readyWorkers"], 1);
    harness.until_active("ann", 1).await;
    let (of_fred, of_ann) = (devices(&harness, "fred").await, devices(&harness, "ann").await);
    assert_ne!(of_fred[0].1, of_ann[0].1, "{of_fred:?} {of_ann:?}");
    let visible =
        variable(&harness.workers("ann").await[0], "CUDA_VISIBLE_DEVICES").expect("it has a device");
    assert_eq!(of_ann, [device("ann-worker-1", visible.parse().expect("a number"))]);

    // A waiting cluster is deleted without waiting.
    create_waiting(&harness, "carl", "waiting for 1 GPU: 2 of 2 are in use by ann, fred").await;
    for name in ["carl", "ann", "bob"] {
        harness.delete(name).await;
    }
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn assigned_gpus_stay_assigned_when_the_server_is_killed() {
    let Some(mut harness) = two_gpus().await else { return };
    for name in ["fred", "ann"] {
        assert_eq!(state(&harness.create(&with_gpus(name, 1)).await), "ACTIVE");
    }
    create_waiting(&harness, "bob", "waiting for 1 GPU: 2 of 2 are in use by ann, fred").await;
    harness.kill_and_start_again().await;
    assert_eq!(devices(&harness, "fred").await, [device("fred-worker-1", 0)]);
    assert_eq!(devices(&harness, "ann").await, [device("ann-worker-1", 1)]);
    // A new cluster waits too, and a lost node is restarted with a device of its own.
    create_waiting(&harness, "carl", "waiting for 1 GPU: 2 of 2 are in use by ann, fred").await;
    harness.delete("carl").await;
    // While no server runs, the worker ends with its supervisor.
    let (worker, shim) = {
        let worker = &harness.workers("ann").await[0];
        (worker.pid(), worker.shim())
    };
    harness.delete("bob").await;
    harness.kill().await;
    kill(shim);
    kill(worker);
    harness.start().await;
    harness.until_event("ann", "NodeLost").await;
    harness.until_active("ann", 1).await;
    assert_eq!(devices(&harness, "ann").await, [device("ann-worker-1", 1)]);
    create_waiting(&harness, "bob", "waiting for 1 GPU: 2 of 2 are in use by ann, fred").await;
    harness.delete("ann").await;
    harness.until_active("bob", 1).await;
    assert_eq!(devices(&harness, "bob").await, [device("bob-worker-1", 1)]);
    harness.delete("fred").await;
    harness.delete_without_trace("bob").await;
}

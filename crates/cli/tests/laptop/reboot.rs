//! A reboot of the machine, which the server recognises by another boot id.

use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{Member, reason, state};
use crate::harness::Harness;
use crate::recipes::{dask, sleepers};

/// Simulates a reboot: kills all processes, and changes the boot id in their states.
async fn reboot(harness: &mut Harness, nodes: &[Member]) {
    harness.kill().await;
    harness.traces().kill();
    for node in nodes {
        let text = std::fs::read(node.state_file()).expect("a state");
        let mut state: Value = serde_json::from_slice(&text).expect("JSON");
        state["boot_id"] = json!("00000000-0000-0000-0000-000000000000");
        // A power cut leaves no exit status.
        state["end"] = Value::Null;
        std::fs::write(node.state_file(), state.to_string()).expect("it can be written");
    }
    harness.start().await;
}

#[tokio::test]
async fn after_a_reboot_a_cluster_waits_for_its_user() {
    let Some((mut harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let mut nodes = harness.workers("fred").await;
    nodes.push(harness.head("fred").await);
    reboot(&mut harness, &nodes).await;
    let lost = harness.until("fred", |cluster| state(cluster) == "CRITICAL").await;
    assert!(reason(&lost).starts_with("HostRestarted: the machine restarted"), "{lost}");
    assert_eq!(harness.messages("fred", "HostRestarted").await, ["the machine restarted"; 2]);
    let actions = harness.list("fred", "actions").await;
    let healing = actions.iter().any(|action| action["action"] == "CLUSTER_RECOVER");
    assert!(!healing, "it was restarted without a request: {actions:#?}");
    assert_eq!(harness.traces().processes, [] as [(i32, String); 0]);
    let restarted = harness.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    Client::connect(&python, &restarted).await.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn after_a_reboot_scaling_restarts_nodes_and_deletion_works() {
    let mut harness = Harness::bare().await;
    harness.create(&sleepers("stays", 2)).await;
    harness.create(&sleepers("goes", 1)).await;
    let nodes = [harness.workers("stays").await, harness.workers("goes").await].concat();
    reboot(&mut harness, &nodes).await;
    for name in ["stays", "goes"] {
        let lost = harness.until(name, |cluster| state(cluster) == "CRITICAL").await;
        assert!(reason(&lost).starts_with("HostRestarted"), "{lost}");
    }
    harness.delete("goes").await;
    let scaled = harness.scale("stays", 3).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(3)), "{scaled}");
    harness.delete_without_trace("stays").await;
}

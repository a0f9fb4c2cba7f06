//! A machine that was restarted, as far as the server can tell: by another boot id.

use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{Member, reason, state};
use crate::laptop::Laptop;
use crate::recipes::{dask, sleepers};

/// What a machine leaves that was restarted: no process, and states of another boot.
async fn reboot(laptop: &mut Laptop, nodes: &[Member]) {
    laptop.kill().await;
    laptop.traces().kill();
    for node in nodes {
        let text = std::fs::read(node.state_file()).expect("a state");
        let mut state: Value = serde_json::from_slice(&text).expect("JSON");
        state["boot_id"] = json!("00000000-0000-0000-0000-000000000000");
        // A power cut leaves no last words.
        state["end"] = Value::Null;
        std::fs::write(node.state_file(), state.to_string()).expect("it can be written");
    }
    laptop.start().await;
}

#[tokio::test]
async fn a_cluster_whose_machine_was_restarted_waits_for_its_user() {
    let Some((mut laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 1)).await;
    let mut nodes = laptop.workers("fred").await;
    nodes.push(laptop.head("fred").await);
    reboot(&mut laptop, &nodes).await;
    let lost = laptop.until("fred", |cluster| state(cluster) == "CRITICAL").await;
    assert!(reason(&lost).starts_with("HostRestarted: its machine was restarted"), "{lost}");
    assert_eq!(laptop.messages("fred", "HostRestarted").await, ["its machine was restarted"; 2]);
    let actions = laptop.list("fred", "actions").await;
    let healing = actions.iter().any(|action| action["action"] == "CLUSTER_RECOVER");
    assert!(!healing, "nobody brings it back unasked: {actions:#?}");
    assert_eq!(laptop.traces().processes, [] as [(i32, String); 0]);
    let restarted = laptop.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    Client::connect(&python, &restarted).await.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn after_a_restart_of_the_machine_scaling_brings_back_and_deleting_deletes() {
    let mut laptop = Laptop::bare().await;
    laptop.create(&sleepers("stays", 2)).await;
    laptop.create(&sleepers("goes", 1)).await;
    let nodes = [laptop.workers("stays").await, laptop.workers("goes").await].concat();
    reboot(&mut laptop, &nodes).await;
    for name in ["stays", "goes"] {
        let lost = laptop.until(name, |cluster| state(cluster) == "CRITICAL").await;
        assert!(reason(&lost).starts_with("HostRestarted"), "{lost}");
    }
    laptop.delete("goes").await;
    let scaled = laptop.scale("stays", 3).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(3)), "{scaled}");
    laptop.delete_without_trace("stays").await;
}

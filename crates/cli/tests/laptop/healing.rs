//! Dead nodes are observed at once, reported, and restarted up to a limit.

use muster_testkit::lives;

use crate::client::Client;
use crate::clusters::{CLUSTERS, reason, state};
use crate::harness::Harness;
use crate::recipes::{dask, sleepers};
use crate::traces::kill;

#[tokio::test]
async fn a_killed_worker_is_restarted_three_times_and_then_the_cluster_says_why_not() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 2)).await;
    let mut client = Client::connect(&python, &created).await;
    let [victim, other] = &harness.workers("fred").await[..] else { panic!("two workers") };
    for round in 1..=3 {
        kill(harness.workers("fred").await[0].pid());
        let healed = harness.until_ended("fred", "CLUSTER_RECOVER", round).await;
        assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
        client.computes().await;
    }
    let messages = harness.messages("fred", "NodeLost").await;
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].starts_with("it was ended by signal 9 (SIGKILL)"), "{messages:?}");
    assert!(
        messages[0].contains("its last lines:\n") && messages[0].contains("distributed.worker"),
        "{messages:?}"
    );
    kill(harness.workers("fred").await[0].pid());
    harness.until_ended("fred", "CLUSTER_RECOVER", 4).await;
    let given_up = harness.cluster("fred").await;
    assert_eq!(state(&given_up), "WARNING", "{given_up}");
    let words = reason(&given_up);
    assert!(
        words.contains("started 3 times in 10 minutes, the limit; the next start is possible in"),
        "{words}"
    );
    assert!(words.contains("it was ended by signal 9 (SIGKILL)"), "{words}");
    assert!(words.contains(&victim.name), "{words}");
    assert!(lives(other.pid()), "the other one has nothing to do with it");
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_killed_head_is_restarted_at_its_address_with_new_workers_and_its_clients_reconnect() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 2)).await;
    let mut client = Client::connect(&python, &created).await;
    client.computes().await;
    let before = harness.workers("fred").await;
    kill(harness.head("fred").await.pid());
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    let cluster = harness.until_active("fred", 2).await;
    assert_eq!(cluster["endpoints"], created["endpoints"], "the same addresses");
    for (old, new) in before.iter().zip(harness.workers("fred").await) {
        assert_eq!(old.name, new.name);
        assert!(!lives(old.pid()) && lives(new.pid()), "{old:?} {new:?}");
    }
    client.computes().await;
    let head = harness.head("fred").await;
    let restarted = harness.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    assert!(!lives(head.pid()));
    let replaced = harness.messages("fred", "WorkersReplaced").await;
    assert_eq!(
        replaced,
        ["the restart of its head also replaces 2 workers: they cannot rejoin a new head"],
        "once, for the restart that was asked for"
    );
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_node_that_dies_while_workers_start_is_observed() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    for (workers, of_the_new_one) in [(2, true), (3, false)] {
        let old = harness.traces();
        let body = serde_json::json!({"replicas": workers, "wait_for": "accepted"});
        harness.post(&format!("{CLUSTERS}/fred/scale"), body).await;
        let begun = harness.until_started(&old, "dask worker").await;
        kill(if of_the_new_one { begun } else { harness.head("fred").await.pid() });
        let resized = harness.until_ended("fred", "CLUSTER_RESIZE", workers - 1).await;
        assert_eq!(resized["status"], "SUCCEEDED", "{resized}");
        harness.until_active("fred", u32::try_from(workers).unwrap()).await;
        client.computes().await;
    }
    let messages = harness.messages("fred", "NodeExited").await;
    assert!(messages[0].starts_with("it was ended by signal 9 (SIGKILL)"), "{messages:?}");
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn killed_shims_end_their_nodes_and_all_are_restarted() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    let worker = harness.workers("fred").await.remove(0);
    kill(worker.shim());
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    assert!(!lives(worker.pid()), "it died with its shim");
    let messages = harness.messages("fred", "NodeLost").await;
    assert!(messages[0].contains("its exit status is unknown (shim lost)"), "{messages:?}");
    client.computes().await;
    harness.traces().kill();
    harness.until("fred", |cluster| state(cluster) != "ACTIVE").await;
    let cluster = harness.until_active("fred", 1).await;
    assert_eq!(cluster["endpoints"], created["endpoints"]);
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn ended_plain_processes_are_reported_and_restarted_on_request() {
    let harness = Harness::bare().await;
    harness.create(&sleepers("naps", 2)).await;
    kill(harness.workers("naps").await[0].pid());
    let seen = harness.until("naps", |cluster| state(cluster) == "WARNING").await;
    let words = reason(&seen);
    assert!(words.contains("below desired_capacity (2)") && words.contains("signal 9 (SIGKILL)"), "{seen}");
    let messages = harness.messages("naps", "NodeLost").await;
    assert!(messages[0].contains("signal 9 (SIGKILL)"), "{messages:?}");
    assert_eq!(state(&harness.scale("naps", 2).await), "ACTIVE");
    kill(harness.workers("naps").await[1].shim());
    harness.until("naps", |cluster| state(cluster) == "WARNING").await;
    harness.delete_without_trace("naps").await;
}

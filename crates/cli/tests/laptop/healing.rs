//! What dies is seen at once, told, and brought back; up to a limit.

use muster_testkit::lives;

use crate::client::Client;
use crate::clusters::{CLUSTERS, reason, state};
use crate::laptop::Laptop;
use crate::recipes::{dask, sleepers};
use crate::traces::kill;

#[tokio::test]
async fn a_killed_worker_comes_back_three_times_and_then_the_cluster_says_why_not() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 2)).await;
    let mut client = Client::connect(&python, &created).await;
    let [victim, other] = &laptop.workers("fred").await[..] else { panic!("two workers") };
    for round in 1..=3 {
        kill(laptop.workers("fred").await[0].pid());
        let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", round).await;
        assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
        client.computes().await;
    }
    let messages = laptop.messages("fred", "NodeLost").await;
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].starts_with("it was ended by signal 9 (SIGKILL)"), "{messages:?}");
    assert!(
        messages[0].contains("its last lines:\n") && messages[0].contains("distributed.worker"),
        "{messages:?}"
    );
    kill(laptop.workers("fred").await[0].pid());
    laptop.until_ended("fred", "CLUSTER_RECOVER", 4).await;
    let given_up = laptop.cluster("fred").await;
    assert_eq!(state(&given_up), "WARNING", "{given_up}");
    let words = reason(&given_up);
    assert!(words.contains("started 3 times in 10 minutes, and may be again in"), "{words}");
    assert!(words.contains("it was ended by signal 9 (SIGKILL)"), "{words}");
    assert!(words.contains(&victim.name), "{words}");
    assert!(lives(other.pid()), "the other one has nothing to do with it");
    client.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_killed_head_comes_back_where_it_was_with_new_workers_and_its_clients_find_it() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 2)).await;
    let mut client = Client::connect(&python, &created).await;
    client.computes().await;
    let before = laptop.workers("fred").await;
    kill(laptop.head("fred").await.pid());
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    let cluster = laptop.until_active("fred", 2).await;
    assert_eq!(cluster["endpoints"], created["endpoints"], "the same addresses");
    for (old, new) in before.iter().zip(laptop.workers("fred").await) {
        assert_eq!(old.name, new.name);
        assert!(!lives(old.pid()) && lives(new.pid()), "{old:?} {new:?}");
    }
    client.computes().await;
    let head = laptop.head("fred").await;
    let restarted = laptop.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    assert!(!lives(head.pid()));
    let replaced = laptop.messages("fred", "WorkersReplaced").await;
    assert_eq!(
        replaced,
        ["the restart of its head also replaces 2 workers: they cannot rejoin a new head"],
        "once, for the restart that was asked for"
    );
    client.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn what_dies_while_workers_start_is_part_of_what_is_seen() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    for (workers, of_the_new_one) in [(2, true), (3, false)] {
        let old = laptop.traces();
        let body = serde_json::json!({"replicas": workers, "wait_for": "accepted"});
        laptop.post(&format!("{CLUSTERS}/fred/scale"), body).await;
        let begun = laptop.until_begun(&old, "dask worker").await;
        kill(if of_the_new_one { begun } else { laptop.head("fred").await.pid() });
        let resized = laptop.until_ended("fred", "CLUSTER_RESIZE", workers - 1).await;
        assert_eq!(resized["status"], "SUCCEEDED", "{resized}");
        laptop.until_active("fred", u32::try_from(workers).unwrap()).await;
        client.computes().await;
    }
    let messages = laptop.messages("fred", "NodeExited").await;
    assert!(messages[0].starts_with("it was ended by signal 9 (SIGKILL)"), "{messages:?}");
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn killed_shims_take_their_nodes_along_and_everything_comes_back() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    let worker = laptop.workers("fred").await.remove(0);
    kill(worker.shim());
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    assert!(!lives(worker.pid()), "it died with its shim");
    let messages = laptop.messages("fred", "NodeLost").await;
    assert!(messages[0].contains("how is unknown (shim lost)"), "{messages:?}");
    client.computes().await;
    laptop.traces().kill();
    laptop.until("fred", |cluster| state(cluster) != "ACTIVE").await;
    let cluster = laptop.until_active("fred", 1).await;
    assert_eq!(cluster["endpoints"], created["endpoints"]);
    client.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn plain_processes_are_told_when_they_end_and_come_back_when_asked_for() {
    let laptop = Laptop::bare().await;
    laptop.create(&sleepers("naps", 2)).await;
    kill(laptop.workers("naps").await[0].pid());
    let seen = laptop.until("naps", |cluster| state(cluster) == "WARNING").await;
    let words = reason(&seen);
    assert!(words.contains("below desired_capacity (2)") && words.contains("signal 9 (SIGKILL)"), "{seen}");
    let messages = laptop.messages("naps", "NodeLost").await;
    assert!(messages[0].contains("signal 9 (SIGKILL)"), "{messages:?}");
    assert_eq!(state(&laptop.scale("naps", 2).await), "ACTIVE");
    kill(laptop.workers("naps").await[1].shim());
    laptop.until("naps", |cluster| state(cluster) == "WARNING").await;
    laptop.delete_without_trace("naps").await;
}

//! Servers that come back, stand side by side, or are told to stop in the middle.

use muster_testkit::{eventually, lives};
use serde_json::json;

use crate::client::Client;
use crate::clusters::state;
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::{dask, processes, sleepers};
use crate::traces::kill;

#[tokio::test]
async fn a_server_finds_its_nodes_again_also_when_its_runtime_folder_is_another() {
    let Some((mut laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    let worker = laptop.workers("fred").await.remove(0);
    laptop.kill().await;
    client.computes().await;
    laptop.move_runtime_folder();
    laptop.start().await;
    assert_eq!(laptop.workers("fred").await[0].pid, worker.pid, "it was not touched");
    assert_eq!(laptop.scale("fred", 2).await["readyWorkers"], 2);
    client.computes().await;
    kill(worker.pid());
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    client.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn what_ends_while_no_server_runs_is_told_by_the_next_one() {
    let mut laptop = Laptop::bare().await;
    let properties = json!({"command": ["sh", "-c", "trap 'echo got it; exit 5' USR1; echo listening; while :; do sleep 0.02; done"]});
    laptop.create(&processes("naps", 1, &properties)).await;
    let worker = laptop.workers("naps").await.remove(0);
    eventually("'listening' in the worker's log", PATIENCE, async || {
        let log = worker.log();
        if log.contains("listening") { Ok(()) } else { Err(log) }
    })
    .await;
    laptop.kill().await;
    let pid = rustix::process::Pid::from_raw(worker.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    let shim = worker.shim();
    eventually("the end of the worker's shim", PATIENCE, async || {
        if lives(shim) { Err(format!("process {shim}\n{}", worker.log())) } else { Ok(()) }
    })
    .await;
    laptop.start().await;
    laptop.until("naps", |cluster| state(cluster) == "WARNING").await;
    let messages = laptop.messages("naps", "NodeLost").await;
    assert_eq!(messages, ["it exited with code 5; its last lines:\nlistening\ngot it"]);
    laptop.delete_without_trace("naps").await;
}

#[tokio::test]
async fn two_servers_do_not_disturb_each_other() {
    let (mut left, right) = (Laptop::bare().await, Laptop::bare().await);
    left.create(&sleepers("same", 2)).await;
    right.create(&sleepers("same", 2)).await;
    let theirs = right.workers("same").await;
    left.kill().await;
    left.traces().kill();
    left.start().await;
    left.until("same", |cluster| state(cluster) != "ACTIVE").await;
    left.delete_without_trace("same").await;
    assert!(theirs.iter().all(|worker| lives(worker.pid())), "{theirs:?}");
    assert_eq!(state(&right.cluster("same").await), "ACTIVE");
    right.delete_without_trace("same").await;
}

#[tokio::test]
async fn a_create_that_is_cancelled_and_deleted_leaves_nothing() {
    let Some((laptop, _)) = Laptop::with_dask().await else { return };
    laptop.post("/namespaces/demo/clusters", dask("fred", 2)).await;
    eventually("two processes of the cluster", PATIENCE, async || {
        let processes = laptop.traces().processes;
        if processes.len() < 2 { Err(format!("{processes:?}\n{}", laptop.words())) } else { Ok(()) }
    })
    .await;
    let actions = laptop.list("fred", "actions").await;
    let create = actions.iter().find(|action| action["action"] == "CLUSTER_CREATE").expect("a create");
    let id = create["id"].as_str().unwrap();
    laptop.post(&format!("/actions/{id}/cancel"), json!({"wait_for": "reached"})).await;
    laptop.shows_what_runs("fred").await;
    laptop.delete_without_trace("fred").await;
    // The same without a word in between.
    laptop.post("/namespaces/demo/clusters", dask("fred", 2)).await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_resize_that_is_cancelled_leaves_nothing_that_nobody_knows_of() {
    let Some((laptop, _)) = Laptop::with_dask().await else { return };
    laptop.create(&dask("fred", 1)).await;
    let before = laptop.traces();
    let body = json!({"replicas": 3, "wait_for": "accepted"});
    laptop.post("/namespaces/demo/clusters/fred/scale", body).await;
    laptop.until_begun(&before, "dask worker").await;
    let actions = laptop.list("fred", "actions").await;
    let resize = actions.iter().find(|action| action["action"] == "CLUSTER_RESIZE").expect("a resize");
    let id = resize["id"].as_str().unwrap();
    laptop.post(&format!("/actions/{id}/cancel"), json!({"wait_for": "reached"})).await;
    laptop.shows_what_runs("fred").await;
    assert_eq!(state(&laptop.scale("fred", 2).await), "ACTIVE", "and it goes on from there");
    laptop.delete_without_trace("fred").await;
}

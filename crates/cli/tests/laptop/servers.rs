//! Servers that restart, run side by side, or stop during an action.

use muster_testkit::{eventually, lives};
use serde_json::json;

use crate::client::Client;
use crate::clusters::state;
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::{dask, processes, sleepers};
use crate::traces::kill;

#[tokio::test]
async fn a_restarted_server_finds_its_nodes_even_with_another_runtime_folder() {
    let Some((mut harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    let worker = harness.workers("fred").await.remove(0);
    harness.kill().await;
    client.computes().await;
    harness.move_runtime_folder();
    harness.start().await;
    assert_eq!(harness.workers("fred").await[0].pid, worker.pid, "it was not touched");
    assert_eq!(harness.scale("fred", 2).await["readyWorkers"], 2);
    client.computes().await;
    kill(worker.pid());
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn what_ends_while_no_server_runs_is_reported_by_the_next_one() {
    let mut harness = Harness::bare().await;
    let properties = json!({"command": ["sh", "-c", "trap 'echo got it; exit 5' USR1; echo listening; while :; do sleep 0.02; done"]});
    harness.create(&processes("naps", 1, &properties)).await;
    let worker = harness.workers("naps").await.remove(0);
    eventually("'listening' in the worker's log", TIMEOUT, async || {
        let log = worker.log();
        if log.contains("listening") { Ok(()) } else { Err(log) }
    })
    .await;
    harness.kill().await;
    let pid = rustix::process::Pid::from_raw(worker.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    let shim = worker.shim();
    eventually("the end of the worker's shim", TIMEOUT, async || {
        if lives(shim) { Err(format!("process {shim}\n{}", worker.log())) } else { Ok(()) }
    })
    .await;
    harness.start().await;
    harness.until("naps", |cluster| state(cluster) == "WARNING").await;
    let messages = harness.messages("naps", "NodeLost").await;
    assert_eq!(messages, ["it exited with code 5; its last lines:\nlistening\ngot it"]);
    harness.delete_without_trace("naps").await;
}

#[tokio::test]
async fn two_servers_do_not_interfere() {
    let (mut left, right) = (Harness::bare().await, Harness::bare().await);
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
async fn a_cancelled_and_deleted_creation_leaves_nothing() {
    let Some((harness, _)) = Harness::with_dask().await else { return };
    harness.post("/namespaces/demo/clusters", dask("fred", 2)).await;
    eventually("two processes of the cluster", TIMEOUT, async || {
        let processes = harness.traces().processes;
        if processes.len() < 2 { Err(format!("{processes:?}\n{}", harness.log_tail())) } else { Ok(()) }
    })
    .await;
    let actions = harness.list("fred", "actions").await;
    let create = actions.iter().find(|action| action["action"] == "CLUSTER_CREATE").expect("a create");
    let id = create["id"].as_str().unwrap();
    harness.post(&format!("/actions/{id}/cancel"), json!({"wait_for": "reached"})).await;
    harness.check_processes("fred").await;
    harness.delete_without_trace("fred").await;
    // The same without output in between.
    harness.post("/namespaces/demo/clusters", dask("fred", 2)).await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cancelled_resize_leaves_no_unknown_nodes() {
    let Some((harness, _)) = Harness::with_dask().await else { return };
    harness.create(&dask("fred", 1)).await;
    let before = harness.traces();
    let body = json!({"replicas": 3, "wait_for": "accepted"});
    harness.post("/namespaces/demo/clusters/fred/scale", body).await;
    harness.until_started(&before, "dask worker").await;
    let actions = harness.list("fred", "actions").await;
    let resize = actions.iter().find(|action| action["action"] == "CLUSTER_RESIZE").expect("a resize");
    let id = resize["id"].as_str().unwrap();
    harness.post(&format!("/actions/{id}/cancel"), json!({"wait_for": "reached"})).await;
    harness.check_processes("fred").await;
    assert_eq!(state(&harness.scale("fred", 2).await), "ACTIVE", "and later changes work");
    harness.delete_without_trace("fred").await;
}

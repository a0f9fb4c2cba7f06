//! kill -9 of the server at any moment, while it starts and stops real processes.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_testkit::{Dice, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, Member, state};
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::{dask, sleepers};

/// Number of servers that are killed while they start and stop plain processes.
const KILLS: usize = 13;

/// Number of servers that are killed while they resize a Dask cluster; two more are killed while they create and delete it.
const DASK_KILLS: usize = 5;

const NAME: &str = "naps";

/// Sends a request and kills the server after a while, even before it has answered.
async fn kill_during(
    harness: &mut Harness,
    method: Method,
    path: &str,
    body: Option<Value>,
    moment: Duration,
) {
    let deadline = tokio::time::Instant::now() + moment;
    drop(tokio::time::timeout_at(deadline, harness.try_call(method, path, body)).await);
    tokio::time::sleep_until(deadline).await;
    harness.kill_and_start_again().await;
}

/// Kills the server after it has accepted the request.
async fn kill_once_accepted(
    harness: &mut Harness,
    method: Method,
    path: &str,
    body: Option<Value>,
    moment: Duration,
) {
    let accepted = harness.call(method, &format!("{path}?wait_for=accepted"), body).await;
    assert!(accepted.status().is_success(), "{accepted:?}");
    tokio::time::sleep(moment).await;
    harness.kill_and_start_again().await;
}

/// Returns the cluster once no action is running; `None` if it was deleted.
async fn wait_until_settled(harness: &Harness) -> Option<Value> {
    eventually("the end of all actions", TIMEOUT, async || {
        let actions = harness.call(Method::GET, &format!("{CLUSTERS}/{NAME}/actions"), None).await;
        if actions.status() == 404 {
            return Ok(None);
        }
        let actions: Value = actions.json().await.expect("JSON");
        let all = actions["actions"].as_array().cloned().unwrap_or_default();
        if all.is_empty() || all.iter().any(|action| action["endedAt"].is_null()) {
            return Err(format!("{actions:#}\n{}", harness.log_tail()));
        }
        let response = harness.call(Method::GET, &format!("{CLUSTERS}/{NAME}"), None).await;
        Ok(if response.status() == 404 { None } else { response.json().await.ok() })
    })
    .await
}

/// Asserts that exactly the expected processes run.
async fn check_processes(harness: &Harness, cluster: &Value, what: &str) -> BTreeSet<i32> {
    let desired = cluster["desiredWorkers"].as_u64().and_then(|size| size.try_into().ok()).unwrap_or(0);
    assert_eq!(state(cluster), "ACTIVE", "{what}: {cluster:#}");
    let pids: BTreeSet<i32> = harness.workers(NAME).await.iter().map(Member::pid).collect();
    let running: BTreeSet<i32> = harness.traces().processes.into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(
        (pids.len(), running.len()),
        (desired, 2 * desired),
        "{what}: each under its shim, and no others"
    );
    assert!(pids.is_subset(&running), "{what}: {pids:?} {running:?}");
    pids
}

#[tokio::test]
async fn a_server_killed_at_any_moment_loses_and_leaks_nothing() {
    let mut harness = Harness::bare().await;
    let mut dice = Dice::roll();
    let mut present: Option<BTreeSet<i32>> = None;
    for round in 0..KILLS {
        let (moment, size) = (dice.moment(Duration::from_millis(250)), 1 + dice.below(6));
        let operation = if present.is_none() { "create" } else { dice.pick(&["resize", "resize", "delete"]) };
        let what = format!("{round}: {operation} {size} killed after {moment:?}");
        let (method, path, body) = match operation {
            "create" => {
                (Method::POST, CLUSTERS.to_owned(), Some(sleepers(NAME, u32::try_from(size).unwrap())))
            }
            "resize" => (Method::POST, format!("{CLUSTERS}/{NAME}/scale"), Some(json!({"replicas": size}))),
            _ => (Method::DELETE, format!("{CLUSTERS}/{NAME}"), None),
        };
        kill_during(&mut harness, method, &path, body, moment).await;
        let before = present.take();
        present = match wait_until_settled(&harness).await {
            None => {
                harness.traces().assert_none();
                None
            }
            Some(cluster) => {
                let now = check_processes(&harness, &cluster, &what).await;
                let before = before.unwrap_or_default();
                let (fewer, more) = (before.len().min(now.len()), before.intersection(&now).count());
                assert_eq!(fewer, more, "{what}: remaining nodes were changed: {before:?} {now:?}");
                Some(now)
            }
        };
    }
    if present.is_some() {
        harness.delete(NAME).await;
    }
    harness.traces().assert_none();
}

#[tokio::test]
async fn a_resize_survives_killed_servers_and_a_connected_client_continues() {
    let Some((mut harness, python)) = Harness::with_dask().await else { return };
    let mut dice = Dice::roll();
    let moment = dice.moment(Duration::from_secs(2));
    kill_once_accepted(&mut harness, Method::POST, CLUSTERS, Some(dask(NAME, 2)), moment).await;
    let created = wait_until_settled(&harness).await.expect("it was accepted");
    assert_eq!(state(&created), "ACTIVE", "killed after {moment:?}: {created:#}");
    let head = harness.head(NAME).await.pid();
    let mut client = Client::connect(&python, &created).await;
    client.run("kept.update(parts=client.scatter(list(range(50))))").await;
    let mut size = 2;
    for round in 0..DASK_KILLS {
        let moment = dice.moment(Duration::from_millis(1500));
        let others: Vec<i64> = (1..=4).filter(|other| *other != size).collect();
        size = dice.pick(&others);
        let body = json!({"replicas": size, "wait_for": "accepted"});
        harness.post(&format!("{CLUSTERS}/{NAME}/scale"), body).await;
        tokio::time::sleep(moment).await;
        harness.kill().await;
        client.computes().await;
        harness.start().await;
        let cluster = wait_until_settled(&harness).await.expect("it exists");
        let what = format!("{round}: to {size}, killed after {moment:?}: {cluster:#}");
        assert_eq!((state(&cluster), cluster["readyWorkers"].as_i64()), ("ACTIVE", Some(size)), "{what}");
        let nodes = usize::try_from(size).unwrap() + 1;
        let traces = harness.traces();
        assert_eq!(traces.processes.len(), 2 * nodes, "{what}: {traces:#?}");
        let counted = client.run("len(client.scheduler_info(n_workers=-1)['workers'])").await;
        assert_eq!(counted, size.to_string(), "{what}");
        assert_eq!(client.run("sum(client.gather(kept['parts']))").await, "1225", "{what}");
    }
    assert_eq!(harness.head(NAME).await.pid(), head, "the head was never touched");
    let moment = dice.moment(Duration::from_millis(500));
    let path = format!("{CLUSTERS}/{NAME}");
    kill_once_accepted(&mut harness, Method::DELETE, &path, None, moment).await;
    assert!(wait_until_settled(&harness).await.is_none(), "killed after {moment:?}");
    harness.traces().assert_none();
}

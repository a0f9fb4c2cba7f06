//! kill -9 of the server at any moment, while real processes come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_testkit::{Dice, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, Member, state};
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::{dask, sleepers};

/// Servers that are killed while they start and stop plain processes.
const KILLS: usize = 13;

/// Servers that are killed while they resize a Dask cluster; two more while they make and remove it.
const DASK_KILLS: usize = 5;

const NAME: &str = "naps";

/// Sends a request, and kills the server after a while, whether it has answered or not.
async fn kill_during(laptop: &mut Laptop, method: Method, path: &str, body: Option<Value>, moment: Duration) {
    let deadline = tokio::time::Instant::now() + moment;
    drop(tokio::time::timeout_at(deadline, laptop.try_call(method, path, body)).await);
    tokio::time::sleep_until(deadline).await;
    laptop.kill_and_start_again().await;
}

/// The same, after the server has accepted the request.
async fn kill_once_accepted(
    laptop: &mut Laptop,
    method: Method,
    path: &str,
    body: Option<Value>,
    moment: Duration,
) {
    let accepted = laptop.call(method, &format!("{path}?wait_for=accepted"), body).await;
    assert!(accepted.status().is_success(), "{accepted:?}");
    tokio::time::sleep(moment).await;
    laptop.kill_and_start_again().await;
}

/// The cluster once nothing is under way; none if it is gone.
async fn settled(laptop: &Laptop) -> Option<Value> {
    eventually("the end of all actions", PATIENCE, async || {
        let actions = laptop.call(Method::GET, &format!("{CLUSTERS}/{NAME}/actions"), None).await;
        if actions.status() == 404 {
            return Ok(None);
        }
        let actions: Value = actions.json().await.expect("JSON");
        let all = actions["actions"].as_array().cloned().unwrap_or_default();
        if all.is_empty() || all.iter().any(|action| action["endedAt"].is_null()) {
            return Err(format!("{actions:#}\n{}", laptop.words()));
        }
        let response = laptop.call(Method::GET, &format!("{CLUSTERS}/{NAME}"), None).await;
        Ok(if response.status() == 404 { None } else { response.json().await.ok() })
    })
    .await
}

/// What runs is what should run.
async fn agrees(laptop: &Laptop, cluster: &Value, what: &str) -> BTreeSet<i32> {
    let desired = cluster["desiredWorkers"].as_u64().and_then(|size| size.try_into().ok()).unwrap_or(0);
    assert_eq!(state(cluster), "ACTIVE", "{what}: {cluster:#}");
    let pids: BTreeSet<i32> = laptop.workers(NAME).await.iter().map(Member::pid).collect();
    let running: BTreeSet<i32> = laptop.traces().processes.into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(
        (pids.len(), running.len()),
        (desired, 2 * desired),
        "{what}: each under its shim, and no others"
    );
    assert!(pids.is_subset(&running), "{what}: {pids:?} {running:?}");
    pids
}

#[tokio::test]
async fn a_server_that_is_killed_at_any_moment_loses_and_leaks_nothing() {
    let mut laptop = Laptop::bare().await;
    let mut dice = Dice::roll();
    let mut present: Option<BTreeSet<i32>> = None;
    for round in 0..KILLS {
        let (moment, size) = (dice.moment(Duration::from_millis(250)), 1 + dice.below(6));
        let deed = if present.is_none() { "create" } else { dice.pick(&["resize", "resize", "delete"]) };
        let what = format!("{round}: {deed} {size} killed after {moment:?}");
        let (method, path, body) = match deed {
            "create" => {
                (Method::POST, CLUSTERS.to_owned(), Some(sleepers(NAME, u32::try_from(size).unwrap())))
            }
            "resize" => (Method::POST, format!("{CLUSTERS}/{NAME}/scale"), Some(json!({"replicas": size}))),
            _ => (Method::DELETE, format!("{CLUSTERS}/{NAME}"), None),
        };
        kill_during(&mut laptop, method, &path, body, moment).await;
        let before = present.take();
        present = match settled(&laptop).await {
            None => {
                laptop.traces().are_none();
                None
            }
            Some(cluster) => {
                let now = agrees(&laptop, &cluster, &what).await;
                let before = before.unwrap_or_default();
                let (fewer, more) = (before.len().min(now.len()), before.intersection(&now).count());
                assert_eq!(fewer, more, "{what}: whoever stays was not touched: {before:?} {now:?}");
                Some(now)
            }
        };
    }
    if present.is_some() {
        laptop.delete(NAME).await;
    }
    laptop.traces().are_none();
}

#[tokio::test]
async fn a_resize_finishes_whenever_the_server_is_killed_and_a_connected_client_goes_on() {
    let Some((mut laptop, python)) = Laptop::with_dask().await else { return };
    let mut dice = Dice::roll();
    let moment = dice.moment(Duration::from_secs(2));
    kill_once_accepted(&mut laptop, Method::POST, CLUSTERS, Some(dask(NAME, 2)), moment).await;
    let created = settled(&laptop).await.expect("it was accepted");
    assert_eq!(state(&created), "ACTIVE", "killed after {moment:?}: {created:#}");
    let head = laptop.head(NAME).await.pid();
    let mut client = Client::connect(&python, &created).await;
    client.run("kept.update(parts=client.scatter(list(range(50))))").await;
    let mut size = 2;
    for round in 0..DASK_KILLS {
        let moment = dice.moment(Duration::from_millis(1500));
        let others: Vec<i64> = (1..=4).filter(|other| *other != size).collect();
        size = dice.pick(&others);
        let body = json!({"replicas": size, "wait_for": "accepted"});
        laptop.post(&format!("{CLUSTERS}/{NAME}/scale"), body).await;
        tokio::time::sleep(moment).await;
        laptop.kill().await;
        client.computes().await;
        laptop.start().await;
        let cluster = settled(&laptop).await.expect("it is there");
        let what = format!("{round}: to {size}, killed after {moment:?}: {cluster:#}");
        assert_eq!((state(&cluster), cluster["readyWorkers"].as_i64()), ("ACTIVE", Some(size)), "{what}");
        let nodes = usize::try_from(size).unwrap() + 1;
        let traces = laptop.traces();
        assert_eq!(traces.processes.len(), 2 * nodes, "{what}: {traces:#?}");
        let counted = client.run("len(client.scheduler_info(n_workers=-1)['workers'])").await;
        assert_eq!(counted, size.to_string(), "{what}");
        assert_eq!(client.run("sum(client.gather(kept['parts']))").await, "1225", "{what}");
    }
    assert_eq!(laptop.head(NAME).await.pid(), head, "the head was never touched");
    let moment = dice.moment(Duration::from_millis(500));
    let path = format!("{CLUSTERS}/{NAME}");
    kill_once_accepted(&mut laptop, Method::DELETE, &path, None, moment).await;
    assert!(settled(&laptop).await.is_none(), "killed after {moment:?}");
    laptop.traces().are_none();
}

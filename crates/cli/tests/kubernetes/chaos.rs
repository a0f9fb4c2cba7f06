//! kill -9 of the server at any moment, while clusters are created and deleted.

use std::time::Duration;

use muster_testkit::{Dice, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

/// The server is killed during one creation, this many resizes, and one deletion.
const RESIZES: u32 = 8;

/// About every second request succeeds.
const MOST_TRIES: u32 = 40;

/// Later kills find everything done.
const DONE: Duration = Duration::from_millis(250);

/// Sends a request and kills the server after a while, even before it has answered.
async fn kill_during(server: Server, request: (Method, &str, Option<Value>), moment: Duration) -> Server {
    let (method, path, body) = request;
    let deadline = tokio::time::Instant::now() + moment;
    drop(tokio::time::timeout_at(deadline, server.call(method, path, body)).await);
    tokio::time::sleep_until(deadline).await;
    server.kill_and_start_again().await
}

/// Waits until no action is running, and returns the cluster if it exists.
async fn wait_until_settled(server: &Server, clusters: &str) -> Option<Value> {
    eventually("the end of all actions", TIMEOUT * 4, async || {
        let actions = server.call(Method::GET, &format!("{clusters}/fred/actions"), None).await;
        if actions.status() == 404 {
            return Ok(None);
        }
        let actions: Value = actions.json().await.expect("JSON");
        let all = actions["actions"].as_array().cloned().unwrap_or_default();
        if all.is_empty() || all.iter().any(|action| action["endedAt"].is_null()) {
            return Err(actions);
        }
        let cluster = server.call(Method::GET, &format!("{clusters}/fred"), None).await;
        Ok(if cluster.status() == 404 { None } else { cluster.json().await.ok() })
    })
    .await
}

#[tokio::test]
async fn a_server_killed_at_any_moment_creates_nothing_twice_and_leaves_nothing() {
    let Some(harness) = Harness::open().await else { return };
    let (mut dice, clusters) = (Dice::roll(), harness.clusters());
    let mut server = harness.server(&[]).await;
    let new = json!({"name": "fred", "framework": "ray", "provider": "kubernetes",
        "cluster_spec": {"worker_group_spec": [{"group_name": "g", "replicas": 2}]}});

    // Created once, if the request arrived; otherwise send it again.
    let mut made = None;
    for _ in 0..MOST_TRIES {
        let request = (Method::POST, clusters.as_str(), Some(new.clone()));
        server = kill_during(server, request, dice.moment(DONE)).await;
        made = wait_until_settled(&server, &clusters).await;
        if made.is_some() {
            break;
        }
    }
    let cluster = made.unwrap_or_else(|| panic!("no cluster after {MOST_TRIES} requests\n{}", server.log()));
    assert_eq!((&cluster["state"], &cluster["readyWorkers"]), (&json!("ACTIVE"), &json!(2)), "{cluster}");
    assert_eq!(harness.desired_workers().await, [("fred".to_owned(), json!(2))]);

    for round in 0..RESIZES {
        let wanted = 1 + round % 3;
        let path = format!("{clusters}/fred/scale");
        let request = (Method::POST, path.as_str(), Some(json!({"replicas": wanted})));
        server = kill_during(server, request, dice.moment(DONE)).await;
        let cluster = wait_until_settled(&server, &clusters).await.expect("it exists");
        // Row, object and number of pods agree.
        let [(_, asked)] = harness.desired_workers().await.try_into().expect("one object");
        assert_eq!((&cluster["desiredWorkers"], &cluster["readyWorkers"]), (&asked, &asked), "{cluster}");
        let workers = usize::try_from(asked.as_u64().expect("a number")).expect("a few");
        assert_eq!(harness.pods().await.len(), workers + 1);
    }

    let path = format!("{clusters}/fred");
    for _ in 0..MOST_TRIES {
        if wait_until_settled(&server, &clusters).await.is_none() {
            break;
        }
        server = kill_during(server, (Method::DELETE, path.as_str(), None), dice.moment(DONE)).await;
    }
    assert_eq!(
        wait_until_settled(&server, &clusters).await,
        None,
        "after {MOST_TRIES} requests to delete it"
    );
    assert_eq!(harness.desired_workers().await, []);
    let history = server.get(&format!("{clusters}?deleted=only")).await;
    assert_eq!(history["clusters"].as_array().map(Vec::len), Some(1), "{history}");
}

//! Idle timeout and lifetime of clusters with real frameworks.

use muster_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, state};
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::{dask, sleepers};

/// Waits until a cluster is deleted.
pub(crate) async fn wait_until_deleted(harness: &Harness, name: &str) {
    eventually(&format!("the end of {name}"), TIMEOUT, async || {
        let answer = harness.call(Method::GET, &format!("{CLUSTERS}/{name}"), None).await;
        if answer.status().is_success() { Err(harness.log_tail()) } else { Ok(()) }
    })
    .await;
}

/// Returns the reasons of a cluster's deletion; the warning is missing if the limit was observed late.
async fn ended_by(harness: &Harness, cluster: &Value) -> Vec<String> {
    let (id, name) = (cluster["id"].as_str().expect("an id"), cluster["name"].as_str().expect("a name"));
    let events = harness.get(&format!("{CLUSTERS}/{name}/events?id={id}")).await;
    let words = events["events"].as_array().cloned().unwrap_or_default();
    let mut words: Vec<String> =
        words.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
    words.retain(|word| matches!(word.as_str(), "IdleTimeout" | "LifetimeOver"));
    words
}

#[tokio::test]
async fn an_idle_cluster_is_deleted_and_a_computing_one_is_not() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let busy = harness.create(&dask("busy", 1)).await;
    let activity = async || harness.get(&format!("{CLUSTERS}/busy/activity")).await["state"].clone();
    assert_eq!(activity().await, "idle");
    let mut client = Client::connect(&python, &busy).await;
    let job = "lambda: __import__('distributed').Event('go').wait() and 42";
    client.run(&format!("kept.update(job=client.submit({job}))")).await;
    eventually("the job runs", TIMEOUT, async || {
        let state = activity().await;
        if state == "busy" { Ok(()) } else { Err(state) }
    })
    .await;
    let limit = json!({"idle_timeout": "2s"});
    harness.answer(Method::PATCH, &format!("{CLUSTERS}/busy?wait_for=reached"), Some(limit)).await;
    // It starts later and is deleted first.
    let mut quiet = dask("quiet", 1);
    quiet["idle_timeout"] = json!("2s");
    let quiet = harness.create(&quiet).await;
    wait_until_deleted(&harness, "quiet").await;
    assert_eq!(ended_by(&harness, &quiet).await, ["IdleTimeout"]);
    let present = harness.cluster("busy").await;
    assert_eq!((state(&present), &present["idleSince"]), ("ACTIVE", &Value::Null), "{present}");
    client.run("__import__('distributed').Event('go', client=client).set()").await;
    assert_eq!(client.run("kept['job'].result()").await, "42");
    wait_until_deleted(&harness, "busy").await;
    assert_eq!(ended_by(&harness, &busy).await, ["IdleTimeout"]);
    harness.traces().assert_none();
}

#[tokio::test]
async fn a_cluster_is_deleted_at_the_end_of_its_lifetime_in_any_state() {
    let harness = Harness::bare().await;
    let mut sleeper = sleepers("fred", 1);
    sleeper["max_lifetime"] = json!("1s");
    let created = harness.create(&sleeper).await;
    wait_until_deleted(&harness, "fred").await;
    assert_eq!(ended_by(&harness, &created).await, ["LifetimeOver"]);
    harness.traces().assert_none();
    sleeper["idle_timeout"] = json!("1h");
    let refused = harness.call(Method::POST, CLUSTERS, Some(sleeper)).await;
    assert_eq!(refused.status(), 400);
    let sentence = refused.text().await.unwrap();
    assert!(sentence.contains("idle_timeout is not supported for type"), "{sentence}");
}

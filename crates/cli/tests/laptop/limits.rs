//! Clusters that go by themselves, as what really runs on them says.

use muster_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, state};
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::{dask, sleepers};

/// Waits until nobody finds a cluster any more.
pub(crate) async fn gone(laptop: &Laptop, name: &str) {
    eventually(&format!("the end of {name}"), PATIENCE, async || {
        let answer = laptop.call(Method::GET, &format!("{CLUSTERS}/{name}"), None).await;
        if answer.status().is_success() { Err(laptop.words()) } else { Ok(()) }
    })
    .await;
}

/// Why a cluster that is gone was deleted. Its warning comes only if the limit was seen in time.
async fn ended_by(laptop: &Laptop, cluster: &Value) -> Vec<String> {
    let (id, name) = (cluster["id"].as_str().expect("an id"), cluster["name"].as_str().expect("a name"));
    let events = laptop.get(&format!("{CLUSTERS}/{name}/events?id={id}")).await;
    let words = events["events"].as_array().cloned().unwrap_or_default();
    let mut words: Vec<String> =
        words.iter().filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
    words.retain(|word| matches!(word.as_str(), "IdleTimeout" | "LifetimeOver"));
    words
}

#[tokio::test]
async fn a_cluster_goes_when_nobody_uses_it_and_not_while_it_computes() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let busy = laptop.create(&dask("busy", 1)).await;
    let mut client = Client::connect(&python, &busy).await;
    let job = "lambda: __import__('distributed').Event('go').wait() and 42";
    client.run(&format!("kept.update(job=client.submit({job}))")).await;
    let limit = json!({"idle_timeout": "2s"});
    laptop.answer(Method::PATCH, &format!("{CLUSTERS}/busy?wait_for=reached"), Some(limit)).await;
    // It begins later, and is gone first.
    let mut quiet = dask("quiet", 1);
    quiet["idle_timeout"] = json!("2s");
    let quiet = laptop.create(&quiet).await;
    gone(&laptop, "quiet").await;
    assert_eq!(ended_by(&laptop, &quiet).await, ["IdleTimeout"]);
    let present = laptop.cluster("busy").await;
    assert_eq!((state(&present), &present["idleSince"]), ("ACTIVE", &Value::Null), "{present}");
    client.run("__import__('distributed').Event('go', client=client).set()").await;
    assert_eq!(client.run("kept['job'].result()").await, "42");
    gone(&laptop, "busy").await;
    assert_eq!(ended_by(&laptop, &busy).await, ["IdleTimeout"]);
    laptop.traces().are_none();
}

#[tokio::test]
async fn a_cluster_whose_lifetime_is_over_goes_whatever_it_is() {
    let laptop = Laptop::bare().await;
    let mut sleeper = sleepers("fred", 1);
    sleeper["max_lifetime"] = json!("1s");
    let created = laptop.create(&sleeper).await;
    gone(&laptop, "fred").await;
    assert_eq!(ended_by(&laptop, &created).await, ["LifetimeOver"]);
    laptop.traces().are_none();
    sleeper["idle_timeout"] = json!("1h");
    let refused = laptop.call(Method::POST, CLUSTERS, Some(sleeper)).await;
    assert_eq!(refused.status(), 400);
    let sentence = refused.text().await.unwrap();
    assert!(sentence.contains("cannot tell whether they are used: leave idle_timeout out"), "{sentence}");
}

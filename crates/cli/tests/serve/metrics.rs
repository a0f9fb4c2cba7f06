//! The metrics of the server.

use std::str::FromStr;

use reqwest::Method;

use crate::server::Server;

/// The documentation of the metrics.
const GUIDE: &str = include_str!("../../../../docs/operations.md");

impl Server {
    async fn metrics(&self) -> String {
        let answer = reqwest::get(format!("{}/metrics", self.rest)).await.expect("an answer");
        answer.text().await.expect("text")
    }
}

/// Returns the value of the only series with all these labels.
fn value<T: FromStr>(text: &str, name: &str, labels: &[&str]) -> T {
    let mine = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    let lines: Vec<&str> = text.lines().filter(mine).collect();
    assert_eq!(lines.len(), 1, "{name} {labels:?}: {lines:?}\n{text}");
    let (_, value) = lines[0].rsplit_once(' ').expect("a value");
    value.parse().unwrap_or_else(|_| panic!("{value} is no number"))
}

fn count(text: &str, name: &str, labels: &[&str]) -> u64 {
    value(text, name, labels)
}

#[tokio::test]
async fn requests_database_lease_and_providers_are_measured() {
    let server = Server::dev().await;
    server.create("fred", 2).await;
    server.get("/namespaces/demo/clusters/fred").await;
    server.get("/namespaces/demo/clusters/fred").await;
    let text = server.metrics().await;
    let get = [r#"route="/apis/v1alpha2/namespaces/{namespace}/clusters/{name}""#, r#"method="GET""#];
    assert_eq!(count(&text, "muster_requests_total", &[get[0], get[1], r#"status="200""#]), 2);
    assert_eq!(count(&text, "muster_request_duration_seconds_count", &get), 2);
    assert_eq!(count(&text, "muster_database_command_duration_seconds_count", &[r#"command="accept""#]), 1);
    assert!(count(&text, "muster_database_commits_total", &[]) >= 4);
    let age: f64 = value(&text, "muster_lease_age_seconds", &[]);
    assert!((0.0..15.0).contains(&age), "{age}");
    let started = [r#"provider="simulated""#, r#"verb="start_nodes""#, r#"outcome="done""#];
    assert_eq!(count(&text, "muster_provider_call_duration_seconds_count", &started), 1);
    let ended = [r#"action="CLUSTER_CREATE""#, r#"status="SUCCEEDED""#];
    assert_eq!(count(&text, "muster_actions_ended_total", &ended), 1);
}

#[tokio::test]
async fn invented_paths_and_names_create_no_series() {
    let server = Server::dev().await;
    for path in ["/nothing/1", "/nothing/2", "/nothing/3"] {
        assert_eq!(server.call(Method::GET, path, None).await.status(), 404);
    }
    let (clusters, brew) = ("/namespaces/demo/clusters", Method::from_bytes(b"BREW").unwrap());
    server.call(brew, clusters, None).await;
    let text = server.metrics().await;
    assert_eq!(count(&text, "muster_requests_total", &[r#"route="none""#, r#"status="404""#]), 3);
    assert_eq!(count(&text, "muster_requests_total", &[r#"method="OTHER""#]), 1);
}

#[tokio::test]
async fn every_metric_is_in_the_guide() {
    let server = Server::dev().await;
    server.create("fred", 1).await;
    let text = server.metrics().await;
    let named = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names: Vec<&str> = named.map(|(name, _)| name).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        assert!(name.starts_with("muster_"), "{name}");
        assert!(GUIDE.contains(&format!("`{name}")), "{name} is not in docs/operations.md");
    }
}

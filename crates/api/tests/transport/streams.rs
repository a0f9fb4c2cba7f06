use reqwest::header;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, answer};

#[rstest]
#[case("/apis/v1alpha2/namespaces/ns/clusters:watch")]
#[case("/apis/v1alpha2/namespaces/ns/clusters?watch=true")]
#[tokio::test]
async fn a_watch_is_one_object_a_line_and_an_error_the_last(#[case] path: &str) {
    let harness = Harness::new().await;
    let response = harness.get(path).send().await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/x-ndjson");
    let text = response.text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cluster = json!({"name": "c", "namespace": "ns"});
    assert_eq!(lines[0], json!({"type": "ADDED", "cluster": cluster}));
    assert_eq!(lines[1]["type"], "DELETED");
    assert_eq!(lines[2]["error"]["code"], 14);
    assert_eq!(lines[2]["error"]["message"], "the database is gone");
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn a_browser_gets_events() {
    let harness = Harness::new().await;
    let request = harness.get("/apis/v1alpha2/clusters?watch=1").header(header::ACCEPT, "text/event-stream");
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    let text = response.text().await.unwrap();
    assert!(text.starts_with("data: {\"type\":\"ADDED\",\"cluster\":{\"name\":\"c\"}}\n\n"), "{text}");
    assert!(text.contains("event: error\ndata: {"), "{text}");
}

#[tokio::test]
async fn a_stream_that_does_not_begin_is_refused_as_anything_else() {
    let harness = Harness::new().await;
    let (status, body) = answer(harness.get("/apis/v1alpha2/clusters:watch?name_prefix=nothing")).await;
    assert_eq!((status, body["code"].as_i64()), (404, Some(5)));
}

#[tokio::test]
async fn an_installation_reports_its_progress_line_by_line_and_then_the_result() {
    let harness = Harness::new().await;
    let response = harness.post("/apis/v1alpha2/frameworks/dask/install", &json!({})).send().await.unwrap();
    let text = response.text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done = json!({"framework": {"name": "dask", "usable": true}});
    assert_eq!(lines, [json!({"progress": "installing dask"}), done]);
    let (status, list) = answer(harness.get("/apis/v1alpha2/frameworks")).await;
    assert_eq!((status, list), (200, json!({"frameworks": []})));
}

#[tokio::test]
async fn a_log_is_asked_for_by_the_query() {
    let harness = Harness::new().await;
    let path = "/apis/v1alpha2/namespaces/ns/clusters/c/logs?node=n&follow=true&tail=0";
    let log = answer(harness.get(path)).await;
    assert_eq!(log, (200, json!({"node": "n", "text": "follow true tail Some(0)"})));
}

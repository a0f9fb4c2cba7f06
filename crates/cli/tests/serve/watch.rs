//! Watches and their resume tokens.

use std::path::PathBuf;

use futures::StreamExt as _;
use muster_core::time::Timestamp;
use muster_proto::v1alpha2::WatchClustersRequest;
use muster_proto::v1alpha2::cluster_service_client::ClusterServiceClient;
use muster_store::Store;
use muster_store::commands::Purge;
use muster_testkit::postgres;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::server::{Server, TIMEOUT, cluster};

const FRED: &str = "/namespaces/demo/clusters/fred";

/// A watch over HTTP, line by line.
struct Watch {
    response: Response,
    rest: String,
}

impl Watch {
    async fn begin(server: &Server, query: &str) -> Self {
        let path = format!("/namespaces/demo/clusters:watch?{query}");
        let response = server.call(Method::GET, &path, None).await;
        assert_eq!(response.status().as_u16(), 200, "{path}");
        Self { response, rest: String::new() }
    }

    /// Reads the next message; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.find('\n') {
                let line: String = self.rest.drain(..=end).collect();
                return Some(serde_json::from_str(&line).expect("JSON"));
            }
            let chunk = tokio::time::timeout(TIMEOUT, self.response.chunk()).await;
            let chunk = chunk.expect("the watch responds").expect("the stream is whole")?;
            self.rest.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// Reads type and cluster name of the next message.
    async fn next_change(&mut self) -> (String, String) {
        let message = self.next().await.expect("the watch is open");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&message["type"]), text(&message["cluster"]["name"]))
    }

    /// Reads the token of the next bookmark.
    async fn bookmark(&mut self) -> String {
        loop {
            let message = self.next().await.expect("the watch is open");
            if message["type"] == "BOOKMARK" {
                return message["resumeToken"].as_str().expect("a token").to_owned();
            }
        }
    }
}

async fn delete(server: &Server, name: &str) {
    let path = format!("/namespaces/demo/clusters/{name}?wait_for=reached");
    assert_eq!(server.call(Method::DELETE, &path, None).await.status().as_u16(), 200);
}

/// Checks that a watch with a resume token gets exactly the changes since that token.
async fn check_resumption(server: &Server) {
    for name in ["old", "gone", "quiet"] {
        server.create(name, 1).await;
    }
    let token = Watch::begin(server, "").await.bookmark().await;
    server.create("new", 1).await;
    server.create("brief", 1).await;
    let body = json!({"replicas": 2, "wait_for": "reached"});
    server.post("/namespaces/demo/clusters/old/scale", body).await;
    delete(server, "gone").await;
    delete(server, "brief").await;
    let mut watch = Watch::begin(server, &format!("resume_token={token}")).await;
    let mut next_change = Vec::new();
    for _ in 0..3 {
        let message = watch.next().await.expect("the watch is open");
        next_change.push((
            message["type"].clone(),
            message["cluster"]["name"].clone(),
            message["resumeToken"].clone(),
        ));
    }
    let words: Vec<(&str, &str)> = next_change
        .iter()
        .map(|(kind, name, _)| (kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default()))
        .collect();
    assert_eq!(words, [("ADDED", "new"), ("MODIFIED", "old"), ("DELETED", "gone")]);
    // A token from the middle yields the rest, without duplicates.
    let token = next_change[0].2.as_str().expect("a token");
    let mut watch = Watch::begin(server, &format!("resume_token={token}")).await;
    assert_eq!(watch.next_change().await, ("MODIFIED".into(), "old".into()));
    assert_eq!(watch.next_change().await, ("DELETED".into(), "gone".into()));
}

#[tokio::test]
async fn a_resumed_watch_gets_what_was_added_modified_and_deleted() {
    check_resumption(&Server::dev().await).await;
}

#[tokio::test]
async fn a_watch_resumes_on_postgres_too() {
    let Some(postgres) = postgres().await else { return };
    let database = postgres.database().await;
    let mut server = Server::start(&["--dev", "--database-url", database.url()]).await;
    check_resumption(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn clusters_that_begin_to_match_are_added_and_those_that_cease_to_are_deleted() {
    let server = Server::dev().await;
    server.create("fred", 0).await;
    let mut watch = Watch::begin(&server, "label=team%3Dblue").await;
    assert_eq!(watch.next_change().await.0, "BOOKMARK");
    let label = async |labels: Value| {
        let path = format!("{FRED}?wait_for=reached");
        let patched = server.call(Method::PATCH, &path, Some(json!({"labels": labels}))).await;
        assert_eq!(patched.status().as_u16(), 200);
    };
    label(json!({"team": "blue"})).await;
    assert_eq!(watch.next_change().await, ("ADDED".into(), "fred".into()));
    label(json!({"team": "red"})).await;
    loop {
        match watch.next_change().await.0.as_str() {
            "MODIFIED" => {}
            kind => break assert_eq!(kind, "DELETED"),
        }
    }
    label(json!({"team": "blue"})).await;
    assert_eq!(watch.next_change().await, ("ADDED".into(), "fred".into()));
}

async fn refused(server: &Server, query: &str) -> (u16, String, String) {
    server.refusal(Method::GET, &format!("/namespaces/demo/clusters:watch?{query}"), None).await
}

#[tokio::test]
async fn a_token_of_another_watch_is_refused() {
    let server = Server::dev().await;
    let token = Watch::begin(&server, "").await.bookmark().await;
    for query in ["resume_token=7", "resume_token=%20", &format!("user=ann&resume_token={token}")] {
        let (status, _, printed) = refused(&server, query).await;
        assert_eq!(status, 400, "{printed}");
        assert!(printed.contains("does not belong to this watch: omit it"), "{printed}");
    }
}

/// Reads the files of the database.
fn database(server: &Server) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(server.data()).expect("a data folder");
    let files = files.map(|entry| entry.expect("a file").path());
    let is_database = |file: &PathBuf| file.to_string_lossy().contains("muster.db");
    files.filter(is_database).map(|file| (file.clone(), std::fs::read(file).expect("a file"))).collect()
}

#[tokio::test]
async fn a_token_from_the_future_is_gone() {
    let mut server = Server::dev().await;
    server.create("fred", 0).await;
    let old = Watch::begin(&server, "").await.bookmark().await;
    delete(&server, "fred").await;
    server.stop().await;
    let store = Store::open_file(&server.data().join("muster.db")).await.unwrap();
    let all = Timestamp::from_micros(i64::MAX);
    store.purge(Purge { history_before: all, requests_before: all, limit: 1000 }).await.unwrap();
    store.close().await;
    let backup = database(&server);
    let mut server = server.start_again().await;
    let (status, word, printed) = refused(&server, &format!("resume_token={old}")).await;
    assert_eq!((status, word.as_str()), (410, "ResumeTokenExpired"), "{printed}");
    assert!(printed.contains("older than the stored history: begin again without one"), "{printed}");
    server.create("barney", 0).await;
    let newer = Watch::begin(&server, "").await.bookmark().await;
    server.stop().await;
    for (file, _) in database(&server) {
        std::fs::remove_file(file).unwrap();
    }
    for (file, bytes) in backup {
        std::fs::write(file, bytes).unwrap();
    }
    let server = server.start_again().await;
    let (status, word, printed) = refused(&server, &format!("resume_token={newer}")).await;
    assert_eq!((status, word.as_str()), (410, "ResumeTokenExpired"), "{printed}");
    assert!(printed.contains("newer than the database"), "{printed}");
}

#[tokio::test]
async fn a_watch_ends_with_its_server_and_resumes_with_the_next() {
    let mut server = Server::dev().await;
    server.create("fred", 0).await;
    let mut watch = Watch::begin(&server, "").await;
    watch.bookmark().await;
    let mut clusters = ClusterServiceClient::connect(server.grpc.clone()).await.unwrap();
    let over_grpc = clusters.watch_clusters(WatchClustersRequest::default()).await.unwrap();
    let mut over_grpc = over_grpc.into_inner();
    let bookmark = async { while over_grpc.next().await.unwrap().unwrap().r#type != "BOOKMARK" {} };
    tokio::time::timeout(TIMEOUT, bookmark).await.expect("a bookmark over gRPC");
    let over_grpc = tokio::spawn(over_grpc.collect::<Vec<_>>());
    server.stop().await;
    let next_change = tokio::time::timeout(TIMEOUT, over_grpc).await.expect("the watch ends").unwrap();
    let (end, before) = next_change.split_last().expect("an end");
    assert_eq!(end.as_ref().unwrap_err().code(), tonic::Code::Unavailable);
    assert!(!before.last().unwrap().as_ref().unwrap().resume_token.is_empty(), "{before:?}");
    let token = watch.bookmark().await;
    let end = watch.next().await.expect("a reason");
    assert_eq!(end["error"]["code"], 14, "{end}");
    assert!(end["error"]["message"].as_str().unwrap().contains("the server is stopping"), "{end}");
    assert_eq!(watch.next().await, None);
    let server = server.start_again().await;
    server.post("/namespaces/demo/clusters?wait_for=reached", cluster("barney", 0)).await;
    let mut watch = Watch::begin(&server, &format!("resume_token={token}")).await;
    assert_eq!(watch.next_change().await, ("ADDED".into(), "barney".into()));
}

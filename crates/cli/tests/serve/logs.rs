//! Log lines have one id from the request to the provider; refusals are logged once, without secrets. Followed logs of
//! nodes do not end silently with their server.

use std::process::Command;

use muster_proto::v1alpha2::GetClusterRequest;
use muster_proto::v1alpha2::cluster_service_client::ClusterServiceClient;
use muster_testkit::Process;
use reqwest::Method;
use serde_json::{Value, json};
use tonic::Request;

use crate::server::{Server, TIMEOUT, cluster};

const CLUSTERS: &str = "/namespaces/demo/clusters?wait_for=reached";

impl Server {
    /// Creates a cluster under a request id, and returns the id of its action.
    async fn create_as(&self, request: &str, body: &Value) -> String {
        let url = format!("{}/apis/v1alpha2{CLUSTERS}", self.rest);
        let create = reqwest::Client::new().post(url).header("x-request-id", request).json(body);
        let answer = create.send().await.expect("the server answers");
        assert_eq!(answer.headers()["x-request-id"], request);
        answer.headers()["muster-action-id"].to_str().expect("an id").to_owned()
    }
}

#[tokio::test]
async fn a_request_can_be_followed_to_its_action_and_provider_calls() {
    let server = Server::start(&["--dev", "--log", "debug"]).await;
    let action = server.create_as("r-42", &cluster("fred", 3)).await;
    let accepted = server.wait_for_log("accepted").await;
    assert!(accepted.contains("r-42") && accepted.contains(&action), "{accepted}");
    let called = server.wait_for_log("start_nodes").await;
    assert!(called.contains("DEBUG") && called.contains(&action), "{called}");
    assert!(called.contains("nodes=3") && called.contains("answered=3"), "{called}");
}

#[tokio::test]
async fn a_failing_provider_is_logged_with_its_action_at_every_level() {
    // The start is logged at info, everything else at warn.
    let server = Server::start(&["--dev", "--log", "warn,muster_cli=info"]).await;
    let mut body = cluster("fred", 2);
    body["profile_properties"] = json!({"metadata": {"simulated_failure": "create"}});
    let action = server.create_as("r-43", &body).await;
    let line = server.wait_for_log("provider call failed").await;
    assert!(line.contains("WARN") && line.contains(&action) && line.contains("failed=2"), "{line}");
}

#[tokio::test]
async fn a_log_in_json_has_the_ids_as_fields() {
    let server = Server::start(&["--dev", "--log-format", "json"]).await;
    let action = server.create_as("r-44", &cluster("fred", 1)).await;
    let line: Value = serde_json::from_str(&server.wait_for_log("accepted").await).unwrap();
    assert_eq!(
        (line["fields"]["action"].as_str(), line["span"]["id"].as_str()),
        (Some(&*action), Some("r-44"))
    );
}

#[tokio::test]
async fn a_refusal_is_logged_once_with_caller_request_and_reason() {
    let server = Server::dev().await;
    let answer = server.call(Method::GET, "/namespaces/demo/clusters/missing", None).await;
    let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
    let line = server.wait_for_log("refused").await;
    for part in [&*id, "GET", "/namespaces/demo/clusters/missing", "404", "ClusterNotFound", "by=none/"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
    assert_eq!(server.log().matches("refused").count(), 1, "{}", server.log());
}

#[tokio::test]
async fn over_grpc_the_id_is_in_the_metadata_of_refusals_too() {
    let server = Server::dev().await;
    let mut clusters = ClusterServiceClient::connect(server.grpc.clone()).await.unwrap();
    let asked = GetClusterRequest { name: "missing".into(), namespace: "demo".into(), ..Default::default() };
    let mut request = Request::new(asked);
    request.metadata_mut().insert("x-request-id", "r-45".parse().unwrap());
    let status = clusters.get_cluster(request).await.unwrap_err();
    assert_eq!(status.metadata().get("x-request-id").unwrap(), "r-45");
    let line = server.wait_for_log("refused").await;
    for part in ["r-45", "ClusterService/GetCluster", "NotFound", "ClusterNotFound"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
}

#[tokio::test]
async fn tokens_are_never_logged() {
    let mut server = Server::start(&["--log", "trace"]).await;
    let good = std::fs::read_to_string(server.data().join("token")).unwrap().trim().to_owned();
    server.token = Some("mst_wrong".to_owned());
    assert_eq!(server.refusal(Method::GET, "/clusters", None).await.0, 401);
    server.wait_for_log("Unauthenticated").await;
    server.token = Some(good.clone());
    server.get("/clusters").await;
    server.wait_for_log("answered").await;
    let log = server.log();
    assert!(!log.contains("mst_wrong") && !log.contains(&good), "{log}");
}

/// Starts a server outside of development mode with the cluster `counter`, whose process prints numbers.
async fn server_with_counter() -> Server {
    let mut server = Server::start(&[]).await;
    read_token(&mut server);
    let mut counter = cluster("counter", 1);
    counter["profile"] = "local.process-1.0".into();
    // Ends by itself, in case the test fails before it deletes the cluster.
    let line = "i=0; while test $i -lt 600; do i=$((i+1)); echo number $i; sleep 0.1; done";
    counter["profile_properties"] = json!({"command": ["sh", "-c", line]});
    server.post(CLUSTERS, counter).await;
    server
}

fn read_token(server: &mut Server) {
    let token = std::fs::read_to_string(server.data().join("token")).expect("a token");
    server.token = Some(token.trim().to_owned());
}

async fn restart(mut server: Server) -> Server {
    server.stop().await;
    let mut server = server.start_again().await;
    read_token(&mut server);
    server
}

async fn delete_counter(server: &Server) {
    let path = "/namespaces/demo/clusters/counter?wait_for=reached";
    assert_eq!(server.call(Method::DELETE, path, None).await.status().as_u16(), 200);
}

#[tokio::test]
async fn a_followed_log_ends_with_an_error_when_its_server_stops() {
    let server = server_with_counter().await;
    let path = "/namespaces/demo/clusters/counter/logs?follow=true";
    let mut log = server.call(Method::GET, path, None).await;
    log.chunk().await.expect("a chunk").expect("a line");
    let rest = tokio::spawn(log.text());
    let server = restart(server).await;
    let rest = tokio::time::timeout(TIMEOUT, rest).await.expect("an end").expect("a task").expect("text");
    let last: Value = serde_json::from_str(rest.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["error"]["code"], &last["error"]["details"][0]["reason"]),
        (&json!(14), &json!("ServerStopping"))
    );
    delete_counter(&server).await;
}

#[tokio::test]
async fn muster_logs_follows_at_the_next_server_without_a_gap() {
    let server = server_with_counter().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["logs", "counter", "-n", "demo", "-f"]).env("MUSTER_DATA_DIR", server.data());
    command.env_remove("MUSTER_SERVER").env("MUSTER_NO_AUTOSTART", "1");
    let followed = Process::spawn("muster", &command);
    followed.wait_for_line("number 3", TIMEOUT).await;
    let server = restart(server).await;
    let first_of_next = numbers(&followed).last().expect("a number") + 20;
    followed.wait_for_line(&format!("number {first_of_next}"), TIMEOUT).await;
    let printed = numbers(&followed);
    let missing: Vec<u32> = (1..=first_of_next).filter(|number| !printed.contains(number)).collect();
    assert!(missing.is_empty(), "missing are {missing:?} of {printed:?}");
    delete_counter(&server).await;
}

/// Returns the numbers that were printed so far.
fn numbers(followed: &Process) -> Vec<u32> {
    let text = std::fs::read_to_string(followed.log()).expect("output");
    text.lines().filter_map(|line| line.rsplit_once("number ")?.1.trim().parse().ok()).collect()
}

//! Errors of local clusters name the fault, its reason and the remedy.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use muster_testkit::eventually;
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{reason, state};
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::dask;
use crate::traces::kill;

#[tokio::test]
async fn without_the_framework_a_cluster_is_refused_with_the_command_that_installs_it() {
    let harness = Harness::bare().await;
    let clusters = "/namespaces/demo/clusters";
    let response = harness.call(Method::POST, clusters, Some(dask("fred", 2))).await;
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["details"][0]["reason"], "FrameworkMissing", "{body}");
    let sentence = body["message"].as_str().unwrap();
    assert!(sentence.contains("dask is not installed"), "{sentence}");
    assert!(sentence.contains("`muster framework install dask`"), "{sentence}");
    let clusters = harness.get(clusters).await;
    assert_eq!(clusters["clusters"].as_array().map_or(0, Vec::len), 0, "nothing is stored");
    harness.traces().assert_none();
}

/// Writes an interpreter that reports Dask and runs these commands as scheduler and worker.
fn interpreter(harness: &Harness, scheduler: &str, worker: &str) -> String {
    let file = harness.path().join("python");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*'dask scheduler'*) {scheduler};;\n*'dask worker'*) {worker};;\n*) echo 1;;\nesac\n"
    );
    std::fs::write(&file, script).expect("a script");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a script that runs");
    file.display().to_string()
}

fn with_image(mut cluster: Value, image: &str) -> Value {
    cluster["profile_properties"] = json!({"image": image});
    cluster
}

#[tokio::test]
async fn a_head_that_dies_during_its_start_leaves_its_last_lines_with_the_cluster() {
    let harness = Harness::bare().await;
    let broken = interpreter(&harness, "echo ImportError: no module named click; exit 3", "exit 4");
    let failed = harness.create_failing(&with_image(dask("fred", 2), &broken)).await;
    let words = reason(&failed);
    assert_eq!(state(&failed), "ERROR", "{failed}");
    assert!(words.starts_with("CLUSTER_CREATE: the head did not start."), "{words}");
    assert!(
        words.contains("it exited with code 3; its last lines:\nImportError: no module named click"),
        "{words}"
    );
    assert_eq!(harness.head("fred").await.state, "ERROR");
    harness.delete_without_trace("fred").await;
}

/// A scheduler that never has workers.
const LONELY_SCHEDULER: &str = r#"
import http.server, json, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"workers": []}')
server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
port = server.server_port
with open(sys.argv[1], "w") as file:
    json.dump({"address": f"tcp://127.0.0.1:{port}", "services": {"dashboard": port}}, file)
server.serve_forever()
"#;

#[tokio::test]
async fn a_worker_that_never_registers_is_stopped_after_the_time_limit() {
    let Some(python) = muster_testkit::python("dask").await else { return };
    let harness = Harness::with(&[("MUSTER_NODE_START_SECONDS", "5")]).await;
    let program = harness.path().join("lonely.py");
    std::fs::write(&program, LONELY_SCHEDULER).unwrap();
    let scheduler = format!("exec {} -S {} scheduler.json", python.path().display(), program.display());
    let lonely = interpreter(&harness, &scheduler, "echo I wait; exec sleep 1000");
    let failed = harness.create_failing(&with_image(dask("fred", 1), &lonely)).await;
    let words = reason(&failed);
    assert_eq!(state(&failed), "WARNING", "{failed}");
    assert!(words.contains("it was not ready within 5 s; its last lines:\nI wait"), "{words}");
    let left = harness.traces().processes;
    assert!(!left.iter().any(|(_, command)| command.contains("sleep")), "{left:?}");
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_head_whose_port_is_in_use_waits_for_its_user() {
    let Some((mut harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let address = created["endpoints"]["address"].as_str().unwrap().trim_start_matches("tcp://").to_owned();
    harness.kill().await;
    harness.traces().kill();
    let taken = eventually("the port of the killed head", TIMEOUT, async || TcpListener::bind(&address));
    let taken = taken.await;
    harness.start().await;
    let lost = harness.until("fred", |cluster| state(cluster) == "CRITICAL").await;
    let port = address.rsplit_once(':').unwrap().1;
    assert!(reason(&lost).contains(&format!("port {port}, which clients of the cluster use")), "{lost}");
    assert_eq!(harness.messages("fred", "PortInUse").await.len(), 1);
    drop(taken);
    let restarted = harness.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    Client::connect(&python, &restarted).await.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cluster_without_its_head_can_be_shrunk_and_deleted() {
    let Some((harness, _)) = Harness::with_dask().await else { return };
    harness.create(&dask("fred", 2)).await;
    // Kill it until the budget of starts is spent.
    for round in 1..=4 {
        kill(harness.head("fred").await.pid());
        harness.until_ended("fred", "CLUSTER_RECOVER", round).await;
    }
    let given_up = harness.cluster("fred").await;
    assert_eq!(state(&given_up), "CRITICAL", "{given_up}");
    assert!(reason(&given_up).contains("started 3 times in 10 minutes"), "{given_up}");
    harness.post("/namespaces/demo/clusters/fred/scale", json!({"replicas": 1})).await;
    let resized = harness.until_ended("fred", "CLUSTER_RESIZE", 1).await;
    assert_eq!(resized["status"], "FAILED", "its head is gone: {resized}");
    assert_eq!(harness.workers("fred").await.len(), 1);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cluster_whose_head_does_not_answer_can_be_shrunk() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 2)).await;
    let mut client = Client::connect(&python, &created).await;
    let head = Pid::from_raw(harness.head("fred").await.pid()).unwrap();
    kill_process(head, Signal::STOP).unwrap();
    let scaled = harness.scale("fred", 1).await;
    kill_process(head, Signal::CONT).unwrap();
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(1)), "{scaled}");
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

//! What goes wrong is said: what, why, what to do.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use muster_testkit::eventually;
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{reason, state};
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::dask;
use crate::traces::kill;

#[tokio::test]
async fn without_the_framework_a_cluster_is_refused_with_the_command_that_installs_it() {
    let laptop = Laptop::bare().await;
    let clusters = "/namespaces/demo/clusters";
    let response = laptop.call(Method::POST, clusters, Some(dask("fred", 2))).await;
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["details"][0]["reason"], "FrameworkMissing", "{body}");
    let sentence = body["message"].as_str().unwrap();
    assert!(sentence.contains("dask is not installed"), "{sentence}");
    assert!(sentence.contains("`muster framework install dask`"), "{sentence}");
    let clusters = laptop.get(clusters).await;
    assert_eq!(clusters["clusters"].as_array().map_or(0, Vec::len), 0, "nothing is stored");
    laptop.traces().are_none();
}

/// An interpreter that says it has Dask, and does this instead of a scheduler and a worker.
fn interpreter(laptop: &Laptop, scheduler: &str, worker: &str) -> String {
    let file = laptop.path().join("python");
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
async fn a_head_that_dies_while_it_starts_leaves_its_last_words_with_the_cluster() {
    let laptop = Laptop::bare().await;
    let broken = interpreter(&laptop, "echo ImportError: no module named click; exit 3", "exit 4");
    let failed = laptop.create_in_vain(&with_image(dask("fred", 2), &broken)).await;
    let words = reason(&failed);
    assert_eq!(state(&failed), "ERROR", "{failed}");
    assert!(words.starts_with("CLUSTER_CREATE: the head did not start."), "{words}");
    assert!(
        words.contains("it exited with code 3; its last lines:\nImportError: no module named click"),
        "{words}"
    );
    assert_eq!(laptop.head("fred").await.state, "ERROR");
    laptop.delete_without_trace("fred").await;
}

/// Answers as a scheduler does to whom no worker ever came.
const LONELY: &str = r#"
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
async fn a_worker_that_never_registers_is_given_up_and_ended() {
    let Some(python) = muster_testkit::python("dask").await else { return };
    let laptop = Laptop::with(&[("MUSTER_NODE_START_SECONDS", "5")]).await;
    let program = laptop.path().join("lonely.py");
    std::fs::write(&program, LONELY).unwrap();
    let scheduler = format!("exec {} -S {} scheduler.json", python.path().display(), program.display());
    let lonely = interpreter(&laptop, &scheduler, "echo I wait; exec sleep 1000");
    let failed = laptop.create_in_vain(&with_image(dask("fred", 1), &lonely)).await;
    let words = reason(&failed);
    assert_eq!(state(&failed), "WARNING", "{failed}");
    assert!(words.contains("it did not work within 5 s; its last lines:\nI wait"), "{words}");
    let left = laptop.traces().processes;
    assert!(!left.iter().any(|(_, command)| command.contains("sleep")), "{left:?}");
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_head_whose_port_was_taken_meanwhile_waits_for_its_user() {
    let Some((mut laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 1)).await;
    let address = created["endpoints"]["address"].as_str().unwrap().trim_start_matches("tcp://").to_owned();
    laptop.kill().await;
    laptop.traces().kill();
    let taken = eventually("the port of the killed head", PATIENCE, async || TcpListener::bind(&address));
    let taken = taken.await;
    laptop.start().await;
    let lost = laptop.until("fred", |cluster| state(cluster) == "CRITICAL").await;
    let port = address.rsplit_once(':').unwrap().1;
    assert!(reason(&lost).contains(&format!("port {port}, by which its clients know it")), "{lost}");
    assert_eq!(laptop.messages("fred", "PortInUse").await.len(), 1);
    drop(taken);
    let restarted = laptop.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    Client::connect(&python, &restarted).await.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cluster_shrinks_and_goes_also_while_its_head_is_gone() {
    let Some((laptop, _)) = Laptop::with_dask().await else { return };
    laptop.create(&dask("fred", 2)).await;
    // Killed over and over, until nobody brings it back.
    for round in 1..=4 {
        kill(laptop.head("fred").await.pid());
        laptop.until_ended("fred", "CLUSTER_RECOVER", round).await;
    }
    let given_up = laptop.cluster("fred").await;
    assert_eq!(state(&given_up), "CRITICAL", "{given_up}");
    assert!(reason(&given_up).contains("started 3 times in 10 minutes"), "{given_up}");
    laptop.post("/namespaces/demo/clusters/fred/scale", json!({"replicas": 1})).await;
    let resized = laptop.until_ended("fred", "CLUSTER_RESIZE", 1).await;
    assert_eq!(resized["status"], "FAILED", "its head is gone: {resized}");
    assert_eq!(laptop.workers("fred").await.len(), 1);
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cluster_shrinks_also_while_its_head_does_not_answer() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 2)).await;
    let mut client = Client::connect(&python, &created).await;
    let head = Pid::from_raw(laptop.head("fred").await.pid()).unwrap();
    kill_process(head, Signal::STOP).unwrap();
    let scaled = laptop.scale("fred", 1).await;
    kill_process(head, Signal::CONT).unwrap();
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(1)), "{scaled}");
    client.computes().await;
    laptop.delete_without_trace("fred").await;
}

//! Clusters of arbitrary commands.

use std::time::Duration;

use muster_testkit::eventually;
use serde_json::json;

use crate::clusters::{reason, state};
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::processes;

async fn read(file: std::path::PathBuf) -> String {
    eventually(&format!("the end of {}", file.display()), TIMEOUT, async || {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| error.to_string());
        if text.contains("the end") { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test]
async fn a_command_runs_with_the_settings_of_its_profile_and_without_secrets_of_the_server() {
    let harness = Harness::with(&[("AWS_SECRET_ACCESS_KEY", "hunter2"), ("LC_TIME", "C.UTF-8")]).await;
    let place = harness.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let script = "{ env; pwd; echo the end; } > out; exec sleep 1000";
    let properties = json!({
        "command": ["sh", "-c", script],
        "env": {"GREETING": "hello", "HOME": "/nowhere"},
        "working_dir": place,
    });
    harness.create(&processes("any", 1, &properties)).await;
    let out = read(place.join("out")).await;
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.contains(&place.to_str().unwrap()), "{out}");
    for expected in ["GREETING=hello", "HOME=/nowhere", "LC_TIME=C.UTF-8", "MUSTER_CLUSTER=any"] {
        assert!(lines.contains(&expected), "{expected} is missing: {out}");
    }
    assert!(lines.iter().any(|line| line.starts_with("MUSTER_NODE=")), "{out}");
    assert!(!out.contains("hunter2") && !out.contains("XDG_RUNTIME_DIR"), "{out}");
    harness.delete_without_trace("any").await;
}

#[tokio::test]
async fn a_command_is_stopped_with_its_signal_and_grace_period() {
    let harness = Harness::bare().await;
    let (out, ready) = (harness.path().join("out"), harness.path().join("ready"));
    let script = r#"trap 'echo "INT, the end" > "$OUT"; exit 0' INT; echo the end > "$READY"; while :; do sleep 0.05; done"#;
    let properties = json!({
        "command": ["sh", "-c", script],
        "env": {"OUT": out, "READY": ready},
        "stop_signal": "SIGINT",
        "stop_grace_seconds": 60,
    });
    harness.create(&processes("polite", 1, &properties)).await;
    read(ready).await;
    harness.delete_without_trace("polite").await;
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "INT, the end\n");
}

#[tokio::test]
async fn a_command_that_does_not_stop_is_killed_with_all_its_processes() {
    let harness = Harness::bare().await;
    let script =
        "trap '' TERM; sleep 1000 & setsid sleep 1001 & echo the end > \"$READY\"; while :; do wait; done";
    let ready = harness.path().join("ready");
    let properties =
        json!({"command": ["sh", "-c", script], "env": {"READY": ready}, "stop_grace_seconds": 0});
    harness.create(&processes("deaf", 1, &properties)).await;
    read(ready).await;
    let processes = harness.traces().processes;
    assert_eq!(processes.len(), 4, "a shim, a shell and what that started: {processes:?}");
    let gone = tokio::time::timeout(Duration::from_secs(30), harness.delete_without_trace("deaf"));
    gone.await.expect("it does not have the usual ten seconds, and not a minute");
}

#[tokio::test]
async fn a_missing_command_or_folder_is_named() {
    let harness = Harness::bare().await;
    let no_command = json!({"command": ["no-such-command", "x"]});
    let failed = harness.create_failing(&processes("none", 2, &no_command)).await;
    assert_eq!(state(&failed), "WARNING", "{failed}");
    assert!(reason(&failed).contains("command 'no-such-command' not found"), "{failed}");
    let worker = harness.workers("none").await.remove(0);
    assert_eq!(worker.state, "ERROR");
    assert!(worker.reason.contains("no-such-command"), "{worker:?}");
    assert!(harness.messages("none", "CommandNotFound").await.len() == 2);
    harness.delete_without_trace("none").await;
    let no_folder = json!({"command": ["sleep", "9"], "working_dir": "/no/such/folder"});
    let failed = harness.create_failing(&processes("nowhere", 1, &no_folder)).await;
    assert!(reason(&failed).contains("/no/such/folder"), "{failed}");
    harness.delete_without_trace("nowhere").await;
}

#[tokio::test]
async fn a_command_that_ends_at_once_is_reported_with_its_code_and_last_lines() {
    let harness = Harness::bare().await;
    let properties = json!({"command": ["sh", "-c", "echo something is wrong; exit 3"]});
    harness.post("/namespaces/demo/clusters", processes("brief", 1, &properties)).await;
    harness.until("brief", |cluster| state(cluster) == "WARNING").await;
    let worker = harness.workers("brief").await.remove(0);
    assert!(worker.reason.contains("it exited with code 3"), "{worker:?}");
    assert!(worker.reason.contains("its last lines:\nsomething is wrong"), "{worker:?}");
    harness.delete_without_trace("brief").await;
}

//! Clusters of any command.

use std::time::Duration;

use muster_testkit::eventually;
use serde_json::json;

use crate::clusters::{reason, state};
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::processes;

async fn read(file: std::path::PathBuf) -> String {
    eventually(&format!("the end of {}", file.display()), PATIENCE, async || {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| error.to_string());
        if text.contains("the end") { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test]
async fn a_command_runs_where_and_with_what_its_profile_says_and_knows_no_secrets_of_the_server() {
    let laptop = Laptop::with(&[("AWS_SECRET_ACCESS_KEY", "hunter2"), ("LC_TIME", "C.UTF-8")]).await;
    let place = laptop.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let script = "{ env; pwd; echo the end; } > out; exec sleep 1000";
    let properties = json!({
        "command": ["sh", "-c", script],
        "env": {"GREETING": "hello", "HOME": "/nowhere"},
        "working_dir": place,
    });
    laptop.create(&processes("any", 1, &properties)).await;
    let out = read(place.join("out")).await;
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.contains(&place.to_str().unwrap()), "{out}");
    for expected in ["GREETING=hello", "HOME=/nowhere", "LC_TIME=C.UTF-8", "MUSTER_CLUSTER=any"] {
        assert!(lines.contains(&expected), "{expected} is missing: {out}");
    }
    assert!(lines.iter().any(|line| line.starts_with("MUSTER_NODE=")), "{out}");
    assert!(!out.contains("hunter2") && !out.contains("XDG_RUNTIME_DIR"), "{out}");
    laptop.delete_without_trace("any").await;
}

#[tokio::test]
async fn a_command_is_stopped_with_its_signal_and_has_its_time_to_end() {
    let laptop = Laptop::bare().await;
    let (out, ready) = (laptop.path().join("out"), laptop.path().join("ready"));
    let script = r#"trap 'echo "INT, the end" > "$OUT"; exit 0' INT; echo the end > "$READY"; while :; do sleep 0.05; done"#;
    let properties = json!({
        "command": ["sh", "-c", script],
        "env": {"OUT": out, "READY": ready},
        "stop_signal": "SIGINT",
        "stop_grace_seconds": 60,
    });
    laptop.create(&processes("polite", 1, &properties)).await;
    read(ready).await;
    laptop.delete_without_trace("polite").await;
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "INT, the end\n");
}

#[tokio::test]
async fn a_command_that_does_not_stop_is_killed_with_all_it_started() {
    let laptop = Laptop::bare().await;
    let script =
        "trap '' TERM; sleep 1000 & setsid sleep 1001 & echo the end > \"$READY\"; while :; do wait; done";
    let ready = laptop.path().join("ready");
    let properties =
        json!({"command": ["sh", "-c", script], "env": {"READY": ready}, "stop_grace_seconds": 0});
    laptop.create(&processes("deaf", 1, &properties)).await;
    read(ready).await;
    let processes = laptop.traces().processes;
    assert_eq!(processes.len(), 4, "a shim, a shell and what that started: {processes:?}");
    let gone = tokio::time::timeout(Duration::from_secs(30), laptop.delete_without_trace("deaf"));
    gone.await.expect("it does not have the usual ten seconds, and not a minute");
}

#[tokio::test]
async fn a_command_or_folder_that_does_not_exist_is_named() {
    let laptop = Laptop::bare().await;
    let no_command = json!({"command": ["no-such-command", "x"]});
    let failed = laptop.create_in_vain(&processes("none", 2, &no_command)).await;
    assert_eq!(state(&failed), "WARNING", "{failed}");
    assert!(reason(&failed).contains("there is no command 'no-such-command'"), "{failed}");
    let worker = laptop.workers("none").await.remove(0);
    assert_eq!(worker.state, "ERROR");
    assert!(worker.reason.contains("no-such-command"), "{worker:?}");
    assert!(laptop.messages("none", "CommandNotFound").await.len() == 2);
    laptop.delete_without_trace("none").await;
    let no_folder = json!({"command": ["sleep", "9"], "working_dir": "/no/such/folder"});
    let failed = laptop.create_in_vain(&processes("nowhere", 1, &no_folder)).await;
    assert!(reason(&failed).contains("/no/such/folder"), "{failed}");
    laptop.delete_without_trace("nowhere").await;
}

#[tokio::test]
async fn a_command_that_ends_at_once_is_told_with_its_code_and_last_lines() {
    let laptop = Laptop::bare().await;
    let properties = json!({"command": ["sh", "-c", "echo something is wrong; exit 3"]});
    laptop.post("/namespaces/demo/clusters", processes("brief", 1, &properties)).await;
    laptop.until("brief", |cluster| state(cluster) == "WARNING").await;
    let worker = laptop.workers("brief").await.remove(0);
    assert!(worker.reason.contains("it exited with code 3"), "{worker:?}");
    assert!(worker.reason.contains("its last lines:\nsomething is wrong"), "{worker:?}");
    laptop.delete_without_trace("brief").await;
}

//! Commands that the output suggests work.

use std::process::Command;

use serde_json::json;

use crate::harness::Harness;
use crate::recipes::processes;

fn muster(harness: &Harness, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).env("MUSTER_DATA_DIR", harness.data()).env("MUSTER_NO_AUTOSTART", "1");
    let output = command.env_remove("MUSTER_SERVER").output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suggested_command_prints_the_log_of_each_node() {
    let harness = Harness::bare().await;
    let talkers = processes("fred", 2, &json!({"command": ["sh", "-c", "echo a word; exec sleep 1000"]}));
    harness.create(&talkers).await;
    let wide = muster(&harness, &["get", "fred", "-n", "demo", "-o", "wide"]);
    for worker in harness.workers("fred").await {
        let shown = wide.lines().find(|line| line.starts_with(&format!("log of {} ", worker.name)));
        let shown = shown.unwrap_or_else(|| panic!("{} is missing:\n{wide}", worker.name));
        let (_, typed) = shown.split_once(" muster ").expect("a command");
        let typed: Vec<&str> = typed.split_whitespace().collect();
        assert_eq!(muster(&harness, &typed), "a word\n", "{shown}");
    }
    assert!(
        !muster(&harness, &["get", "fred", "-n", "demo"]).contains("log of"),
        "only where it is asked for"
    );
    harness.delete_without_trace("fred").await;
}

//! Shell completion of flags and of names that the server knows.

use std::time::{Duration, Instant};

use crate::harness::{Harness, create, run};

/// Returns the completions that bash gets after these words.
fn completions(harness: &Harness, words: &[&str]) -> Vec<String> {
    let mut command = harness.command(&[&["--", "muster"], words].concat());
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true").env("_CLAP_IFS", "\n");
    run(&mut command).success().out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn names_are_completed() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    harness.muster(&create("frida", "0")).success();
    harness.muster(&[create("other", "0"), vec!["-n", "elsewhere"]].concat()).success();
    harness.muster(&["shape", "create", "small", "cpu=2,memory=4Gi"]).success();
    assert_eq!(completions(&harness, &["delete", "fr"]), ["fred", "frida"]);
    assert_eq!(completions(&harness, &["get", "-n", "elsewhere", ""])[0], "other");
    assert_eq!(completions(&harness, &["nodes", "fred", "-n", "e"]), ["elsewhere"]);
    let nodes = completions(&harness, &["logs", "fred", "--node", ""]);
    assert!(nodes.starts_with(&["head".to_owned(), "worker".to_owned()]) && nodes.len() == 3, "{nodes:?}");
    assert_eq!(completions(&harness, &["create", "x", "--shape", "s"]), ["small"]);
    let action = harness.muster(&["actions", "fred", "-o", "name"]).success().out;
    assert_eq!(completions(&harness, &["action", "show", &action[..30]]), [action.trim()]);
    let properties = r#"{"command": ["sleep", "1000"]}"#;
    let plain = ["--profile", "local.process-1.0", "--profile-properties", properties, "--workers", "0"];
    harness.muster(&[&["create", "plain"], &plain[..]].concat()).success();
    harness.muster(&["job", "submit", "plain", "--name", "train", "--follow", "--", "true"]).success();
    assert_eq!(completions(&harness, &["job", "logs", "tr"]), ["train"]);
    harness.muster(&["delete", "plain"]).success();
    assert_eq!(completions(&harness, &["wait", "fred", "--for", "del"]), ["deleting", "deleted"]);
    assert_eq!(completions(&harness, &["get", "--state", "AC"]), ["ACTIVE"]);
    assert_eq!(completions(&harness, &["get", "--sort", "cr"]), ["created_at"]);
    assert!(completions(&harness, &["sca"]).contains(&"scale".to_owned()));
}

#[test]
fn completion_starts_no_server_and_does_not_wait_for_one() {
    let harness = Harness::new();
    assert_eq!(completions(&harness, &["delete", "fr"]), Vec::<String>::new());
    assert!(!harness.data().exists());
    // A server that never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let begun = Instant::now();
    assert_eq!(completions(&harness, &["delete", "--server", &server, "fr"]), Vec::<String>::new());
    assert!(begun.elapsed() < Duration::from_secs(5), "the shell waits for {:?}", begun.elapsed());
}

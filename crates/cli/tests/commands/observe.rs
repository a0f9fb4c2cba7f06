//! Events, watches of nodes, and logs of deleted clusters.

use muster_testkit::Process;

use crate::harness::{Harness, TIMEOUT, create};

/// Returns the arguments that create a cluster of local processes.
fn create_processes<'a>(name: &'a str, properties: &'a str) -> Vec<&'a str> {
    vec![
        "create",
        name,
        "--profile",
        "local.process-1.0",
        "--profile-properties",
        properties,
        "--workers",
        "1",
    ]
}

/// Waits for the end of a command that reports the deletion of its cluster.
async fn ends_with_deletion(mut process: Process) {
    process.wait_for_line("cluster 'fred' was deleted", TIMEOUT).await;
    let status = process.wait_for_exit(TIMEOUT).await;
    assert!(status.success(), "{status}: {}", process.tail());
}

#[tokio::test]
async fn events_are_followed_until_the_cluster_is_deleted() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let follower = harness.spawn(&["events", "fred", "-f", "-o", "json"]);
    follower.wait_for_line("CLUSTER_CREATE", TIMEOUT).await;
    harness.muster(&["scale", "fred", "--workers", "2"]).success();
    follower.wait_for_line("CLUSTER_RESIZE", TIMEOUT).await;
    harness.muster(&["delete", "fred"]).success();
    follower.wait_for_line("CLUSTER_DELETE", TIMEOUT).await;
    ends_with_deletion(follower).await;
}

#[tokio::test]
async fn full_messages_are_printed_below_their_events() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let full = harness.muster(&["events", "fred", "--full"]).success().out;
    let event = full.lines().position(|line| line.contains("CLUSTER_CREATE")).expect("an event");
    assert!(full.lines().nth(event + 1).is_some_and(|line| line.starts_with("    ")), "{full}");
}

#[tokio::test]
async fn nodes_are_watched_until_the_cluster_is_deleted() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let watch = harness.spawn(&["nodes", "fred", "--watch", "-o", "json"]);
    watch.wait_for_line("ADDED", TIMEOUT).await;
    harness.muster(&["delete", "fred"]).success();
    watch.wait_for_line("DELETED", TIMEOUT).await;
    ends_with_deletion(watch).await;
}

#[tokio::test]
async fn a_cluster_is_watched_until_it_is_deleted_and_its_namesakes_are_not() {
    let harness = Harness::new();
    for format in ["table", "json"] {
        harness.muster(&create("fred", "1")).success();
        harness.muster(&create("freddy", "0")).success();
        let watch = harness.spawn(&["get", "fred", "--watch", "-o", format]);
        watch.wait_for_line("fred", TIMEOUT).await;
        harness.muster(&["delete", "freddy"]).success();
        harness.muster(&["delete", "fred"]).success();
        watch.wait_for_line("DELETED", TIMEOUT).await;
        assert!(!watch.tail().contains("freddy"), "{}", watch.tail());
        ends_with_deletion(watch).await;
    }
}

#[tokio::test]
async fn logs_are_followed_until_the_cluster_is_deleted() {
    let harness = Harness::new();
    let words = r#"{"command": ["sh", "-c", "echo a word; exec sleep 1000"]}"#;
    for chosen in [&[][..], &["--node", "1"]] {
        harness.muster(&create_processes("fred", words)).success();
        let logs = harness.spawn(&[&["logs", "fred", "-f"], chosen].concat());
        logs.wait_for_line("a word", TIMEOUT).await;
        harness.muster(&["delete", "fred"]).success();
        ends_with_deletion(logs).await;
    }
}

#[tokio::test]
async fn a_followed_log_has_the_lines_of_the_time_without_a_server() {
    let harness = Harness::new();
    let go = harness.data().with_file_name("go");
    let line = format!(
        "echo begun; until test -e {0}; do sleep 0.02; done; echo missed; exec sleep 1000",
        go.display()
    );
    let words = serde_json::json!({"command": ["sh", "-c", line]}).to_string();
    harness.muster(&create_processes("fred", &words)).success();
    let logs = harness.spawn(&["logs", "fred", "-f"]);
    logs.wait_for_line("begun", TIMEOUT).await;
    harness.kill_server();
    std::fs::write(&go, "").unwrap();
    logs.wait_for_line("missed", TIMEOUT).await;
    let printed = std::fs::read_to_string(logs.log()).unwrap();
    assert_eq!(printed.matches("begun").count(), 1, "{printed}");
    harness.muster(&["delete", "fred"]).success();
    ends_with_deletion(logs).await;
}

#[tokio::test]
async fn the_error_for_a_deleted_cluster_says_when_and_by_whom() {
    let harness = Harness::new();
    harness.muster(&create("fred", "0")).success();
    harness.muster(&["delete", "fred"]).success();
    let gone = harness.muster(&["get", "fred"]);
    assert_eq!(gone.code, 4);
    let words = "error: no such cluster 'fred': it was deleted ";
    assert!(gone.err.contains(words) && gone.err.contains(" ago by "), "{gone:?}");
    assert!(gone.err.contains("`muster events fred`"), "{gone:?}");
    let never = harness.muster(&["get", "other"]);
    assert!(never.code == 4 && !never.err.contains("was deleted"), "{never:?}");
}

#[tokio::test]
async fn logs_of_a_deleted_cluster_are_printed_as_long_as_they_are_stored() {
    let harness = Harness::new();
    let words = r#"{"command": ["sh", "-c", "echo a word of fred; exec sleep 1000"]}"#;
    harness.muster(&create_processes("fred", words)).success();
    let node = harness.muster(&["nodes", "fred", "-o", "name"]).success().out.trim().to_owned();
    assert_eq!(harness.muster(&["logs", "fred"]).success().out, "a word of fred\n");
    assert_eq!(harness.muster(&["logs", "fred", "--since", "1h"]).success().out, "a word of fred\n");
    let later = harness.muster(&["logs", "fred", "--since", "2100-01-01T00:00:00Z"]).success();
    assert_eq!(later.out, "", "nothing was written since then");
    assert_eq!(harness.muster(&["logs", "fred", "--since", "soon"]).code, 2);
    harness.muster(&["delete", "fred"]).success();
    assert_eq!(harness.muster(&["logs", "fred"]).success().out, format!("{node} | a word of fred\n"));
    assert_eq!(harness.muster(&["logs", "fred", "--node", &node]).success().out, "a word of fred\n");
    assert_eq!(harness.muster(&["logs", "fred", "--since", "2100-01-01T00:00:00Z"]).success().out, "");
    assert_eq!(harness.muster(&["logs", "fred", "--node", "x"]).code, 4);
    assert_eq!(harness.muster(&["logs", "other"]).code, 4);
}

#[tokio::test]
async fn actions_have_the_names_of_clusters_and_nodes_also_of_deleted_clusters() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    harness.muster(&create("wilma", "0")).success();
    harness.muster(&["delete", "wilma"]).success();
    let node = harness.muster(&["nodes", "fred", "-o", "name"]).success().out.trim().to_owned();
    let lines = |arguments: &[&str]| -> Vec<Vec<String>> {
        let out = harness.muster(&[&["actions"], arguments].concat()).success().out;
        out.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let named = |lines: &[Vec<String>]| -> Vec<(String, String)> {
        lines.iter().map(|line| (line[1].clone(), line[2].clone())).collect()
    };
    let pair = |name: &str, action: &str| (name.to_owned(), action.to_owned());
    let creation = pair("fred", "CLUSTER_CREATE");
    let of_wilma = [pair("wilma", "CLUSTER_CREATE"), pair("wilma", "CLUSTER_DELETE")];
    let all = [vec![creation.clone()], of_wilma.to_vec()].concat();
    assert_eq!(named(&lines(&[])), all);
    assert_eq!(named(&lines(&["wilma"])), of_wilma);
    assert_eq!(named(&lines(&["fred", "--all"])), [creation, pair(&node, "NODE_CREATE")]);
    for line in lines(&["-o", "wide"]) {
        let is_id = |word: &&String| word.len() == 36 && word.matches('-').count() == 4;
        let mut ids: Vec<&String> = line.iter().filter(is_id).collect();
        ids.dedup();
        assert_eq!(ids.len(), 2, "its own id and its target's: {line:?}");
    }
}

#[tokio::test]
async fn a_list_shows_the_sum_of_requested_resources() {
    let harness = Harness::new();
    let words = r#"{"command": ["sleep", "1000"]}"#;
    let shape = ["--shape", "cpu=500m,memory=16Mi"];
    harness.muster(&[&create_processes("fred", words)[..], &shape].concat()).success();
    let listed = harness.muster(&["get"]).success().out;
    assert!(
        listed.lines().nth(1).is_some_and(|line| line.trim_end().ends_with("500m  16Mi    <missing>")),
        "{listed}"
    );
    harness.muster(&["delete", "fred"]).success();
}

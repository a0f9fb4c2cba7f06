//! A cluster's life cycle by commands alone.

use muster_testkit::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Harness, TIMEOUT, create, slow};

#[tokio::test]
async fn a_cluster_is_created_listed_scaled_and_deleted() {
    let harness = Harness::new();
    let made = harness.muster(&create("fred", "2")).success();
    assert!(made.out.contains("ACTIVE") && made.out.contains("2/2"), "{made:?}");
    let scaled = harness.muster(&["scale", "fred", "--workers", "3", "-o", "json"]).success().json();
    assert_eq!(scaled["readyWorkers"], 3, "{scaled}");
    assert_eq!(harness.muster(&["nodes", "fred", "-o", "name"]).success().out.lines().count(), 3);
    let events = harness.muster(&["events", "fred"]).success().out;
    assert!(events.contains("CLUSTER_CREATE") && events.contains("CLUSTER_RESIZE"), "{events}");
    let actions = harness.muster(&["actions", "fred", "-o", "json"]).success().json();
    let kinds: Vec<_> =
        actions["actions"].as_array().unwrap().iter().map(|action| &action["action"]).collect();
    assert_eq!(kinds, ["CLUSTER_CREATE", "CLUSTER_RESIZE"], "actions of nodes are listed only with --all");
    let all = harness.muster(&["actions", "--all", "-o", "json"]).success().json();
    assert_eq!(all["actions"].as_array().map(Vec::len), Some(5), "{all}");
    assert_eq!(harness.muster(&["env", "fred"]).success().out, "export MUSTER_CLUSTER='fred'\n");
    assert_eq!(harness.muster(&["delete", "fred"]).success().out, "cluster \"fred\" deleted\n");
    assert_eq!(harness.muster(&["get", "fred"]).code, 4);
}

#[tokio::test]
async fn an_update_changes_what_it_names() {
    let harness = Harness::new();
    harness.muster(&[create("fred", "1"), vec!["--idle-timeout", "1h"]].concat()).success();
    let update = |flags: &[&str]| harness.muster(&[&["update", "fred", "-o", "json"], flags].concat());
    let updated = update(&["--label", "team=x", "--label", "stage=dev", "--max", "3"]).success().json();
    assert_eq!(updated["labels"], serde_json::json!({"stage": "dev", "team": "x"}), "{updated}");
    assert_eq!(updated["clusterSpec"]["workerGroupSpec"][0]["maxReplicas"], 3, "{updated}");
    assert_eq!(updated["idleTimeout"], "3600s", "{updated}");
    let updated = update(&["--label", "team-", "--max", "none", "--idle-timeout", "none"]).success().json();
    assert_eq!(updated["labels"], serde_json::json!({"stage": "dev"}), "{updated}");
    assert_eq!(updated["clusterSpec"]["workerGroupSpec"][0].get("maxReplicas"), None, "{updated}");
    assert_eq!(updated.get("idleTimeout"), None, "{updated}");
    assert_eq!(update(&[]).code, 2, "nothing is given");
    assert_eq!(update(&["--max", "3", "--group", "other"]).code, 2, "the group does not exist");
}

#[tokio::test]
async fn events_of_a_deleted_cluster_are_listed_even_if_its_name_is_reused() {
    let harness = Harness::new();
    let first = harness.muster(&[create("fred", "1"), vec!["-o", "json"]].concat()).success().json();
    let id = first["id"].as_str().unwrap();
    assert_eq!(
        harness.muster(&["get", id, "-o", "name"]).success().out,
        "fred\n",
        "an id is accepted as a name"
    );
    harness.muster(&["delete", "fred"]).success();
    let events = harness.muster(&["events", "fred"]).success().out;
    assert!(events.contains("CLUSTER_DELETE"), "{events}");
    let actions = |name| harness.muster(&["actions", name, "-o", "name"]).success().out.lines().count();
    assert_eq!(actions("fred"), 2);
    harness.muster(&create("fred", "1")).success();
    assert_eq!((actions("fred"), actions(id)), (1, 2), "the name means the existing cluster");
    assert_eq!(harness.muster(&["get", "missing"]).code, 4);
    assert_eq!(harness.muster(&["events", "missing"]).code, 4);
}

#[tokio::test]
async fn the_namespace_comes_from_flag_variable_or_default() {
    let harness = Harness::new();
    harness.muster(&create("fred", "0")).success();
    harness.muster(&[create("fred", "0"), vec!["-n", "other"]].concat()).success();
    let mut here = harness.command(&["get", "-o", "json"]);
    let here = crate::harness::run(here.env("MUSTER_NAMESPACE", "other")).json();
    assert_eq!(here[0]["namespace"], "other", "{here}");
    assert_eq!(harness.muster(&["get", "-o", "json"]).json().as_array().map(Vec::len), Some(1));
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).out, "default/fred\nother/fred\n");
    assert_eq!(harness.muster(&["delete", "fred", "-n", "other"]).code, 0);
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).out, "default/fred\n");
}

#[tokio::test]
async fn actions_are_filtered_by_namespace() {
    let harness = Harness::new();
    harness.muster(&create("fred", "0")).success();
    harness.muster(&[create("fred", "0"), vec!["-n", "other"]].concat()).success();
    let count = |arguments: &[&str]| {
        harness.muster(&[arguments, &["-o", "name"]].concat()).success().out.lines().count()
    };
    assert_eq!(count(&["actions"]), 2);
    assert_eq!(count(&["actions", "-n", "other"]), 1);
    assert_eq!(count(&["actions", "-n", "none"]), 0);
}

#[tokio::test]
async fn an_action_that_is_not_waited_for_is_shown_and_cancelled_by_its_id() {
    let harness = Harness::new();
    let properties = slow(3600);
    let begun = harness
        .muster(&[create("slow", "1"), vec!["--no-wait", "--profile-properties", &properties]].concat())
        .success();
    let actions = harness.muster(&["actions", "slow", "-o", "name"]).success().out;
    let id = actions.trim();
    assert!(begun.err.contains(&format!("accepted as action {id}")), "{begun:?}");
    let shown = harness.muster(&["action", "show", id]).success().out;
    assert!(shown.contains("CLUSTER_CREATE") && shown.contains("RUNNING"), "{shown}");
    harness.muster(&["action", "signal", id, "suspend"]).success();
    harness.muster(&["action", "signal", id, "resume"]).success();
    harness.muster(&["action", "cancel", id]).success();
    let deleted = harness.muster(&["delete", "slow", "--no-wait"]).success();
    assert!(deleted.err.contains("accepted as action"), "{deleted:?}");
}

#[tokio::test]
async fn an_action_is_found_by_the_beginning_of_its_id_as_events_show_it() {
    let harness = Harness::new();
    harness.muster(&create("fred", "0")).success();
    harness.muster(&create("other", "0")).success();
    let id = harness.muster(&["actions", "fred", "-o", "name"]).success().out;
    let events = harness.muster(&["events", "fred", "-o", "json"]).success().json();
    let begun = events["events"].as_array().unwrap().iter().find(|event| event["phase"] == "start").unwrap();
    let short = begun["message"].as_str().unwrap();
    assert!(short.len() < id.trim().len() && id.starts_with(short), "{short} of {id}");
    assert_eq!(harness.muster(&["action", "show", short, "-o", "name"]).success().out, id);
    let cancelled = harness.muster(&["action", "cancel", short]);
    assert!(cancelled.err.contains("it has ended"), "{cancelled:?}");
    let ambiguous = harness.muster(&["action", "show", &short[..2]]);
    assert_eq!(ambiguous.code, 2, "{ambiguous:?}");
    assert!(ambiguous.err.contains("the ids of several actions begin with"), "{ambiguous:?}");
}

#[tokio::test]
async fn progress_is_printed_to_standard_error() {
    let harness = Harness::new();
    let properties = slow(3600);
    let out = harness.data().with_extension("out");
    let create = [create("fred", "2"), vec!["--profile-properties", &properties]].concat();
    let shell = harness.shell(&format!(r#"exec "$@" > '{}'"#, out.display()), &create);
    let mut waiting = Process::spawn("muster", &shell);
    waiting.wait_for_line("fred: CREATING, 0/2 workers ready (", TIMEOUT).await;
    interrupt(&waiting);
    waiting.wait_for_exit(TIMEOUT).await;
    assert_eq!(std::fs::read_to_string(out).unwrap(), "", "standard output has only the result");
}

#[tokio::test]
async fn a_queued_change_says_that_it_waits() {
    let harness = Harness::new();
    let properties = slow(3600);
    harness
        .muster(&[create("slow", "1"), vec!["--no-wait", "--profile-properties", &properties]].concat())
        .success();
    let behind = harness.spawn(&["scale", "slow", "--workers", "2"]);
    behind.wait_for_line("slow: CREATING, 0/1 workers ready, queued (", TIMEOUT).await;
}

#[tokio::test]
async fn an_interrupted_wait_says_that_the_action_continues_and_how_to_end_it() {
    let harness = Harness::new();
    let properties = slow(3600);
    let mut waiting =
        harness.spawn(&[create("slow", "1"), vec!["--profile-properties", &properties]].concat());
    waiting.wait_for_line("slow: CREATING", TIMEOUT).await;
    interrupt(&waiting);
    waiting.wait_for_line("remove it with `muster delete slow`", TIMEOUT).await;
    waiting.wait_for_line("continues", TIMEOUT).await;
    assert_eq!(waiting.wait_for_exit(TIMEOUT).await.code(), Some(130));

    let mut waiting = harness.spawn(&["scale", "slow", "--workers", "2"]);
    waiting.wait_for_line("slow: CREATING", TIMEOUT).await;
    interrupt(&waiting);
    let line = waiting.wait_for_line("cancel it with `muster action cancel", TIMEOUT).await;
    assert_eq!(waiting.wait_for_exit(TIMEOUT).await.code(), Some(130));
    let typed: Vec<&str> = line.split('`').nth(1).expect("a command").split(' ').skip(1).collect();
    harness.muster(&typed).success();
}

fn interrupt(process: &Process) {
    let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
    kill_process(pid, Signal::INT).expect("it can be signalled");
}

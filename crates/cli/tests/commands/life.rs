//! A cluster's life by commands alone.

use muster_testkit::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, PATIENCE, create, slow};

#[tokio::test]
async fn a_cluster_is_made_looked_at_scaled_and_deleted() {
    let home = Home::new();
    let made = home.muster(&create("fred", "2")).done();
    assert!(made.out.contains("ACTIVE") && made.out.contains("2/2"), "{made:?}");
    let scaled = home.muster(&["scale", "fred", "--workers", "3", "-o", "json"]).done().json();
    assert_eq!(scaled["readyWorkers"], 3, "{scaled}");
    assert_eq!(home.muster(&["nodes", "fred", "-o", "name"]).done().out.lines().count(), 3);
    let events = home.muster(&["events", "fred"]).done().out;
    assert!(events.contains("CLUSTER_CREATE") && events.contains("CLUSTER_RESIZE"), "{events}");
    let actions = home.muster(&["actions", "fred", "-o", "json"]).done().json();
    let kinds: Vec<_> =
        actions["actions"].as_array().unwrap().iter().map(|action| &action["action"]).collect();
    assert_eq!(kinds, ["CLUSTER_CREATE", "CLUSTER_RESIZE"], "a node's own actions are not asked for");
    let all = home.muster(&["actions", "--all", "-o", "json"]).done().json();
    assert_eq!(all["actions"].as_array().map(Vec::len), Some(5), "{all}");
    assert_eq!(home.muster(&["env", "fred"]).done().out, "export MUSTER_CLUSTER='fred'\n");
    assert_eq!(home.muster(&["delete", "fred"]).done().out, "cluster \"fred\" deleted\n");
    assert_eq!(home.muster(&["get", "fred"]).code, 4);
}

#[tokio::test]
async fn an_update_changes_what_it_names() {
    let home = Home::new();
    home.muster(&[create("fred", "1"), vec!["--idle-timeout", "1h"]].concat()).done();
    let update = |flags: &[&str]| home.muster(&[&["update", "fred", "-o", "json"], flags].concat());
    let updated = update(&["--label", "team=x", "--label", "stage=dev", "--max", "3"]).done().json();
    assert_eq!(updated["labels"], serde_json::json!({"stage": "dev", "team": "x"}), "{updated}");
    assert_eq!(updated["clusterSpec"]["workerGroupSpec"][0]["maxReplicas"], 3, "{updated}");
    assert_eq!(updated["idleTimeout"], "3600s", "{updated}");
    let updated = update(&["--label", "team-", "--max", "none", "--idle-timeout", "none"]).done().json();
    assert_eq!(updated["labels"], serde_json::json!({"stage": "dev"}), "{updated}");
    assert_eq!(updated["clusterSpec"]["workerGroupSpec"][0].get("maxReplicas"), None, "{updated}");
    assert_eq!(updated.get("idleTimeout"), None, "{updated}");
    assert_eq!(update(&[]).code, 2, "nothing is given");
    assert_eq!(update(&["--max", "3", "--group", "other"]).code, 2, "there is no such group");
}

#[tokio::test]
async fn what_happened_to_a_cluster_is_told_when_it_is_gone_and_its_name_anothers() {
    let home = Home::new();
    let first = home.muster(&[create("fred", "1"), vec!["-o", "json"]].concat()).done().json();
    let id = first["id"].as_str().unwrap();
    assert_eq!(home.muster(&["get", id, "-o", "name"]).done().out, "fred\n", "its id stands for its name");
    home.muster(&["delete", "fred"]).done();
    let events = home.muster(&["events", "fred"]).done().out;
    assert!(events.contains("CLUSTER_DELETE"), "{events}");
    let actions = |name| home.muster(&["actions", name, "-o", "name"]).done().out.lines().count();
    assert_eq!(actions("fred"), 2);
    home.muster(&create("fred", "1")).done();
    assert_eq!((actions("fred"), actions(id)), (1, 2), "the one that is there comes first");
    assert_eq!(home.muster(&["get", "nobody"]).code, 4);
    assert_eq!(home.muster(&["events", "nobody"]).code, 4);
}

#[tokio::test]
async fn the_namespace_is_said_or_set_or_default() {
    let home = Home::new();
    home.muster(&create("fred", "0")).done();
    home.muster(&[create("fred", "0"), vec!["-n", "other"]].concat()).done();
    let mut here = home.command(&["get", "-o", "json"]);
    let here = crate::home::run(here.env("MUSTER_NAMESPACE", "other")).json();
    assert_eq!(here[0]["namespace"], "other", "{here}");
    assert_eq!(home.muster(&["get", "-o", "json"]).json().as_array().map(Vec::len), Some(1));
    assert_eq!(home.muster(&["get", "-A", "-o", "name"]).out, "fred\nfred\n");
    assert_eq!(home.muster(&["delete", "fred", "-n", "other"]).code, 0);
    assert_eq!(home.muster(&["get", "-A", "-o", "name"]).out, "fred\n");
}

#[tokio::test]
async fn actions_are_those_of_a_namespace_where_one_is_given() {
    let home = Home::new();
    home.muster(&create("fred", "0")).done();
    home.muster(&[create("fred", "0"), vec!["-n", "other"]].concat()).done();
    let count =
        |arguments: &[&str]| home.muster(&[arguments, &["-o", "name"]].concat()).done().out.lines().count();
    assert_eq!(count(&["actions"]), 2);
    assert_eq!(count(&["actions", "-n", "other"]), 1);
    assert_eq!(count(&["actions", "-n", "none"]), 0);
}

#[tokio::test]
async fn what_is_not_waited_for_is_found_and_cancelled_by_its_id() {
    let home = Home::new();
    let properties = slow(3600);
    let begun = home
        .muster(&[create("slow", "1"), vec!["--no-wait", "--profile-properties", &properties]].concat())
        .done();
    let actions = home.muster(&["actions", "slow", "-o", "name"]).done().out;
    let id = actions.trim();
    assert!(begun.err.contains(&format!("accepted as action {id}")), "{begun:?}");
    let shown = home.muster(&["action", "show", id]).done().out;
    assert!(shown.contains("CLUSTER_CREATE") && shown.contains("RUNNING"), "{shown}");
    home.muster(&["action", "signal", id, "suspend"]).done();
    home.muster(&["action", "signal", id, "resume"]).done();
    home.muster(&["action", "cancel", id]).done();
    let deleted = home.muster(&["delete", "slow", "--no-wait"]).done();
    assert!(deleted.err.contains("accepted as action"), "{deleted:?}");
}

#[tokio::test]
async fn an_action_is_found_by_the_beginning_of_its_id_as_events_show_it() {
    let home = Home::new();
    home.muster(&create("fred", "0")).done();
    home.muster(&create("other", "0")).done();
    let id = home.muster(&["actions", "fred", "-o", "name"]).done().out;
    let events = home.muster(&["events", "fred", "-o", "json"]).done().json();
    let begun = events["events"].as_array().unwrap().iter().find(|event| event["phase"] == "start").unwrap();
    let short = begun["message"].as_str().unwrap();
    assert!(short.len() < id.trim().len() && id.starts_with(short), "{short} of {id}");
    assert_eq!(home.muster(&["action", "show", short, "-o", "name"]).done().out, id);
    let cancelled = home.muster(&["action", "cancel", short]);
    assert!(cancelled.err.contains("it has ended"), "{cancelled:?}");
    let ambiguous = home.muster(&["action", "show", &short[..2]]);
    assert_eq!(ambiguous.code, 2, "{ambiguous:?}");
    assert!(ambiguous.err.contains("the ids of several actions begin with"), "{ambiguous:?}");
}

#[tokio::test]
async fn waiting_tells_how_things_stand_on_standard_error() {
    let home = Home::new();
    let properties = slow(3600);
    let out = home.data().with_extension("out");
    let create = [create("fred", "2"), vec!["--profile-properties", &properties]].concat();
    let shell = home.shell(&format!(r#"exec "$@" > '{}'"#, out.display()), &create);
    let mut waiting = Process::spawn("muster", &shell);
    waiting.wait_for_line("fred: CREATING, ?/2 workers ready: Initializing", PATIENCE).await;
    interrupt(&waiting);
    waiting.wait_for_exit(PATIENCE).await;
    assert_eq!(std::fs::read_to_string(out).unwrap(), "", "what others read is only the result");
}

#[tokio::test]
async fn a_change_behind_another_says_that_it_waits() {
    let home = Home::new();
    let properties = slow(3600);
    home.muster(&[create("slow", "1"), vec!["--no-wait", "--profile-properties", &properties]].concat())
        .done();
    let behind = home.begin(&["scale", "slow", "--workers", "2"]);
    behind
        .wait_for_line("slow: CREATING, ?/1 workers ready: Initializing, waiting for its turn", PATIENCE)
        .await;
}

#[tokio::test]
async fn whoever_stops_waiting_is_told_that_it_goes_on_and_how_to_cancel_it() {
    let home = Home::new();
    let properties = slow(3600);
    let mut waiting = home.begin(&[create("slow", "1"), vec!["--profile-properties", &properties]].concat());
    waiting.wait_for_line("slow: CREATING", PATIENCE).await;
    interrupt(&waiting);
    let line = waiting.wait_for_line("cancel it with `muster action cancel", PATIENCE).await;
    waiting.wait_for_line("goes on", PATIENCE).await;
    assert_eq!(waiting.wait_for_exit(PATIENCE).await.code(), Some(130));
    let typed: Vec<&str> = line.split('`').nth(1).expect("a command").split(' ').skip(1).collect();
    home.muster(&typed).done();
}

fn interrupt(process: &Process) {
    let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
    kill_process(pid, Signal::INT).expect("it can be signalled");
}

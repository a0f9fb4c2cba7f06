//! A server that restarts finds its nodes, and removes what is over.

use std::fs;

use muster_local::shim::{Ending, Found, RemoveError, Stop};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{FIRST, Harness, PATIENCE, end, outcome, signal, stop};

fn edit_state(harness: &Harness, edit: impl FnOnce(&mut Value)) {
    let path = harness.node.path().join("state.json");
    let mut state = serde_json::from_slice(&fs::read(&path).expect("a state")).expect("JSON");
    edit(&mut state);
    fs::write(&path, state.to_string()).expect("written");
}

fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

#[test]
fn a_restarted_server_finds_its_node_and_hears_of_its_end() {
    let harness = Harness::new();
    // The first server goes, with everything it knew.
    let process = on_a_runtime(async { harness.start_sleeper().await.process() });
    on_a_runtime(async {
        let shims = harness.restarted_server();
        let Found::Running(running) = shims.find(&harness.node).unwrap() else { panic!("it does not run") };
        assert_eq!(running.process(), process);
        running.stop(FIRST, Stop::within(PATIENCE)).await.unwrap();
        assert_eq!(end(&running).await.how, Ending::Signaled { signal: 15 });
    });
}

#[test]
fn how_a_node_ended_survives_a_server_that_was_away() {
    let harness = Harness::new();
    let running = on_a_runtime(harness.start_sleeper());
    signal(running.process().unwrap().pid, Signal::KILL);
    on_a_runtime(outcome(&running));
    let found = harness.restarted_server().find(&harness.node).unwrap();
    assert!(matches!(found, Found::Ended(end) if end.how == Ending::Signaled { signal: 9 }));
}

#[tokio::test]
async fn nothing_was_started_in_a_new_folder() {
    let harness = Harness::new();
    assert!(matches!(harness.shims.find(&harness.node).unwrap(), Found::NeverStarted));
    harness.node.make().unwrap();
    assert!(matches!(harness.shims.find(&harness.node).unwrap(), Found::NeverStarted));
}

#[tokio::test]
async fn a_node_of_another_boot_is_known_as_such() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    edit_state(&harness, |state| state["boot_id"] = json!("00000000-0000-0000-0000-000000000000"));
    let Found::AnotherBoot(state) = harness.shims.find(&harness.node).unwrap() else {
        panic!("it is of this boot")
    };
    assert_eq!(state.child, running.process());
    stop(&running).await;
}

#[tokio::test]
async fn a_number_that_became_anothers_is_not_taken_for_the_shim() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    edit_state(&harness, |state| state["shim"]["start_time"] = json!(1));
    assert!(matches!(harness.shims.find(&harness.node).unwrap(), Found::Lost));
    stop(&running).await;
}

#[tokio::test]
async fn half_a_state_is_a_lost_node_once_its_shim_is_gone() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let whole = fs::read(harness.node.path().join("state.json")).unwrap();
    fs::write(harness.node.path().join("state.json"), "{").unwrap();
    assert!(harness.shims.find(&harness.node).is_err());
    fs::write(harness.node.path().join("state.json"), whole).unwrap();
    stop(&running).await;
    fs::write(harness.node.path().join("state.json"), "").unwrap();
    assert!(matches!(harness.shims.find(&harness.node).unwrap(), Found::Lost));
}

#[tokio::test]
async fn a_removed_node_leaves_nothing() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let refusal = harness.shims.remove(&harness.node, FIRST, false).await.unwrap_err();
    assert!(matches!(refusal, RemoveError::Running), "{refusal}");
    stop(&running).await;
    fs::create_dir_all(harness.node.path().join("scratch/deep")).unwrap();
    harness.shims.remove(&harness.node, FIRST, false).await.unwrap();
    assert!(!harness.node.path().exists());
    harness.shims.remove(&harness.node, FIRST, false).await.unwrap();
}

#[tokio::test]
async fn a_removed_node_may_leave_its_logs() {
    let harness = Harness::new();
    end(&harness.start(&harness.script("echo words")).await).await;
    fs::create_dir_all(harness.node.path().join("scratch/deep")).unwrap();
    harness.shims.remove(&harness.node, FIRST, true).await.unwrap();
    let entries = fs::read_dir(harness.node.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["lock", "log"]);
    assert_eq!(harness.node.tail(1).unwrap(), ["words"]);
}

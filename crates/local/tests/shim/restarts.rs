//! A restarted server finds its nodes, and removes those that have ended.

use std::fs;

use muster_local::shim::{ExitCause, NodeProcessState, RemoveError, StopSpec};
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
fn a_restarted_server_finds_its_node_and_observes_its_end() {
    let harness = Harness::new();
    // The first server ends, and its state in memory is lost.
    let process = on_a_runtime(async { harness.start_sleeper().await.process() });
    on_a_runtime(async {
        let shims = harness.restarted_server();
        let NodeProcessState::Running(running) = shims.inspect(&harness.node).unwrap() else {
            panic!("it does not run")
        };
        assert_eq!(running.process(), process);
        running.stop(FIRST, StopSpec::with_grace(PATIENCE)).await.unwrap();
        assert_eq!(end(&running).await.how, ExitCause::Signaled { signal: 15 });
    });
}

#[test]
fn the_end_of_a_node_without_a_server_is_recorded() {
    let harness = Harness::new();
    let running = on_a_runtime(harness.start_sleeper());
    signal(running.process().unwrap().pid, Signal::KILL);
    on_a_runtime(outcome(&running));
    let found = harness.restarted_server().inspect(&harness.node).unwrap();
    assert!(matches!(found, NodeProcessState::Ended(end) if end.how == ExitCause::Signaled { signal: 9 }));
}

#[tokio::test]
async fn nothing_was_started_in_a_new_folder() {
    let harness = Harness::new();
    assert!(matches!(harness.shims.inspect(&harness.node).unwrap(), NodeProcessState::NeverStarted));
    harness.node.create().unwrap();
    assert!(matches!(harness.shims.inspect(&harness.node).unwrap(), NodeProcessState::NeverStarted));
}

#[tokio::test]
async fn a_node_of_another_boot_is_known_as_such() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    edit_state(&harness, |state| state["boot_id"] = json!("00000000-0000-0000-0000-000000000000"));
    let NodeProcessState::AnotherBoot(state) = harness.shims.inspect(&harness.node).unwrap() else {
        panic!("it is of this boot")
    };
    assert_eq!(state.child, running.process());
    stop(&running).await;
}

#[tokio::test]
async fn a_reused_process_number_is_not_mistaken_for_the_shim() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    edit_state(&harness, |state| state["shim"]["start_time"] = json!(1));
    assert!(matches!(harness.shims.inspect(&harness.node).unwrap(), NodeProcessState::Lost));
    stop(&running).await;
}

#[tokio::test]
async fn a_partial_state_is_a_lost_node_once_its_shim_has_ended() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let whole = fs::read(harness.node.path().join("state.json")).unwrap();
    fs::write(harness.node.path().join("state.json"), "{").unwrap();
    assert!(harness.shims.inspect(&harness.node).is_err());
    fs::write(harness.node.path().join("state.json"), whole).unwrap();
    stop(&running).await;
    fs::write(harness.node.path().join("state.json"), "").unwrap();
    assert!(matches!(harness.shims.inspect(&harness.node).unwrap(), NodeProcessState::Lost));
}

#[tokio::test]
async fn a_removed_node_leaves_no_files() {
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
async fn a_removed_node_keeps_its_logs_on_request() {
    let harness = Harness::new();
    end(&harness.start(&harness.script("echo words")).await).await;
    fs::create_dir_all(harness.node.path().join("scratch/deep")).unwrap();
    harness.shims.remove(&harness.node, FIRST, true).await.unwrap();
    let entries = fs::read_dir(harness.node.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["lock", "log", "times"]);
    assert_eq!(harness.node.tail(1).unwrap(), ["words"]);
}

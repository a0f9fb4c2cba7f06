//! Killed shims, and the processes that they leave.

use muster_local::shim::{NodeProcessState, RunOutcome, StopSpec};
use rustix::process::Signal;

use crate::harness::{FIRST, Harness, PATIENCE, outcome, signal, stop};

/// A node with a daemon that has its own session and outlives the node.
const WITH_DAEMON: &str =
    "(setsid sh -c 'echo $$ > $GATE; while :; do sleep 1000; done' &) ; exec sleep 1000";

#[tokio::test]
async fn a_node_dies_with_its_shim_and_its_other_processes_are_found_by_their_marker() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(WITH_DAEMON)).await;
    let daemon = gate.number().await;
    signal(running.state().shim.pid, Signal::KILL);
    assert_eq!(outcome(&running).await, RunOutcome::Lost);
    assert!(matches!(harness.shims.inspect(&harness.node).unwrap(), NodeProcessState::Lost));
    assert!(harness.processes().contains(&daemon));
    // At least the daemon and its sleep; the node's command may still be ending.
    assert!(harness.shims.clean_up_lost(&harness.node).await.unwrap() >= 2);
    harness.has_no_process();
    harness.has_no_socket();
    assert_eq!(harness.shims.clean_up_lost(&harness.node).await.unwrap(), 0);
}

#[tokio::test]
async fn a_process_without_marker_is_found_by_its_session() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness
        .start(&harness.script("env -i sh -c 'echo $$ > \"$0\"; exec sleep 1000' $GATE & exec sleep 1000"))
        .await;
    let unmarked = gate.number().await;
    signal(running.state().shim.pid, Signal::KILL);
    assert_eq!(outcome(&running).await, RunOutcome::Lost);
    assert!(rustix::process::test_kill_process(rustix::process::Pid::from_raw(unmarked).unwrap()).is_ok());
    assert!(harness.shims.clean_up_lost(&harness.node).await.unwrap() >= 1);
    let gone = async {
        while std::path::Path::new(&format!("/proc/{unmarked}")).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it was killed");
    harness.has_no_socket();
}

#[tokio::test]
async fn the_kernel_ends_the_command_when_its_shim_is_killed() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let process = running.process().unwrap().pid;
    signal(running.state().shim.pid, Signal::KILL);
    outcome(&running).await;
    let gone = async {
        while harness.processes().contains(&process) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the kernel ends it");
}

#[tokio::test]
async fn processes_of_a_running_node_are_not_cleaned_up() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let refusal = harness.shims.clean_up_lost(&harness.node).await.unwrap_err();
    assert_eq!(refusal.kind(), std::io::ErrorKind::ResourceBusy);
    assert!(refusal.to_string().starts_with("the node's shim is alive"), "{refusal}");
    stop(&running).await;
}

#[tokio::test]
async fn the_start_of_a_lost_node_kills_its_remaining_processes() {
    let harness = Harness::new();
    let gate = harness.gate();
    let lost = harness.start(&harness.script(WITH_DAEMON)).await;
    let daemon = gate.number().await;
    signal(lost.state().shim.pid, Signal::KILL);
    outcome(&lost).await;
    let running = harness.start_sleeper().await;
    assert!(!harness.processes().contains(&daemon));
    assert_eq!(outcome(&lost).await, RunOutcome::Replaced);
    stop(&running).await;
}

#[tokio::test]
async fn a_lost_node_is_stopped_by_cleaning_up() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(WITH_DAEMON)).await;
    gate.line().await;
    signal(running.state().shim.pid, Signal::KILL);
    outcome(&running).await;
    let stopped = harness.shims.stop(&harness.node, FIRST, StopSpec::with_grace(PATIENCE)).await.unwrap();
    assert_eq!(stopped, Some(RunOutcome::Lost));
    harness.has_no_process();
}

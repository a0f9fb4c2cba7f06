//! Requests with a stale generation are refused.

use std::io::Write as _;
use std::process::{Command, Stdio};

use muster_core::action::Fence;
use muster_local::shim::{LaunchSpec, ShimRequestError, StaleGeneration, StartError, StopError, StopSpec};
use rustix::process::Signal;

use crate::harness::{FIRST, Harness, PATIENCE, outcome, signal, stop};

fn at(generation: Fence, launch: LaunchSpec) -> LaunchSpec {
    LaunchSpec { generation, ..launch }
}

fn refused(error: StartError) -> StaleGeneration {
    match error {
        StartError::Refused(refused) => refused,
        other => panic!("it was not refused: {other}"),
    }
}

#[tokio::test]
async fn a_running_node_is_adopted_by_its_own_and_by_a_higher_generation() {
    let harness = Harness::new();
    let first = harness.start_sleeper().await;
    let again = harness.start_sleeper().await;
    let higher = harness.start(&at(Fence(9), harness.script("exit 1"))).await;
    assert_eq!((again.process(), higher.process()), (first.process(), first.process()));
    assert_eq!(first.status().await.unwrap().highest, Fence(9));
    higher.stop(Fence(9), StopSpec::with_grace(PATIENCE)).await.unwrap();
    outcome(&higher).await;
}

#[tokio::test]
async fn a_lower_generation_neither_starts_nor_stops_nor_adopts_nor_removes() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let (given, too_late) = (Fence(6), StaleGeneration { given: Fence(6), highest: FIRST });
    let start = harness.shims.start(&harness.node, &at(given, harness.script("true"))).await.unwrap_err();
    assert_eq!(refused(start), too_late);
    let stopped = running.stop(given, StopSpec::with_grace(PATIENCE)).await.unwrap_err();
    assert!(matches!(stopped, ShimRequestError::Refused(refused) if refused == too_late), "{stopped}");
    let stopped = harness.shims.stop(&harness.node, given, StopSpec::with_grace(PATIENCE)).await.unwrap_err();
    assert!(matches!(stopped, StopError::Refused(refused) if refused == too_late), "{stopped}");
    assert!(running.adopt(given).await.is_err());
    assert!(!running.status().await.unwrap().stopping);
    stop(&running).await;
    assert!(
        harness.shims.remove(&harness.node, given, false).await.unwrap_err().to_string().contains("is stale")
    );
    let message = "generation 6 is stale: the node has already seen generation 7";
    assert_eq!(too_late.to_string(), message);
}

#[tokio::test]
async fn the_highest_generation_outlives_a_shim_that_was_killed() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    running.adopt(Fence(40)).await.unwrap();
    signal(running.state().shim.pid, Signal::KILL);
    outcome(&running).await;
    let start = harness.shims.start(&harness.node, &at(Fence(39), harness.script("true"))).await.unwrap_err();
    assert_eq!(refused(start), StaleGeneration { given: Fence(39), highest: Fence(40) });
    harness.shims.clean_up_lost(&harness.node).await.unwrap();
}

#[tokio::test]
async fn a_start_with_a_lower_generation_than_the_stop_is_refused() {
    let harness = Harness::new();
    harness.node.create().unwrap();
    harness.shims.stop(&harness.node, Fence(8), StopSpec::with_grace(PATIENCE)).await.unwrap();
    let start = harness.shims.start(&harness.node, &harness.script("true")).await.unwrap_err();
    assert_eq!(refused(start), StaleGeneration { given: FIRST, highest: Fence(8) });
}

#[tokio::test]
async fn concurrent_starts_start_one_node() {
    let harness = Harness::new();
    let launch = harness.script("exec sleep 1000");
    let start = || harness.shims.start(&harness.node, &launch);
    let (a, b, c) = tokio::join!(start(), start(), start());
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert_eq!((b.process(), c.process()), (a.process(), a.process()));
    stop(&a).await;
}

#[tokio::test]
async fn a_second_shim_reports_that_the_node_is_locked() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let order = serde_json::json!({
        "node": harness.node.node(),
        "folder": harness.node.path(),
        "runtime": harness.path().join("run"),
        "launch": at(Fence(99), harness.script("true")),
    });
    let mut second = Command::new(env!("CARGO_BIN_EXE_muster-test-shim"))
        .arg("shim")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    second.stdin.take().unwrap().write_all(order.to_string().as_bytes()).unwrap();
    let output = second.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "\"busy\"\n");
    assert_eq!(running.status().await.unwrap().highest, FIRST);
    stop(&running).await;
}

//! Stops: by request, after the grace period, and of the whole process tree.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use muster_core::action::Fence;
use muster_local::shim::{
    ExitCause, RunOutcome, ShimRequestError, StopError, StopOrigin, StopRecord, StopSignal, StopSpec,
};
use rustix::process::Signal;

use crate::harness::{FIRST, Harness, PATIENCE, Release, end, signal, stop};

const LONG: Duration = Duration::from_hours(1);

/// A script that ignores the stop signals.
const IGNORES_SIGNALS: &str = "trap '' TERM INT; echo $$ > $GATE; while :; do sleep 1000; done";

#[tokio::test]
async fn a_node_is_stopped_with_the_requested_signal() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    running.stop(FIRST, StopSpec { signal: StopSignal::Int, grace: PATIENCE }).await.unwrap();
    let end = end(&running).await;
    assert_eq!(end.how, ExitCause::Signaled { signal: 2 });
    assert_eq!(
        end.stopped,
        Some(StopRecord { by: StopOrigin::Command, signal: StopSignal::Int, killed: false })
    );
    assert!(end.is_clean());
}

#[tokio::test]
async fn a_node_that_ignores_the_signal_is_killed_after_the_grace_period() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(IGNORES_SIGNALS)).await;
    gate.line().await;
    running.stop(FIRST, StopSpec::with_grace(Duration::from_millis(50))).await.unwrap();
    let end = end(&running).await;
    assert_eq!(end.how, ExitCause::Signaled { signal: 9 });
    assert_eq!(
        end.stopped,
        Some(StopRecord { by: StopOrigin::Command, signal: StopSignal::Term, killed: true })
    );
    harness.has_no_process();
}

#[tokio::test]
async fn a_second_stop_may_shorten_the_grace_period_but_not_extend_it() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(IGNORES_SIGNALS)).await;
    gate.line().await;
    running.stop(FIRST, StopSpec::with_grace(LONG)).await.unwrap();
    assert!(running.status().await.unwrap().stopping);
    running.stop(FIRST, StopSpec::with_grace(Duration::from_millis(500))).await.unwrap();
    running.stop(FIRST, StopSpec::with_grace(LONG)).await.unwrap();
    assert_eq!(end(&running).await.how, ExitCause::Signaled { signal: 9 });
}

#[tokio::test]
async fn a_stop_without_grace_period_kills_at_once() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(IGNORES_SIGNALS)).await;
    gate.line().await;
    running.stop(FIRST, StopSpec::with_grace(Duration::ZERO)).await.unwrap();
    assert_eq!(end(&running).await.how, ExitCause::Signaled { signal: 9 });
}

#[tokio::test]
async fn the_same_stop_twice_signals_once() {
    let harness = Harness::new();
    let (gate, release) = (harness.gate(), Release::new(&harness));
    let script = "trap 'echo asked; echo > $GATE' TERM
        (trap '' TERM; echo > $GATE; read x < $GATE.go) & wait; wait; exit 0";
    let running = harness.start(&harness.script(script)).await;
    gate.line().await;
    for _ in 0..3 {
        running.stop(FIRST, StopSpec::with_grace(LONG)).await.unwrap();
    }
    gate.line().await;
    release.release().await;
    assert_eq!(end(&running).await.how, ExitCause::Exited { code: 0 });
    assert_eq!(harness.node.tail(9).unwrap(), ["asked"]);
}

#[tokio::test]
async fn processes_in_other_sessions_are_stopped_too() {
    let harness = Harness::new();
    let gate = harness.gate();
    // A typical daemon: its own session, no parent, no output, ignored signals.
    let daemon =
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > $GATE; while :; do sleep 1000; done' >&- 2>&- <&- &";
    let running = harness.start(&harness.script(&format!("({daemon}) ; ({daemon}) ; exec sleep 1000"))).await;
    let daemons = [gate.number().await, gate.number().await];
    assert!(daemons.iter().all(|daemon| harness.processes().contains(daemon)));
    stop(&running).await;
    harness.has_no_process();
}

#[tokio::test]
async fn descendants_are_killed_when_a_node_ends_by_itself() {
    let harness = Harness::new();
    let (gate, release) = (harness.gate(), Release::new(&harness));
    let script =
        "(setsid sh -c 'echo $$ > $GATE; exec sleep 1000' &) ; sleep 1000 & read x < $GATE.go; exit 6";
    let running = harness.start(&harness.script(script)).await;
    gate.line().await;
    release.release().await;
    assert_eq!(end(&running).await.how, ExitCause::Exited { code: 6 });
    harness.has_no_process();
}

#[tokio::test]
async fn orphans_that_end_are_reaped() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script("(sh -c 'echo $$ > $GATE' &) ; exec sleep 1000")).await;
    let orphan = gate.number().await;
    let reaped = async {
        while fs::exists(format!("/proc/{orphan}")).unwrap() {
            // Every reply is an iteration of the shim's main loop.
            running.status().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, reaped).await.expect("the orphan is reaped");
    stop(&running).await;
}

#[tokio::test]
async fn a_stop_continues_when_its_caller_disconnects() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(IGNORES_SIGNALS)).await;
    gate.line().await;
    let request =
        format!("{{\"command\":\"stop\",\"generation\":{},\"grace_ms\":50,\"signal\":\"TERM\"}}\n", FIRST.0);
    let mut caller = UnixStream::connect(harness.sockets().pop().unwrap()).unwrap();
    caller.write_all(request.as_bytes()).unwrap();
    drop(caller);
    assert_eq!(end(&running).await.how, ExitCause::Signaled { signal: 9 });
}

#[tokio::test]
async fn a_signal_to_the_shim_stops_the_node_with_a_grace_period() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    signal(running.state().shim.pid, Signal::TERM);
    let end = end(&running).await;
    assert_eq!(end.how, ExitCause::Signaled { signal: 15 });
    assert_eq!(end.stopped.unwrap().by, StopOrigin::Signal);
}

#[tokio::test]
async fn a_removed_socket_is_created_again() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    fs::remove_file(harness.sockets().pop().unwrap()).unwrap();
    assert!(!running.status().await.unwrap().stopping);
    stop(&running).await;
    harness.has_no_socket();
}

#[tokio::test]
async fn a_shim_that_cannot_create_its_socket_again_is_stopped_by_a_signal() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    fs::remove_file(harness.sockets().pop().unwrap()).unwrap();
    // A shim refuses a folder in which other users could replace its socket.
    fs::set_permissions(harness.path().join("run"), fs::Permissions::from_mode(0o777)).unwrap();
    let ask = |generation| harness.shims.stop(&harness.node, generation, StopSpec::with_grace(PATIENCE));
    let (no_socket, too_late) = tokio::join!(running.status(), ask(Fence(6)));
    assert!(matches!(no_socket, Err(ShimRequestError::NoSocket { .. })), "{no_socket:?}");
    assert!(matches!(too_late, Err(StopError::Refused(_))), "{too_late:?}");
    let outcome = ask(FIRST).await.unwrap();
    let Some(RunOutcome::Ended(end)) = outcome else { panic!("it did not end: {outcome:?}") };
    assert_eq!((end.how, end.stopped.unwrap().by), (ExitCause::Signaled { signal: 15 }, StopOrigin::Signal));
}

#[tokio::test]
async fn a_suspended_shim_does_not_keep_its_node_alive() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    signal(running.state().shim.pid, Signal::STOP);
    let outcome = harness.shims.stop(&harness.node, FIRST, StopSpec::with_grace(PATIENCE)).await.unwrap();
    assert_eq!(outcome, Some(RunOutcome::Lost));
    harness.has_no_process();
}

#[tokio::test]
async fn a_stop_succeeds_in_every_state() {
    let harness = Harness::new();
    let ask = || harness.shims.stop(&harness.node, FIRST, StopSpec::with_grace(PATIENCE));
    assert_eq!(ask().await.unwrap(), None);
    harness.node.create().unwrap();
    assert_eq!(ask().await.unwrap(), None);
    harness.start_sleeper().await;
    let first = ask().await.unwrap();
    assert!(matches!(&first, Some(RunOutcome::Ended(end)) if end.is_clean()), "{first:?}");
    assert_eq!(ask().await.unwrap(), first);
}

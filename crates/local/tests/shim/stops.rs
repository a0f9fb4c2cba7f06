//! Stopping: by request, after the grace, the whole tree.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use muster_core::action::Fence;
use muster_local::shim::{Asker, CommandError, Ending, Outcome, Stop, StopError, StopSignal, Stopped};
use rustix::process::Signal;

use crate::harness::{FIRST, Go, Harness, PATIENCE, end, signal, stop};

const LONG: Duration = Duration::from_hours(1);

/// Does not end when it is asked to.
const DEAF: &str = "trap '' TERM INT; echo $$ > $GATE; while :; do sleep 1000; done";

#[tokio::test]
async fn a_node_ends_by_the_signal_it_is_asked_with() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    running.stop(FIRST, Stop { signal: StopSignal::Int, grace: PATIENCE }).await.unwrap();
    let end = end(&running).await;
    assert_eq!(end.how, Ending::Signaled { signal: 2 });
    assert_eq!(end.stopped, Some(Stopped { by: Asker::Command, signal: StopSignal::Int, killed: false }));
    assert!(end.is_clean());
}

#[tokio::test]
async fn one_that_does_not_listen_is_killed_after_the_grace() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(DEAF)).await;
    gate.line().await;
    running.stop(FIRST, Stop::within(Duration::from_millis(50))).await.unwrap();
    let end = end(&running).await;
    assert_eq!(end.how, Ending::Signaled { signal: 9 });
    assert_eq!(end.stopped, Some(Stopped { by: Asker::Command, signal: StopSignal::Term, killed: true }));
    harness.has_no_process();
}

#[tokio::test]
async fn a_second_stop_may_shorten_the_grace_and_never_lengthens_it() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(DEAF)).await;
    gate.line().await;
    running.stop(FIRST, Stop::within(LONG)).await.unwrap();
    assert!(running.status().await.unwrap().stopping);
    running.stop(FIRST, Stop::within(Duration::from_millis(500))).await.unwrap();
    running.stop(FIRST, Stop::within(LONG)).await.unwrap();
    assert_eq!(end(&running).await.how, Ending::Signaled { signal: 9 });
}

#[tokio::test]
async fn a_stop_without_grace_kills_at_once() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(DEAF)).await;
    gate.line().await;
    running.stop(FIRST, Stop::within(Duration::ZERO)).await.unwrap();
    assert_eq!(end(&running).await.how, Ending::Signaled { signal: 9 });
}

#[tokio::test]
async fn the_same_stop_twice_signals_once() {
    let harness = Harness::new();
    let (gate, go) = (harness.gate(), Go::new(&harness));
    let script = "trap 'echo asked; echo > $GATE' TERM
        (trap '' TERM; echo > $GATE; read x < $GATE.go) & wait; wait; exit 0";
    let running = harness.start(&harness.script(script)).await;
    gate.line().await;
    for _ in 0..3 {
        running.stop(FIRST, Stop::within(LONG)).await.unwrap();
    }
    gate.line().await;
    go.go().await;
    assert_eq!(end(&running).await.how, Ending::Exited { code: 0 });
    assert_eq!(harness.node.tail(9).unwrap(), ["asked"]);
}

#[tokio::test]
async fn whoever_left_the_session_is_gone_too() {
    let harness = Harness::new();
    let gate = harness.gate();
    // A daemon as it should be: a session of its own, no parent, no output, deaf.
    let daemon =
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ > $GATE; while :; do sleep 1000; done' >&- 2>&- <&- &";
    let running = harness.start(&harness.script(&format!("({daemon}) ; ({daemon}) ; exec sleep 1000"))).await;
    let daemons = [gate.number().await, gate.number().await];
    assert!(daemons.iter().all(|daemon| harness.processes().contains(daemon)));
    stop(&running).await;
    harness.has_no_process();
}

#[tokio::test]
async fn what_a_node_leaves_behind_goes_when_it_ends_by_itself() {
    let harness = Harness::new();
    let (gate, go) = (harness.gate(), Go::new(&harness));
    let script =
        "(setsid sh -c 'echo $$ > $GATE; exec sleep 1000' &) ; sleep 1000 & read x < $GATE.go; exit 6";
    let running = harness.start(&harness.script(script)).await;
    gate.line().await;
    go.go().await;
    assert_eq!(end(&running).await.how, Ending::Exited { code: 6 });
    harness.has_no_process();
}

#[tokio::test]
async fn orphans_that_end_are_not_kept_as_dead() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script("(sh -c 'echo $$ > $GATE' &) ; exec sleep 1000")).await;
    let orphan = gate.number().await;
    let reaped = async {
        while fs::exists(format!("/proc/{orphan}")).unwrap() {
            // Every answer is a turn of the shim's loop.
            running.status().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, reaped).await.expect("the orphan is reaped");
    stop(&running).await;
}

#[tokio::test]
async fn a_stop_goes_on_when_whoever_asked_is_gone() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running = harness.start(&harness.script(DEAF)).await;
    gate.line().await;
    let request =
        format!("{{\"command\":\"stop\",\"generation\":{},\"grace_ms\":50,\"signal\":\"TERM\"}}\n", FIRST.0);
    let mut asker = UnixStream::connect(harness.sockets().pop().unwrap()).unwrap();
    asker.write_all(request.as_bytes()).unwrap();
    drop(asker);
    assert_eq!(end(&running).await.how, Ending::Signaled { signal: 9 });
}

#[tokio::test]
async fn a_machine_that_shuts_down_lets_nodes_end_well() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    signal(running.state().shim.pid, Signal::TERM);
    let end = end(&running).await;
    assert_eq!(end.how, Ending::Signaled { signal: 15 });
    assert_eq!(end.stopped.unwrap().by, Asker::Signal);
}

#[tokio::test]
async fn a_socket_that_was_tidied_up_is_made_again() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    fs::remove_file(harness.sockets().pop().unwrap()).unwrap();
    assert!(!running.status().await.unwrap().stopping);
    stop(&running).await;
    harness.has_no_socket();
}

#[tokio::test]
async fn a_shim_that_cannot_listen_again_is_asked_by_a_signal() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    fs::remove_file(harness.sockets().pop().unwrap()).unwrap();
    // No socket is made where others could replace it.
    fs::set_permissions(harness.path().join("run"), fs::Permissions::from_mode(0o777)).unwrap();
    let ask = |generation| harness.shims.stop(&harness.node, generation, Stop::within(PATIENCE));
    let (deaf, too_late) = tokio::join!(running.status(), ask(Fence(6)));
    assert!(matches!(deaf, Err(CommandError::Deaf { .. })), "{deaf:?}");
    assert!(matches!(too_late, Err(StopError::Refused(_))), "{too_late:?}");
    let outcome = ask(FIRST).await.unwrap();
    let Some(Outcome::Ended(end)) = outcome else { panic!("it did not end: {outcome:?}") };
    assert_eq!((end.how, end.stopped.unwrap().by), (Ending::Signaled { signal: 15 }, Asker::Signal));
}

#[tokio::test]
async fn a_shim_that_somebody_halted_does_not_keep_its_node_alive() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    signal(running.state().shim.pid, Signal::STOP);
    let outcome = harness.shims.stop(&harness.node, FIRST, Stop::within(PATIENCE)).await.unwrap();
    assert_eq!(outcome, Some(Outcome::Lost));
    harness.has_no_process();
}

#[tokio::test]
async fn whatever_there_is_is_stopped() {
    let harness = Harness::new();
    let ask = || harness.shims.stop(&harness.node, FIRST, Stop::within(PATIENCE));
    assert_eq!(ask().await.unwrap(), None);
    harness.node.make().unwrap();
    assert_eq!(ask().await.unwrap(), None);
    harness.start_sleeper().await;
    let first = ask().await.unwrap();
    assert!(matches!(&first, Some(Outcome::Ended(end)) if end.is_clean()), "{first:?}");
    assert_eq!(ask().await.unwrap(), first);
}

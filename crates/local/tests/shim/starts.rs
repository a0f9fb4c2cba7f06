//! Starts, failed starts, and nodes that end by themselves.

use std::fs;
use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt as _;
use std::task::Poll;

use muster_local::shim::{ExitCause, NODE_MARKER, NodeProcessState, OomKills, StartError, StopSpec};
use rstest::rstest;

use crate::harness::{FIRST, Harness, PATIENCE, Release, end, stop};

#[rstest]
#[case::well("exit 0", ExitCause::Exited { code: 0 })]
#[case::badly("exit 3", ExitCause::Exited { code: 3 })]
#[case::by_a_signal("kill -SEGV $$", ExitCause::Signaled { signal: 11 })]
#[case::with_127("exit 127", ExitCause::Exited { code: 127 })]
#[tokio::test]
async fn the_end_of_a_node_is_recorded(#[case] script: &str, #[case] how: ExitCause) {
    let harness = Harness::new();
    let running = harness.start(&harness.script(script)).await;
    let end = end(&running).await;
    assert_eq!((end.how.clone(), end.stopped), (how, None));
    assert!(end.at >= running.state().started_at);
    assert!(
        matches!(harness.shims.inspect(&harness.node).unwrap(), NodeProcessState::Ended(found) if found == end)
    );
    harness.has_no_socket();
}

#[tokio::test]
async fn a_node_that_ended_can_be_started_again() {
    let harness = Harness::new();
    for code in [4, 5] {
        let running = harness.start(&harness.script(&format!("echo {code}; exit {code}"))).await;
        assert_eq!(end(&running).await.how, ExitCause::Exited { code });
    }
    assert_eq!(harness.node.tail(9).unwrap(), ["4", "5"]);
}

#[tokio::test]
async fn a_missing_command_is_reported() {
    let harness = Harness::new();
    let mut launch = harness.script("");
    launch.command = vec!["no-such-command".into()];
    let error = harness.shims.start(&harness.node, &launch).await.unwrap_err();
    assert!(matches!(error, StartError::CannotRun { code: 127, .. }), "{error:?}");
    let text = "command 'no-such-command' not found, or the interpreter in its first line is missing";
    assert_eq!(error.to_string(), text);
    let NodeProcessState::Ended(end) = harness.shims.inspect(&harness.node).unwrap() else {
        panic!("it did not end")
    };
    assert_eq!(end.how, ExitCause::NotStarted { code: 127, message: text.into() });
    assert_eq!(end.to_string(), text);
    harness.has_no_socket();
}

#[tokio::test]
async fn a_command_that_is_not_executable_is_reported() {
    let harness = Harness::new();
    let file = harness.path().join("notes.txt");
    fs::write(&file, "x").unwrap();
    let mut launch = harness.script("");
    launch.command = vec![file.display().to_string()];
    let error = harness.shims.start(&harness.node, &launch).await.unwrap_err();
    assert!(matches!(error, StartError::CannotRun { code: 126, .. }), "{error:?}");
    assert!(error.to_string().ends_with("cannot be run: it is not executable"), "{error}");
}

#[tokio::test]
async fn a_missing_working_folder_is_reported() {
    let harness = Harness::new();
    let mut launch = harness.script("true");
    launch.working_folder = "/no/such/folder".into();
    let error = harness.shims.start(&harness.node, &launch).await.unwrap_err();
    assert!(
        error.to_string().starts_with("the working folder '/no/such/folder' cannot be entered"),
        "{error}"
    );
}

#[tokio::test]
async fn a_command_has_only_the_environment_of_the_launch_and_the_marker() {
    let harness = Harness::new();
    let mut launch = harness.script("");
    launch.environment = [("A".to_owned(), "b c".to_owned())].into();
    launch.command = vec!["/usr/bin/env".into()];
    end(&harness.start(&launch).await).await;
    let mut lines = harness.node.tail(9).unwrap();
    lines.sort();
    assert_eq!(lines, ["A=b c".to_owned(), format!("{NODE_MARKER}={}", harness.node.node())]);
}

#[tokio::test]
async fn only_the_owner_can_read_the_secrets_of_a_launch() {
    let harness = Harness::new();
    let running = harness.start_sleeper().await;
    let mode =
        |name: &str| fs::metadata(harness.node.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for file in ["launch.json", "state.json", "log", "lock"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    let socket = harness.sockets().pop().unwrap();
    assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    stop(&running).await;
}

#[rstest]
#[case::rose("oom_kill 1\n", "oom_kill 2\n", OomKills::Rose)]
#[case::same("oom_kill 1\n", "oom_kill 1\n", OomKills::Same)]
#[case::unreadable("", "", OomKills::Unreadable)]
#[tokio::test]
async fn kills_for_lack_of_memory_are_reported(
    #[case] before: &str,
    #[case] after: &str,
    #[case] expected: OomKills,
) {
    let harness = Harness::new();
    let gate = harness.gate();
    let counter = harness.path().join("memory.events");
    fs::write(&counter, before).unwrap();
    let release = Release::new(&harness);
    let mut launch = harness.script("echo > $GATE; read x < $GATE.go; kill -9 $$");
    launch.oom_counter = Some(counter.clone());
    let running = harness.start(&launch).await;
    gate.line().await;
    fs::write(&counter, after).unwrap();
    release.release().await;
    let end = end(&running).await;
    assert_eq!((end.how, end.oom_kills), (ExitCause::Signaled { signal: 9 }, expected));
}

#[tokio::test]
async fn a_stop_ends_a_node_whose_start_was_dropped() {
    let harness = Harness::new();
    let launch = harness.script("exec sleep 1000");
    let mut start = Box::pin(harness.shims.start(&harness.node, &launch));
    let begins = poll_fn(|context| {
        let started = start.as_mut().poll(context).is_ready();
        if started || !harness.processes().is_empty() {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    });
    tokio::time::timeout(PATIENCE, begins).await.expect("a shim begins in time");
    drop(start);
    harness.shims.stop(&harness.node, FIRST, StopSpec::with_grace(PATIENCE)).await.expect("it is stopped");
    harness.has_no_process();
}

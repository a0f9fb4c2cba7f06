//! Starting, ending by itself, and not starting at all.

use std::fs;
use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt as _;
use std::task::Poll;

use muster_local::shim::{Ending, Found, NODE_MARKER, OomKills, StartError, Stop};
use rstest::rstest;

use crate::harness::{FIRST, Go, Harness, PATIENCE, end, stop};

#[rstest]
#[case::well("exit 0", Ending::Exited { code: 0 })]
#[case::badly("exit 3", Ending::Exited { code: 3 })]
#[case::by_a_signal("kill -SEGV $$", Ending::Signaled { signal: 11 })]
#[case::with_127("exit 127", Ending::Exited { code: 127 })]
#[tokio::test]
async fn how_a_node_ended_is_written_down(#[case] script: &str, #[case] how: Ending) {
    let harness = Harness::new();
    let running = harness.start(&harness.script(script)).await;
    let end = end(&running).await;
    assert_eq!((end.how.clone(), end.stopped), (how, None));
    assert!(end.at >= running.state().started_at);
    assert!(matches!(harness.shims.find(&harness.node).unwrap(), Found::Ended(found) if found == end));
    harness.has_no_socket();
}

#[tokio::test]
async fn a_node_that_ended_can_be_started_again() {
    let harness = Harness::new();
    for code in [4, 5] {
        let running = harness.start(&harness.script(&format!("echo {code}; exit {code}"))).await;
        assert_eq!(end(&running).await.how, Ending::Exited { code });
    }
    assert_eq!(harness.node.tail(9).unwrap(), ["4", "5"]);
}

#[tokio::test]
async fn a_missing_command_is_told_in_words() {
    let harness = Harness::new();
    let mut launch = harness.script("");
    launch.command = vec!["no-such-command".into()];
    let error = harness.shims.start(&harness.node, &launch).await.unwrap_err();
    assert!(matches!(error, StartError::CannotRun { code: 127, .. }), "{error:?}");
    let words = "there is no command 'no-such-command', or what its first line names is missing";
    assert_eq!(error.to_string(), words);
    let Found::Ended(end) = harness.shims.find(&harness.node).unwrap() else { panic!("it did not end") };
    assert_eq!(end.how, Ending::NotStarted { code: 127, message: words.into() });
    assert_eq!(end.to_string(), words);
    harness.has_no_socket();
}

#[tokio::test]
async fn a_command_that_is_no_program_is_told_in_words() {
    let harness = Harness::new();
    let file = harness.path().join("notes.txt");
    fs::write(&file, "x").unwrap();
    let mut launch = harness.script("");
    launch.command = vec![file.display().to_string()];
    let error = harness.shims.start(&harness.node, &launch).await.unwrap_err();
    assert!(matches!(error, StartError::CannotRun { code: 126, .. }), "{error:?}");
    assert!(error.to_string().ends_with("may not be run: it is not executable"), "{error}");
}

#[tokio::test]
async fn a_missing_working_folder_is_told_in_words() {
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
async fn a_command_has_the_launchs_environment_and_the_mark_and_nothing_else() {
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
async fn secrets_of_a_launch_are_for_its_owner_only() {
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
async fn whether_memory_ran_out_is_told(
    #[case] before: &str,
    #[case] after: &str,
    #[case] expected: OomKills,
) {
    let harness = Harness::new();
    let gate = harness.gate();
    let counter = harness.path().join("memory.events");
    fs::write(&counter, before).unwrap();
    let go = Go::new(&harness);
    let mut launch = harness.script("echo > $GATE; read x < $GATE.go; kill -9 $$");
    launch.oom_counter = Some(counter.clone());
    let running = harness.start(&launch).await;
    gate.line().await;
    fs::write(&counter, after).unwrap();
    go.go().await;
    let end = end(&running).await;
    assert_eq!((end.how, end.oom_kills), (Ending::Signaled { signal: 9 }, expected));
}

#[tokio::test]
async fn what_a_start_that_was_given_up_leaves_on_its_way_is_stopped_too() {
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
    harness.shims.stop(&harness.node, FIRST, Stop::within(PATIENCE)).await.expect("it is stopped");
    harness.has_no_process();
}

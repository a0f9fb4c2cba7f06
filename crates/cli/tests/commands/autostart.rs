//! Servers that commands start: only one, private to its user, and never at another server's address.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::harness::{Harness, TIMEOUT, is_locked, run};

const STARTED: &str = "started a server at 127.0.0.1:";

#[test]
fn a_command_starts_a_server_and_the_next_one_finds_it() {
    let harness = Harness::new();
    let first = harness.muster(&["whoami"]).success();
    assert!(first.err.starts_with(STARTED) && first.err.contains("server.log"), "{first:?}");
    let server = harness.announced().expect("an announcement");
    let second = harness.muster(&["whoami"]).success();
    assert_eq!(second.err, "");
    assert_eq!(harness.announced().unwrap()["server_id"], server["server_id"]);
    let mode = |name: &str| harness.data().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("server.log"), mode("start.lock")), (0o700, 0o600, 0o600));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server["pid"])).unwrap();
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(
        session,
        server["pid"].to_string(),
        "it must have its own session, or it ends with the terminal"
    );
}

#[test]
fn a_started_server_requires_the_token_of_its_user() {
    let harness = Harness::new();
    let mut command = harness.command(&["whoami"]);
    let first = run(command.env("MUSTER_DEV", "false")).success();
    assert!(first.out.contains("(local ") && first.out.contains("admin"), "{first:?}");
    let mode = harness.data().join("token").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let address = format!("http://{}", harness.announced().unwrap()["grpc"].as_str().unwrap());
    let other = Harness::new();
    let refused = other.muster(&["get", "--server", &address]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("hint: set --token or MUSTER_TOKEN"), "{refused:?}");
    assert!(!other.data().exists(), "no own server is started if one is named");
}

#[test]
fn all_files_of_the_data_folder_are_private() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    for entry in harness.data().read_dir().unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "{} is accessible to others: {mode:o}", entry.path().display());
    }
}

#[test]
fn an_empty_token_variable_is_ignored() {
    let harness = Harness::new();
    let mut command = harness.command(&["whoami"]);
    let output = run(command.env("MUSTER_DEV", "false").env("MUSTER_TOKEN", "")).success();
    assert!(output.out.contains("(local "), "{output:?}");
}

#[test]
fn concurrent_commands_start_one_server() {
    let harness = Harness::new();
    let output: Vec<_> = std::thread::scope(|scope| {
        let commands: Vec<_> = (0..6).map(|_| scope.spawn(|| harness.muster(&["whoami"]))).collect();
        commands.into_iter().map(|command| command.join().unwrap().success()).collect()
    });
    let starters = output.iter().filter(|output| output.err.contains(STARTED)).count();
    assert_eq!(starters, 1, "{output:?}");
    assert_eq!(harness.log().matches("serving").count(), 1, "{}", harness.log());
}

#[test]
fn the_announcement_of_a_dead_server_is_ignored() {
    let harness = Harness::new();
    // Its port and process id now belong to other programs.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::fs::create_dir(harness.data()).unwrap();
    std::fs::write(harness.data().join("lock"), "").unwrap();
    let left = json!({"server_id": "x", "version": "0", "rest": address, "grpc": address, "tls": false,
                      "pid": std::process::id()});
    std::fs::write(harness.data().join("server.json"), left.to_string()).unwrap();
    let output = harness.muster(&["whoami"]).success();
    assert!(output.err.contains(STARTED), "{output:?}");
    let called = other.accept().map_err(|error| error.kind());
    assert_eq!(called.unwrap_err(), ErrorKind::WouldBlock, "the token may have been sent to another program");
}

#[test]
fn ports_in_use_are_skipped() {
    let harness = Harness::new();
    let taken = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (rest, grpc) = (taken(), taken());
    let mut command = harness.command(&["whoami"]);
    command.env("MUSTER_LISTEN", rest.local_addr().unwrap().to_string());
    command.env("MUSTER_GRPC_LISTEN", grpc.local_addr().unwrap().to_string());
    let output = run(&mut command).success();
    assert!(output.err.contains(STARTED), "{output:?}");
    let announced = harness.announced().unwrap();
    assert_ne!(announced["rest"], rest.local_addr().unwrap().to_string());
    assert_ne!(announced["grpc"], grpc.local_addr().unwrap().to_string());
    assert_eq!(harness.muster(&["whoami"]).success().err, "");
}

#[test]
fn if_servers_may_not_be_started_the_error_says_what_to_do() {
    let harness = Harness::new();
    for (variable, value, why) in [
        ("MUSTER_NO_AUTOSTART", "1", "MUSTER_NO_AUTOSTART is set"),
        ("POD_NAME", "driver-0", "this is a pod"),
    ] {
        let output = run(harness.command(&["get"]).env(variable, value));
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.err.contains("no server runs with the data folder"), "{output:?}");
        assert!(
            output.err.contains(why) && output.err.contains("hint: start one with `muster serve`"),
            "{output:?}"
        );
        assert!(!harness.data().exists());
    }
}

#[test]
fn the_error_of_a_server_that_cannot_start_is_shown() {
    let harness = Harness::new();
    let output = run(harness.command(&["whoami"]).env("MUSTER_AUTH", "magic"));
    assert_eq!(output.code, 1, "{output:?}");
    assert!(
        output.err.contains(
            "auth is 'magic': must be local, none, tokens:FILE, accounts:FILE, kubernetes or domino"
        ),
        "{output:?}"
    );
    assert!(output.err.contains("server.log"), "{output:?}");
}

#[tokio::test]
async fn a_command_during_the_shutdown_of_a_server_waits_and_starts_another() {
    let harness = Harness::new();
    let mut server = harness.serve(&[]).await;
    // An open watch delays the shutdown.
    let watch = harness.spawn(&["get", "--watch", "-o", "name"]);
    harness.muster(&crate::harness::create("fred", "1")).success();
    watch.wait_for_line("fred", TIMEOUT).await;
    server.terminate();
    server.wait_for_line("stopping", TIMEOUT).await;
    let output = harness.muster(&["get", "-o", "name"]).success();
    assert_eq!(output.out, "fred\n");
    assert!(output.err.contains(STARTED), "{output:?}");
    assert!(server.wait_for_exit(TIMEOUT).await.success());
    harness.muster(&crate::harness::create("later", "0")).success();
    watch.wait_for_line("later", TIMEOUT).await;
    assert!(is_locked(&harness.data().join("lock")));
}

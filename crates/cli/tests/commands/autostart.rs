//! Servers that commands start: one, for its user only, and never in another's place.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::home::{Home, PATIENCE, is_locked, run};

const STARTED: &str = "no server was running: started one at 127.0.0.1:";

#[test]
fn a_command_starts_a_server_and_the_next_one_finds_it() {
    let home = Home::new();
    let first = home.muster(&["whoami"]).done();
    assert!(first.err.starts_with(STARTED) && first.err.contains("server.log"), "{first:?}");
    let server = home.announced().expect("it says where it is");
    let second = home.muster(&["whoami"]).done();
    assert_eq!(second.err, "");
    assert_eq!(home.announced().unwrap()["server_id"], server["server_id"]);
    let mode = |name: &str| home.data().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("server.log"), mode("start.lock")), (0o700, 0o600, 0o600));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server["pid"])).unwrap();
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(session, server["pid"].to_string(), "it shares our session, and would end with our terminal");
}

#[test]
fn what_is_started_asks_for_the_token_of_its_user() {
    let home = Home::new();
    let mut command = home.command(&["whoami"]);
    let first = run(command.env("MUSTER_DEV", "false")).done();
    assert!(first.out.contains("(local ") && first.out.contains("admin"), "{first:?}");
    let mode = home.data().join("token").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let address = format!("http://{}", home.announced().unwrap()["grpc"].as_str().unwrap());
    let stranger = Home::new();
    let refused = stranger.muster(&["get", "--server", &address]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("hint: say who you are with --token or MUSTER_TOKEN"), "{refused:?}");
    assert!(!stranger.data().exists(), "a named server needs none of our own");
}

#[test]
fn what_a_server_keeps_is_for_its_owner_only_wherever_it_keeps_it() {
    let home = Home::new();
    home.muster(&["whoami"]).done();
    for entry in home.data().read_dir().unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "others may use {}: {mode:o}", entry.path().display());
    }
}

#[test]
fn a_token_that_is_set_to_nothing_is_not_set() {
    let home = Home::new();
    let mut command = home.command(&["whoami"]);
    let said = run(command.env("MUSTER_DEV", "false").env("MUSTER_TOKEN", "")).done();
    assert!(said.out.contains("(local "), "{said:?}");
}

#[test]
fn commands_that_meet_start_one_server() {
    let home = Home::new();
    let said: Vec<_> = std::thread::scope(|scope| {
        let commands: Vec<_> = (0..6).map(|_| scope.spawn(|| home.muster(&["whoami"]))).collect();
        commands.into_iter().map(|command| command.join().unwrap().done()).collect()
    });
    let starters = said.iter().filter(|said| said.err.contains(STARTED)).count();
    assert_eq!(starters, 1, "{said:?}");
    assert_eq!(home.log().matches("serving").count(), 1, "{}", home.log());
}

#[test]
fn what_a_dead_server_left_behind_leads_nobody_astray() {
    let home = Home::new();
    // Its port is another program's now, and its process number another process's.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::fs::create_dir(home.data()).unwrap();
    std::fs::write(home.data().join("lock"), "").unwrap();
    let left = json!({"server_id": "x", "version": "0", "rest": address, "grpc": address, "tls": false,
                      "pid": std::process::id()});
    std::fs::write(home.data().join("server.json"), left.to_string()).unwrap();
    let said = home.muster(&["whoami"]).done();
    assert!(said.err.contains(STARTED), "{said:?}");
    let called = other.accept().map_err(|error| error.kind());
    assert_eq!(called.unwrap_err(), ErrorKind::WouldBlock, "the token may have gone to a stranger");
}

#[test]
fn ports_of_another_program_are_passed_over() {
    let home = Home::new();
    let taken = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (rest, grpc) = (taken(), taken());
    let mut command = home.command(&["whoami"]);
    command.env("MUSTER_LISTEN", rest.local_addr().unwrap().to_string());
    command.env("MUSTER_GRPC_LISTEN", grpc.local_addr().unwrap().to_string());
    let said = run(&mut command).done();
    assert!(said.err.contains(STARTED), "{said:?}");
    let announced = home.announced().unwrap();
    assert_ne!(announced["rest"], rest.local_addr().unwrap().to_string());
    assert_ne!(announced["grpc"], grpc.local_addr().unwrap().to_string());
    assert_eq!(home.muster(&["whoami"]).done().err, "");
}

#[test]
fn where_none_may_be_started_it_is_said_what_to_type() {
    let home = Home::new();
    for (variable, value, why) in [
        ("MUSTER_NO_AUTOSTART", "1", "MUSTER_NO_AUTOSTART is set"),
        ("POD_NAME", "driver-0", "this is a pod"),
    ] {
        let said = run(home.command(&["get"]).env(variable, value));
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("no server runs with the data folder"), "{said:?}");
        assert!(
            said.err.contains(why) && said.err.contains("hint: start one with `muster serve`"),
            "{said:?}"
        );
        assert!(!home.data().exists());
    }
}

#[test]
fn a_server_that_cannot_start_is_quoted() {
    let home = Home::new();
    let said = run(home.command(&["get"]).env("MUSTER_AUTH", "magic"));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.err.contains(
            "auth is 'magic': local, none, tokens:FILE, accounts:FILE, kubernetes or domino is expected"
        ),
        "{said:?}"
    );
    assert!(said.err.contains("server.log"), "{said:?}");
}

#[tokio::test]
async fn a_command_that_comes_while_the_server_goes_down_waits_and_starts_another() {
    let home = Home::new();
    let mut server = home.serve(&[]).await;
    // An open watch holds up the end.
    let watch = home.begin(&["get", "--watch", "-o", "name"]);
    home.muster(&crate::home::create("fred", "1")).done();
    watch.wait_for_line("fred", PATIENCE).await;
    server.terminate();
    server.wait_for_line("stopping", PATIENCE).await;
    let said = home.muster(&["get", "-o", "name"]).done();
    assert_eq!(said.out, "fred\n");
    assert!(said.err.contains(STARTED), "{said:?}");
    assert!(server.wait_for_exit(PATIENCE).await.success());
    home.muster(&crate::home::create("later", "0")).done();
    watch.wait_for_line("later", PATIENCE).await;
    assert!(is_locked(&home.data().join("lock")));
}

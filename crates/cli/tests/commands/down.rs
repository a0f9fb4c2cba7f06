//! `muster down`: everything on this machine, and only after it is certain.

use std::path::Path;

use crate::home::{Home, PATIENCE, create, is_locked, run};

#[test]
fn it_deletes_what_runs_here_and_stops_the_server() {
    let home = Home::new();
    home.muster(&create("fred", "2")).done();
    home.muster(&[create("other", "1"), vec!["-n", "elsewhere"]].concat()).done();
    let asked = home.muster(&["down"]);
    assert_eq!(asked.code, 2);
    assert_eq!(
        asked.err,
        "error: this deletes default/fred, elsewhere/other\nhint: say --yes if that is meant\n"
    );
    assert_eq!(home.muster(&["get", "-A", "-o", "name"]).out.lines().count(), 2);
    let down = home.muster(&["down", "--yes"]).done();
    assert_eq!(down.out, "the server is stopped\n");
    assert!(
        down.err.contains("fred is deleted") && down.err.contains("other -n elsewhere is deleted"),
        "{down:?}"
    );
    assert!(!is_locked(&home.data().join("lock")) && home.announced().is_none());
    let again = home.muster(&["down"]).done();
    assert!(again.out.starts_with("no server runs with the data folder"), "{again:?}");
    assert_eq!(home.muster(&["get", "-A", "-o", "name"]).done().out, "");
}

#[test]
fn what_a_dead_server_left_running_is_ended_too() {
    let home = Home::new();
    let sleepers =
        ["--profile", "local.process-1.0", "--profile-properties", r#"{"command": ["sleep", "1000"]}"#];
    home.muster(&[&["create", "naps", "--workers", "1"][..], &sleepers].concat()).done();
    let nodes = home.muster(&["nodes", "naps", "-o", "json"]).done().json();
    let node = format!("/proc/{}", nodes["nodes"][0]["physicalId"].as_str().unwrap());
    home.kill_server();
    assert!(Path::new(&node).exists(), "its clusters outlive a server");
    let down = home.muster(&["down", "--yes"]).done();
    assert!(down.err.contains("naps is deleted"), "{down:?}");
    assert!(!Path::new(&node).exists(), "it runs on");
    assert!(home.announced().is_none());
}

#[test]
fn without_clusters_nobody_has_to_agree() {
    let home = Home::new();
    home.muster(&["whoami"]).done();
    home.muster(&["down"]).done();
    assert!(home.announced().is_none());
}

#[tokio::test]
async fn a_server_of_another_data_folder_is_not_stopped() {
    let (home, other) = (Home::new(), Home::new());
    let _server = home.serve(&[]).await;
    let address = format!("http://{}", home.announced().unwrap()["grpc"].as_str().unwrap());
    let refused = run(other.command(&["down", "--yes"]).env("MUSTER_SERVER", &address));
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("is not the one of this data folder"), "{refused:?}");
    assert!(is_locked(&home.data().join("lock")), "it runs on");
    // By the address of its own server it is the same as without one.
    let down = run(home.command(&["down", "--yes"]).env("MUSTER_SERVER", &address)).done();
    assert_eq!(down.out, "the server is stopped\n");
}

#[tokio::test]
async fn only_an_admin_may_and_others_delete_nothing_by_trying() {
    let home = Home::new();
    let file = home.data().with_file_name("tokens.toml");
    let file = file.to_str().unwrap();
    let member = home.muster(&["token", "create", "mia", "--project", "default", "--file", file]).done().out;
    let server = home.serve(&["--auth", &format!("tokens:{file}")]).await;
    let as_member = |arguments: &[&str]| run(home.command(arguments).env("MUSTER_TOKEN", member.trim()));
    as_member(&create("fred", "1")).done();
    let refused = as_member(&["down", "--yes"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("mia is no admin of this server"), "{refused:?}");
    assert_eq!(as_member(&["get", "-o", "name"]).done().out, "fred\n");
    let nobody = home.muster(&["down", "--yes"]);
    assert_eq!(nobody.code, 3, "{nobody:?}");
    server.terminate();
    server.wait_for_line("stopping", PATIENCE).await;
}

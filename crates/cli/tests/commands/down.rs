//! `muster down` deletes the clusters of this machine, after a confirmation, and stops the server.

use std::path::Path;

use crate::harness::{Harness, TIMEOUT, create, is_locked, run};

#[test]
fn down_deletes_local_clusters_and_stops_the_server() {
    let harness = Harness::new();
    harness.muster(&create("fred", "2")).success();
    harness.muster(&[create("other", "1"), vec!["-n", "elsewhere"]].concat()).success();
    let asked = harness.muster(&["down"]);
    assert_eq!(asked.code, 2);
    assert_eq!(asked.err, "error: this deletes default/fred, elsewhere/other\nhint: confirm with --yes\n");
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).out.lines().count(), 2);
    let down = harness.muster(&["down", "--yes"]).success();
    assert_eq!(down.out, "server stopped\n");
    assert!(
        down.err.contains("default/fred deleted") && down.err.contains("elsewhere/other deleted"),
        "{down:?}"
    );
    assert!(!is_locked(&harness.data().join("lock")) && harness.announced().is_none());
    let again = harness.muster(&["down"]).success();
    assert!(again.out.starts_with("no server runs with the data folder"), "{again:?}");
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).success().out, "");
}

#[test]
fn clusters_of_a_dead_server_are_deleted_too() {
    let harness = Harness::new();
    let sleepers =
        ["--profile", "local.process-1.0", "--profile-properties", r#"{"command": ["sleep", "1000"]}"#];
    harness.muster(&[&["create", "naps", "--workers", "1"][..], &sleepers].concat()).success();
    let nodes = harness.muster(&["nodes", "naps", "-o", "json"]).success().json();
    let node = format!("/proc/{}", nodes["nodes"][0]["physicalId"].as_str().unwrap());
    harness.kill_server();
    assert!(Path::new(&node).exists(), "clusters outlive a server");
    let down = harness.muster(&["down", "--yes"]).success();
    assert!(down.err.contains("naps deleted"), "{down:?}");
    assert!(!Path::new(&node).exists(), "it still runs");
    assert!(harness.announced().is_none());
}

#[test]
fn without_clusters_no_confirmation_is_needed() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    harness.muster(&["down"]).success();
    assert!(harness.announced().is_none());
}

#[tokio::test]
async fn a_server_of_another_data_folder_is_not_stopped() {
    let (harness, other) = (Harness::new(), Harness::new());
    let _server = harness.serve(&[]).await;
    let address = format!("http://{}", harness.announced().unwrap()["grpc"].as_str().unwrap());
    let refused = run(other.command(&["down", "--yes"]).env("MUSTER_SERVER", &address));
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("is not the one of this data folder"), "{refused:?}");
    assert!(is_locked(&harness.data().join("lock")), "the server was stopped");
    // The address of its own server is accepted.
    let down = run(harness.command(&["down", "--yes"]).env("MUSTER_SERVER", &address)).success();
    assert_eq!(down.out, "server stopped\n");
}

#[tokio::test]
async fn only_admins_may_stop_a_server_and_others_delete_nothing() {
    let harness = Harness::new();
    let file = harness.data().with_file_name("tokens.toml");
    let file = file.to_str().unwrap();
    let member =
        harness.muster(&["token", "create", "mia", "--project", "default", "--file", file]).success().out;
    let server = harness.serve(&["--auth", &format!("tokens:{file}")]).await;
    let as_member = |arguments: &[&str]| run(harness.command(arguments).env("MUSTER_TOKEN", member.trim()));
    as_member(&create("fred", "1")).success();
    let refused = as_member(&["down", "--yes"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("mia is not an admin of this server"), "{refused:?}");
    assert_eq!(as_member(&["get", "-o", "name"]).success().out, "fred\n");
    let anonymous = harness.muster(&["down", "--yes"]);
    assert_eq!(anonymous.code, 3, "{anonymous:?}");
    server.terminate();
    server.wait_for_line("stopping", TIMEOUT).await;
}

//! Commands that only read do not create a data folder; flags before the command; the user's configuration file.

use serde_json::{Value, json};

use crate::harness::{Harness, create, run};

#[test]
fn reading_creates_no_data_folder() {
    let harness = Harness::new();
    let output = harness.muster(&["get"]).success();
    assert_eq!(output.out, "");
    assert!(
        output.err.starts_with("No clusters found: no server has run with the data folder "),
        "{output:?}"
    );
    assert_eq!(harness.muster(&["get", "-o", "json"]).success().json(), json!([]));
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).success().out, "");
    for arguments in [
        &["get", "fred"][..],
        &["get", "--watch"],
        &["nodes", "fred"],
        &["events", "fred"],
        &["logs", "fred"],
        &["actions"],
        &["action", "show", "5a338f50"],
        &["describe", "fred"],
        &["wait", "fred"],
        &["env", "fred"],
        &["exec", "fred", "true"],
        &["app", "list"],
        &["image", "list"],
        &["scale", "fred", "--workers", "2"],
        &["delete", "fred"],
    ] {
        let output = harness.muster(arguments);
        assert_eq!(output.code, 4, "{arguments:?}: {output:?}");
        assert!(
            output.err.contains("error: no cluster exists yet: no server has run with the data folder"),
            "{output:?}"
        );
        assert!(output.err.contains("hint: `muster create NAME` creates a cluster"), "{output:?}");
    }
    assert!(!harness.data().exists());
}

#[tokio::test]
async fn reading_starts_a_server_if_the_data_folder_was_used() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    harness.kill_server();
    let output = harness.muster(&["get", "fred", "-o", "name"]).success();
    assert_eq!(output.out, "fred\n");
    assert!(output.err.contains("started a server at"), "{output:?}");
}

#[test]
fn common_flags_may_precede_the_command() {
    let harness = Harness::new();
    harness.muster(&create("fred", "0")).success();
    let server = format!("http://{}", harness.announced().unwrap()["rest"].as_str().unwrap());
    let other = Harness::new();
    let output = other.muster(&["--server", &server, "-o", "name", "get"]).success();
    assert_eq!(output.out, "fred\n");
    let output = other.muster(&["-n", "other", &format!("--server={server}"), "get", "-o", "json"]).success();
    assert_eq!(output.json(), json!([]));
    let output = other.muster(&["--server", &server, "framework", "list", "-o", "name"]).success();
    assert_eq!(output.out, "ray\ndask\nspark\n");
    assert!(!other.data().exists());
    assert_eq!(other.muster(&["--server", &server, "version", "x"]).code, 2);
}

#[test]
fn a_server_that_a_command_starts_reads_the_users_settings() {
    let harness = Harness::new();
    let file = harness.settings().join("muster.toml");
    let output = harness.muster(&["shape", "list"]).success();
    assert!(output.err.contains(&format!("add [[shape]] to {}", file.display())), "{output:?}");
    harness.stop_server();
    std::fs::create_dir_all(harness.settings()).unwrap();
    std::fs::write(&file, "[[shape]]\nname = 'small'\ncpu = 2\n").unwrap();
    assert_eq!(harness.muster(&["shape", "list", "-o", "name"]).success().out, "small\n");
    harness.stop_server();
    // A named file takes precedence.
    let other = file.with_file_name("other.toml");
    std::fs::write(&other, "[[shape]]\nname = 'large'\ncpu = 8\n").unwrap();
    let mut list = harness.command(&["shape", "list", "-o", "name"]);
    assert_eq!(run(list.env("MUSTER_CONFIG", &other)).success().out, "large\n");
    harness.stop_server();
    std::fs::write(&file, "shapes = 1\n").unwrap();
    let output = harness.muster(&["whoami"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("unknown field `shapes`"), "{output:?}");
    assert!(
        output.err.contains(&format!("{}", file.display())) && output.err.contains("line 1"),
        "{output:?}"
    );
}

#[tokio::test]
async fn the_callers_own_namespace_is_the_default() {
    let harness = Harness::new();
    let file = harness.data().with_file_name("tokens.toml");
    let file = file.to_str().unwrap();
    let create_token = ["token", "create", "carol", "--project", "teamc", "--file", file];
    let token = harness.muster(&create_token).success().out;
    let _server = harness.serve(&["--auth", &format!("tokens:{file}")]).await;
    let carol = |arguments: &[&str]| run(harness.command(arguments).env("MUSTER_TOKEN", token.trim()));
    let me = carol(&["whoami"]).success().out;
    assert!(me.starts_with("carol (") && me.ends_with(", project teamc, namespace teamc, member\n"), "{me}");
    assert_eq!(carol(&["whoami", "-o", "json"]).success().json()["namespace"], "teamc");
    carol(&create("al", "0")).success();
    let clusters = carol(&["get", "-o", "json"]).success().json();
    let names: Vec<&Value> =
        clusters.as_array().unwrap().iter().map(|cluster| &cluster["namespace"]).collect();
    assert_eq!(names, ["teamc"]);
    assert_eq!(carol(&["delete", "al", "-o", "name"]).success().out, "al\n");
}

//! `muster login` and `muster context`.

use std::os::unix::fs::PermissionsExt as _;

use crate::harness::{Harness, Output, create, run};

/// Runs a command without a given server or data folder.
fn run_plain(harness: &Harness, arguments: &[&str]) -> Output {
    let mut command = harness.command(arguments);
    // Keep the test from using the user's own data folder.
    command.env_remove("MUSTER_DATA_DIR").env("XDG_DATA_HOME", harness.data());
    run(&mut command)
}

#[tokio::test]
async fn commands_use_the_server_that_the_user_has_logged_in_to() {
    let there = Harness::new();
    let file = there.data().with_file_name("tokens.toml");
    let file = file.to_str().unwrap();
    let token = there.muster(&["token", "create", "ann", "--file", file]).success().out;
    let _server = there.serve(&["--auth", &format!("tokens:{file}")]).await;
    let address = there.announced().unwrap()["rest"].as_str().unwrap().to_owned();
    let url = format!("http://{address}");

    let harness = Harness::new();
    let refused = run_plain(&harness, &["login", &url]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(!harness.settings().exists(), "a refused login is not stored");
    let output = run_plain(&harness, &["login", &url, "--token", token.trim()]).success();
    assert!(output.out.contains("as ann (project default)") && output.out.contains(&address), "{output:?}");
    let mode = harness.settings().join("contexts.toml").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    run_plain(&harness, &create("fred", "0")).success();
    assert_eq!(run_plain(&harness, &["get", "-o", "name"]).success().out, "fred\n");
    let refused = run_plain(&harness, &["down", "--yes"]);
    assert_eq!(refused.code, 3, "it is not the server of the data folder: {refused:?}");

    // Flags and variables take precedence over the context.
    assert_eq!(harness.muster(&["get", "-o", "name"]).success().out, "");
    let wrong = run_plain(&harness, &["get", "--token", "nonsense"]);
    assert_eq!(wrong.code, 3, "{wrong:?}");

    let list = run_plain(&harness, &["context", "list", "-o", "json"]).success();
    assert!(!list.out.contains(token.trim()), "{list:?}");
    assert_eq!((&list.json()[0]["server"], &list.json()[0]["current"]), (&url.into(), &true.into()));
    run_plain(&harness, &["context", "use", "--none"]).success();
    assert_eq!(run_plain(&harness, &["get", "-o", "name"]).success().out, "");
    run_plain(&harness, &["context", "use", &address]).success();
    assert_eq!(run_plain(&harness, &["get", "-o", "name"]).success().out, "fred\n");
    assert_eq!(run_plain(&harness, &["context", "use", "other"]).code, 4);
    run_plain(&harness, &["context", "delete", &address]).success();
    assert_eq!(run_plain(&harness, &["get", "-o", "name"]).success().out, "");
    let empty = run_plain(&harness, &["context", "list"]).success();
    assert!(empty.err.contains("`muster login URL` creates one"), "{empty:?}");
}

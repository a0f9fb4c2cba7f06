//! `muster version`.

use std::process::{Command, Output};

fn muster(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster")).args(arguments).output().expect("the binary runs")
}

#[test]
fn version_names_the_release_and_its_commit() {
    let output = muster(&["version"]);
    let head = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().expect("git runs");
    let head = String::from_utf8(head.stdout).expect("a commit is text");
    let expected = format!("muster {} ({})\n", env!("CARGO_PKG_VERSION"), head.trim());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.status.success());
}

#[test]
fn an_unknown_command_is_a_usage_error() {
    let output = muster(&["frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("frobnicate"));
}

#[test]
fn a_closed_pipe_causes_no_panic() {
    let status = Command::new("sh")
        .args(["-c", r#""$1" version 2>&1 >&- | grep -c panicked; test "$?" -eq 1"#, "sh"])
        .arg(env!("CARGO_BIN_EXE_muster"))
        .status()
        .expect("a shell runs");
    assert!(status.success(), "muster panicked on a closed stdout");
}

//! Output formats: tables for people, the API's JSON for programs.

use std::time::Instant;

use serde_json::Value;

use crate::harness::{Harness, TIMEOUT, create, run};

/// Splits lines into columns, without ages, which change.
fn columns(text: &str) -> Vec<Vec<&str>> {
    let is_age = |word: &str| word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    text.lines().map(|line| line.split_whitespace().filter(|word| !is_age(word)).collect()).collect()
}

#[tokio::test]
async fn a_pipe_gets_the_table_without_colour() {
    let harness = Harness::new();
    harness.muster(&create("fred", "2")).success();
    let output = harness.muster(&["get"]).success();
    assert!(!output.out.contains('\x1b'), "{output:?}");
    let lines = [
        "NAME FRAMEWORK PROVIDER STATE WORKERS EPHEMERAL AGE CPU MEMORY GPU",
        "fred simulated.node-1.0 simulated ACTIVE 2/2 <shared> <missing> <missing> <missing>",
    ];
    assert_eq!(columns(&output.out), lines.map(|line| line.split(' ').collect::<Vec<_>>()));
    let wide = harness.muster(&["get", "-o", "wide"]).success().out;
    assert!(columns(&wide)[0].ends_with(&["OWNER", "ID", "REASON"]), "{wide}");
    let titles = |arguments: &[&str]| columns(&harness.muster(arguments).success().out)[0].join(" ");
    assert_eq!(titles(&["nodes", "fred"]), "NAME ROLE GROUP STATE AGE GPUS");
    assert_eq!(titles(&["events", "fred"]), "AGE LEVEL OBJECT REASON PHASE MESSAGE");
    assert_eq!(titles(&["actions", "fred"]), "ID NAME ACTION STATUS AGE REASON");
}

#[tokio::test]
async fn json_is_the_json_of_the_api_and_yaml_is_the_same() {
    let harness = Harness::new();
    harness.muster(&create("fred", "2")).success();
    let rest = harness.announced().unwrap()["rest"].as_str().unwrap().to_owned();
    let api = format!("http://{rest}/apis/v1alpha2/namespaces/default/clusters");
    for (arguments, path) in [
        (&["get"][..], ""),
        (&["get", "fred"], "/fred"),
        (&["nodes", "fred"], "/fred/nodes"),
        (&["events", "fred"], "/fred/events"),
        (&["actions", "fred", "--all"], "/fred/actions"),
        (&["env", "fred"], "/fred/environment"),
    ] {
        let wire: Value = reqwest::get(format!("{api}{path}")).await.unwrap().json().await.unwrap();
        // Clusters are listed as an array, as the Oshinko CLI lists them.
        let wire = if path.is_empty() { wire["clusters"].clone() } else { wire };
        let json = harness.muster(&[arguments, &["-o", "json"]].concat()).success().json();
        assert_eq!(json, wire, "{arguments:?}");
        let yaml = harness.muster(&[arguments, &["-o", "yaml"]].concat()).success().out;
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), wire, "{arguments:?}:\n{yaml}");
    }
}

#[tokio::test]
async fn an_empty_list_prints_a_hint_on_standard_error() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let output = harness.muster(&["get"]).success();
    assert_eq!(output.out, "");
    assert!(
        output.err.contains(
            "No clusters found. Namespace 'default' has none: create one with `muster create NAME`"
        ),
        "{output:?}"
    );
    assert_eq!(harness.muster(&["get", "-o", "json"]).success().json(), Value::Array(vec![]));
    assert_eq!(harness.muster(&["get", "-o", "name"]).success().out, "");
}

#[tokio::test]
async fn a_deletion_prints_only_objects_on_standard_output_of_programs() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    for (format, nothing) in [("json", "[]\n"), ("yaml", "[]\n"), ("name", "")] {
        let driver = ["--app", "bob", "--app-status", "completed", "-o", format];
        let refused = harness.muster(&[&["delete", "fred"][..], &driver].concat());
        assert_eq!((refused.code, refused.out.as_str()), (3, nothing), "{format}: {refused:?}");
        assert!(refused.err.starts_with("cluster is not ephemeral\n"), "{format}: {refused:?}");
    }
    let deleted = harness.muster(&["delete", "fred", "-o", "json"]).success();
    assert_eq!(deleted.json()[0]["name"], "fred", "{deleted:?}");
}

#[tokio::test]
async fn a_watch_in_a_pipe_prints_a_line_per_change() {
    let harness = Harness::new();
    harness.muster(&create("first", "1")).success();
    let lines = harness.spawn(&["get", "--watch"]);
    let messages = harness.spawn(&["get", "second", "--watch", "-o", "json"]);
    lines.wait_for_line("NAME", TIMEOUT).await;
    lines.wait_for_line("first", TIMEOUT).await;
    messages.wait_for_line("no such cluster '", TIMEOUT).await;
    harness.muster(&create("second", "1")).success();
    let line = lines.wait_for_line("second", TIMEOUT).await;
    assert!(line.starts_with("second "), "{line}");
    lines.wait_for_line("ACTIVE", TIMEOUT).await;
    let messages = harness.spawn(&["get", "second", "--watch", "-o", "json"]);
    let first = messages.wait_for_line("\"second\"", TIMEOUT).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["type"], &first["cluster"]["state"]), (&"ADDED".into(), &"ACTIVE".into()), "{first}");
    harness.muster(&["delete", "second"]).success();
    lines.wait_for_line("DELETED", TIMEOUT).await;
    messages.wait_for_line("DELETED", TIMEOUT).await;
}

#[test]
fn every_shell_gets_its_completions() {
    let harness = Harness::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = harness.muster(&["completion", shell]).success();
        assert!(output.out.contains("COMPLETE") && output.out.contains("muster"), "{shell}: {output:?}");
    }
    assert!(!harness.data().exists(), "completions need no server");
}

#[test]
fn every_command_has_a_manual_page() {
    let harness = Harness::new();
    let folder = harness.data().with_file_name("man");
    harness.muster(&["man", folder.to_str().expect("a path of text")]).success();
    for (page, word) in
        [("muster.1", "SUBCOMMANDS"), ("muster-create.1", "workers"), ("muster-token-create.1", "role")]
    {
        let text = std::fs::read_to_string(folder.join(page)).expect(page);
        assert!(text.contains(word), "{page}: {text}");
    }
    assert!(!folder.join("muster-man.1").exists(), "hidden commands have no page");
    assert!(!harness.data().exists(), "manual pages need no server");
}

#[test]
fn a_closed_pipe_ends_a_watch() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let mut shell = harness.shell(r#""$@" | head -n 1"#, &["get", "--watch", "-o", "name"]);
    let begun = std::thread::spawn(move || run(&mut shell));
    let deadline = Instant::now() + TIMEOUT;
    while !begun.is_finished() {
        assert!(Instant::now() < deadline, "the watch continues without a reader");
        // The watch notices the closed pipe at its next line.
        harness.muster(&create("other", "0")).success();
        harness.muster(&["delete", "other"]).success();
    }
    assert_eq!(begun.join().unwrap().out, "fred\n");
}

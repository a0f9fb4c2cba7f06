//! What is printed: tables for people, the wire's JSON for programs.

use std::time::Instant;

use serde_json::Value;

use crate::home::{Home, PATIENCE, create, run};

/// The columns of each line, with ages left out: those depend on when one looks.
fn columns(text: &str) -> Vec<Vec<&str>> {
    let is_age = |word: &str| word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    text.lines().map(|line| line.split_whitespace().filter(|word| !is_age(word)).collect()).collect()
}

#[tokio::test]
async fn a_pipe_gets_the_table_without_colour() {
    let home = Home::new();
    home.muster(&create("fred", "2")).done();
    let said = home.muster(&["get"]).done();
    assert!(!said.out.contains('\x1b'), "{said:?}");
    assert_eq!(
        columns(&said.out),
        [
            vec!["NAMESPACE", "NAME", "FRAMEWORK", "PROVIDER", "STATE", "WORKERS", "EPHEMERAL", "AGE"],
            vec!["default", "fred", "simulated.node-1.0", "simulated", "ACTIVE", "2/2", "<shared>"],
        ]
    );
    let wide = home.muster(&["get", "-o", "wide"]).done().out;
    assert!(columns(&wide)[0].ends_with(&["OWNER", "ID", "REASON"]), "{wide}");
    let titles = |arguments: &[&str]| columns(&home.muster(arguments).done().out)[0].join(" ");
    assert_eq!(titles(&["nodes", "fred"]), "NAME ROLE GROUP STATE AGE");
    assert_eq!(titles(&["events", "fred"]), "AGE LEVEL OBJECT REASON PHASE MESSAGE");
    assert_eq!(titles(&["actions", "fred"]), "ID ACTION STATUS AGE REASON");
}

#[tokio::test]
async fn json_is_the_json_of_the_api_and_yaml_is_the_same() {
    let home = Home::new();
    home.muster(&create("fred", "2")).done();
    let rest = home.announced().unwrap()["rest"].as_str().unwrap().to_owned();
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
        let json = home.muster(&[arguments, &["-o", "json"]].concat()).done().json();
        assert_eq!(json, wire, "{arguments:?}");
        let yaml = home.muster(&[arguments, &["-o", "yaml"]].concat()).done().out;
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), wire, "{arguments:?}:\n{yaml}");
    }
}

#[tokio::test]
async fn an_empty_list_is_an_empty_list_and_a_hint_on_standard_error() {
    let home = Home::new();
    let said = home.muster(&["get"]).done();
    assert_eq!(said.out, "");
    assert!(
        said.err.contains("no clusters in namespace 'default': make one with `muster create NAME`"),
        "{said:?}"
    );
    assert_eq!(home.muster(&["get", "-o", "json"]).done().json(), Value::Array(vec![]));
    assert_eq!(home.muster(&["get", "-o", "name"]).done().out, "");
}

#[tokio::test]
async fn a_watch_in_a_pipe_is_a_line_a_change() {
    let home = Home::new();
    home.muster(&create("first", "1")).done();
    let lines = home.begin(&["get", "--watch"]);
    let messages = home.begin(&["get", "second", "--watch", "-o", "json"]);
    lines.wait_for_line("NAMESPACE", PATIENCE).await;
    lines.wait_for_line("first", PATIENCE).await;
    messages.wait_for_line("no such cluster '", PATIENCE).await;
    home.muster(&create("second", "1")).done();
    let line = lines.wait_for_line("second", PATIENCE).await;
    assert!(line.starts_with("default "), "{line}");
    lines.wait_for_line("ACTIVE", PATIENCE).await;
    let messages = home.begin(&["get", "second", "--watch", "-o", "json"]);
    let first = messages.wait_for_line("\"second\"", PATIENCE).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["type"], &first["cluster"]["state"]), (&"ADDED".into(), &"ACTIVE".into()), "{first}");
    home.muster(&["delete", "second"]).done();
    lines.wait_for_line("DELETED", PATIENCE).await;
    messages.wait_for_line("DELETED", PATIENCE).await;
}

#[test]
fn every_shell_gets_its_completions() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = home.muster(&["completion", shell]).done();
        assert!(said.out.contains("profile-properties"), "{shell}: {said:?}");
    }
    assert!(!home.data().exists(), "completions need no server");
}

#[test]
fn a_closed_pipe_ends_a_watch() {
    let home = Home::new();
    home.muster(&create("fred", "1")).done();
    let mut shell = home.shell(r#""$@" | head -n 1"#, &["get", "--watch", "-o", "name"]);
    let begun = std::thread::spawn(move || run(&mut shell));
    let deadline = Instant::now() + PATIENCE;
    while !begun.is_finished() {
        assert!(Instant::now() < deadline, "the watch goes on without a reader");
        // It notices with the next thing that it has to say.
        home.muster(&create("other", "0")).done();
        home.muster(&["delete", "other"]).done();
    }
    assert_eq!(begun.join().unwrap().out, "fred\n");
}

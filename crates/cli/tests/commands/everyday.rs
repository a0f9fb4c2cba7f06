//! Everyday use: several clusters at once, filters, waiting, and names of commands from other tools.

use serde_json::json;

use crate::frameworks::program;
use crate::harness::{Harness, TIMEOUT, create, run, slow};

fn labelled<'a>(name: &'a str, label: &'a str) -> Vec<&'a str> {
    [create(name, "0"), vec!["--label", label]].concat()
}

#[tokio::test]
async fn clusters_are_listed_and_deleted_by_name_by_label_and_all_at_once() {
    let harness = Harness::new();
    for (name, label) in [("ann", "team=x"), ("bob", "team=x"), ("carl", "team=y"), ("dora", "team=y")] {
        harness.muster(&labelled(name, label)).success();
    }
    let names = |arguments: &[&str]| {
        let output = harness.muster(&[&["get", "-o", "name"], arguments].concat()).success();
        output.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&["-l", "team=x"]), ["ann", "bob"]);
    assert_eq!(names(&["--mine", "--sort", "-name"]), ["dora", "carl", "bob", "ann"]);
    assert!(names(&["--state", "ERROR"]).is_empty());
    assert!(names(&["--framework", "ray"]).is_empty());
    assert_eq!(names(&["--provider", "simulated", "-A"]).len(), 4);
    let empty = harness.muster(&["get", "-l", "team=z"]).success();
    assert!(empty.err.contains("No matching clusters found."), "{empty:?}");

    // An unknown name is an error before anything is deleted.
    let output = harness.muster(&["delete", "ann", "missing"]);
    assert_eq!(output.code, 4, "{output:?}");
    let output = harness.muster(&["delete", "ann", "missing", "bob", "absent"]);
    assert!(output.err.contains("'missing'") && output.err.contains("'absent'"), "{output:?}");
    assert_eq!(names(&[]).len(), 4);
    let output = harness.muster(&["delete", "ann", "bob", "ann"]).success();
    assert_eq!(output.out, "cluster \"ann\" deleted\ncluster \"bob\" deleted\n");
    // A deletion by label needs a confirmation.
    let output = harness.muster(&["delete", "-l", "team=y"]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("this deletes carl, dora") && output.err.contains("--yes"), "{output:?}");
    let output = harness.muster(&["delete", "-l", "team=z", "--yes"]).success();
    assert!(output.err.contains("nothing was deleted"), "{output:?}");
    harness.muster(&["delete", "--all", "--yes"]).success();
    assert!(names(&[]).is_empty());
}

#[tokio::test]
async fn if_not_exists_leaves_an_existing_cluster_unchanged() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let output = harness.muster(&create("fred", "3"));
    assert_eq!(output.code, 3, "{output:?}");
    let again = [create("fred", "3"), vec!["--if-not-exists", "-o", "json"]].concat();
    let output = harness.muster(&again).success();
    assert!(output.err.contains("cluster 'fred' exists already and was not changed"), "{output:?}");
    assert_eq!(output.json()["desiredWorkers"], 1);
    harness.muster(&[create("other", "1"), vec!["--if-not-exists"]].concat()).success();
}

#[tokio::test]
async fn if_not_exists_waits_until_an_existing_cluster_is_usable_or_gone() {
    let harness = Harness::new();
    let properties = slow(5);
    let begun = [create("late", "1"), vec!["--profile-properties", &properties, "--no-wait"]].concat();
    harness.muster(&begun).success();
    let again = |name| harness.muster(&[create(name, "1"), vec!["--if-not-exists", "-o", "json"]].concat());
    let output = again("late").success();
    assert!(output.err.contains("cluster 'late' exists already and is CREATING: waiting"), "{output:?}");
    let usable = output.json();
    assert_eq!(usable["state"], "ACTIVE", "{usable}");

    harness.muster(&["delete", "late", "--no-wait"]).success();
    let next = again("late").success().json();
    assert_eq!(next["state"], "ACTIVE", "{next}");
    assert_ne!(next["id"], usable["id"]);

    // Its head ends at once.
    let python = program(&harness, "python", "echo 9.9");
    let create = |more: &[&str]| {
        run(harness.command(&[&["create", "bad"], more].concat()).env("MUSTER_PYTHON", &python))
    };
    assert_eq!(create(&[]).code, 1);
    let output = create(&["--if-not-exists"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("cluster 'bad' exists already and is ERROR: "), "{output:?}");
    assert!(output.err.contains("the head did not start"), "{output:?}");
}

#[tokio::test]
async fn a_description_has_the_cluster_its_nodes_and_events() {
    let harness = Harness::new();
    harness.muster(&labelled("fred", "team=x")).success();
    harness.muster(&["scale", "fred", "--workers", "2"]).success();
    let text = harness.muster(&["describe", "fred"]).success().out;
    for words in ["state", "ACTIVE", "team=x", "\nNodes\n", "\nEvents, newest first\n", "CLUSTER_RESIZE"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = harness.muster(&["describe", "fred", "-o", "json"]).success().json();
    assert_eq!((&json["cluster"]["name"], json["nodes"].as_array().map(Vec::len)), (&json!("fred"), Some(2)));
    assert!(json["events"].as_array().is_some_and(|events| !events.is_empty()), "{json}");
    assert_eq!(harness.muster(&["describe", "missing"]).code, 4);
}

#[tokio::test]
async fn wait_ends_when_the_state_is_reached() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    assert_eq!(harness.muster(&["wait", "fred"]).success().out, "fred is ACTIVE\n");
    let late = harness.muster(&["wait", "fred", "--for", "error", "--timeout", "10ms"]);
    assert_eq!(late.code, 5, "{late:?}");
    assert!(late.err.contains("'fred' is not ERROR after 0 s: it is ACTIVE"), "{late:?}");

    let gone = harness.spawn(&["wait", "fred", "--for", "deleted"]);
    let never = harness.spawn(&["wait", "fred", "--for", "error"]);
    gone.wait_for_line("fred is ACTIVE: waiting until it is DELETED", TIMEOUT).await;
    never.wait_for_line("fred is ACTIVE: waiting until it is ERROR", TIMEOUT).await;
    harness.muster(&["delete", "fred"]).success();
    gone.wait_for_line("fred is DELETED", TIMEOUT).await;
    never.wait_for_line("'fred' was deleted before it was ERROR", TIMEOUT).await;
    assert_eq!(harness.muster(&["wait", "fred", "--for", "deleted"]).success().out, "fred is DELETED\n");
    assert_eq!(harness.muster(&["wait", "fred"]).code, 4);
    let never = harness.muster(&["wait", "nosuch", "--for", "deleted"]).success();
    assert_eq!(never.out, "nosuch is DELETED\n");
    assert!(never.err.contains("note: no such cluster 'nosuch'"), "{never:?}");
}

#[tokio::test]
async fn names_of_commands_from_other_tools_are_understood() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let expected = harness.muster(&["get", "-o", "name"]).success().out;
    for word in ["ls", "list", "ps", "status"] {
        assert_eq!(harness.muster(&[word, "-o", "name"]).success().out, expected, "{word}");
    }
    let output = harness.muster(&["stop", "fred"]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("`muster delete fred` deletes it"), "{output:?}");
    harness.muster(&["rm", "fred"]).success();
    assert_eq!(harness.muster(&["get", "-o", "name"]).success().out, "");
}

#[tokio::test]
async fn a_server_is_stopped_while_its_clusters_stay() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let output = harness.muster(&["down", "--keep-clusters"]).success();
    assert_eq!(output.out, "server stopped; its clusters keep running\n");
    assert!(harness.announced().is_none());
    let output = harness.muster(&["down", "--keep-clusters"]).success();
    assert!(output.out.starts_with("no server runs"), "{output:?}");
    assert_eq!(harness.muster(&["get", "-o", "name"]).success().out, "fred\n");
}

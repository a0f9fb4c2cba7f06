//! `muster create -f` and `--dry-run`.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use crate::harness::{Harness, create};

#[tokio::test]
async fn a_printed_cluster_can_be_created_again() {
    let harness = Harness::new();
    let labels = ["--label", "team=x", "--max-lifetime", "8h", "--group", "name=a,workers=2,max=4"];
    let first = [&["create", "fred", "--profile", "simulated.node-1.0"][..], &labels].concat();
    harness.muster(&first).success();
    let yaml = harness.muster(&["get", "fred", "-o", "yaml"]).success().out;
    let before = harness.muster(&["get", "fred", "-o", "json"]).success().json();
    harness.muster(&["delete", "fred"]).success();
    let file = harness.data().join("fred.yaml");
    std::fs::write(&file, &yaml).unwrap();
    let file = file.to_str().unwrap();
    let after = harness.muster(&["create", "-f", file, "-o", "json"]).success().json();
    for field in
        ["name", "namespace", "profile", "provider", "labels", "maxLifetime", "clusterSpec", "desiredWorkers"]
    {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_ne!(after["id"], before["id"]);
    let taken = harness.muster(&["create", "-f", file]);
    assert_eq!(taken.code, 3, "{taken:?}");
    harness.muster(&["create", "-f", file, "--if-not-exists"]).success();
    // A given name and namespace take precedence over those in the file.
    harness.muster(&["create", "other", "-f", file, "-n", "elsewhere"]).success();
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).success().out, "default/fred\nelsewhere/other\n");
    assert_eq!(harness.muster(&["create", "-f", file, "--workers", "2"]).code, 2);
    assert_eq!(harness.muster(&["create", "-f", "/no/such/file"]).code, 2);
}

#[test]
fn a_cluster_is_read_from_standard_input() {
    let harness = Harness::new();
    let mut command = harness.command(&["create", "-f", "-", "-o", "name"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = json!({"name": "fred", "profile": "simulated.node-1.0"}).to_string();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fred\n");
}

#[tokio::test]
async fn a_dry_run_decides_as_a_create_does_and_stores_nothing() {
    let harness = Harness::new();
    let dry =
        |name, workers| harness.muster(&[create(name, workers), vec!["--dry-run", "-o", "json"]].concat());
    let output = dry("fred", "2").success();
    assert!(output.err.contains("dry run: cluster 'fred' could be created"), "{output:?}");
    assert_eq!(output.json()["desiredWorkers"], 2);
    assert_eq!(harness.muster(&["get", "-A", "-o", "name"]).success().out, "");
    assert_eq!(harness.muster(&["actions", "-o", "name"]).success().out, "");
    harness.muster(&create("fred", "0")).success();
    let taken = dry("fred", "2");
    assert_eq!(taken.code, 3, "{taken:?}");
    let many = dry("many", "100000");
    assert_eq!(many.code, 2, "{many:?}");
    let unknown = harness.muster(&["create", "x", "--profile", "none.such-1.0", "--dry-run"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

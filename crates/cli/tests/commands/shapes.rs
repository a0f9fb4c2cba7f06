//! Shapes of nodes and limits of clusters: given at creation, shown afterwards.

use std::fs;

use serde_json::json;

use crate::harness::{Harness, create};

/// Starts a server that has a named shape.
async fn start_with_shape() -> (Harness, muster_testkit::Process) {
    let harness = Harness::new();
    fs::create_dir_all(harness.data()).expect("a data folder");
    let file = harness.data().join("muster.toml");
    fs::write(&file, "[[shape]]\nname = 'small'\ncpu = 2\nmemory = '4Gi'\n").expect("a configuration");
    let server = harness.serve(&["--config", file.to_str().expect("a path"), "--gpus", "3"]).await;
    (harness, server)
}

#[tokio::test]
async fn a_shape_is_given_by_name_or_by_amounts() {
    let (harness, _server) = start_with_shape().await;
    let listed = harness.muster(&["shape", "list"]).success().out;
    assert_eq!(listed, "NAME   CPU  MEMORY  GPU\nsmall  2    4Gi\n");
    let wide = harness.muster(&["shape", "list", "-o", "wide"]).success().out;
    assert!(wide.contains(" cpu, ") && wide.ends_with(" memory and 3 gpu\n"), "{wide}");
    let arguments = [&create("named", "1")[..], &["--shape", "small", "-o", "json"]].concat();
    let named = harness.muster(&arguments).success().json();
    let shape = |cluster: &serde_json::Value| cluster["clusterSpec"]["workerGroupSpec"][0]["shape"].clone();
    assert_eq!(shape(&named), json!({"cpu": "2", "memory": "4Gi"}));
    let amounts = ["--shape", "cpu=0.5,gpu=1", "--head-shape", "memory=1Gi", "-o", "json"];
    let given = harness.muster(&[&create("given", "1")[..], &amounts].concat()).success().json();
    assert_eq!(shape(&given), json!({"cpu": "500m", "gpu": 1}));
    assert_eq!(given["clusterSpec"]["headGroupSpec"]["shape"], json!({"memory": "1Gi"}));
    let unknown = harness.muster(&[&create("x", "1")[..], &["--shape", "big"]].concat());
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let why = ": create it with `muster shape create`, or use one of small, or give amounts such as cpu=2";
    assert!(unknown.err.contains("shape 'big' not found in namespace '"), "{unknown:?}");
    assert!(unknown.err.contains(why), "{unknown:?}");
    let wrong = harness.muster(&[&create("x", "1")[..], &["--shape", "cpu=many"]].concat());
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("'many' is not an amount of cpu"), "{wrong:?}");
}

#[tokio::test]
async fn a_local_node_that_the_machine_cannot_hold_is_refused() {
    let (harness, _server) = start_with_shape().await;
    let command = r#"{"command": ["sleep", "1000"]}"#;
    let process = ["create", "x", "--profile", "local.process-1.0", "--profile-properties", command];
    let refused = harness.muster(&[&process[..], &["--shape", "cpu=100000,gpu=4"]].concat());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("a worker requests 100000 cpu and 4 gpu; this machine has "), "{refused:?}");
    assert!(refused.err.contains(" and 3: request less"), "{refused:?}");
    assert_eq!(harness.muster(&["get", "x"]).code, 4, "nothing is stored");
}

#[tokio::test]
async fn idle_timeout_and_lifetime_are_shown() {
    let harness = Harness::new();
    let limits = ["--idle-timeout", "1h", "--max-lifetime", "8h"];
    let made =
        harness.muster(&[&create("fred", "1")[..], &limits, &["-o", "json"]].concat()).success().json();
    assert_eq!((&made["idleTimeout"], &made["maxLifetime"]), (&json!("3600s"), &json!("28800s")));
    let wide = harness.muster(&["get", "fred", "-o", "wide"]).success().out;
    assert!(wide.contains("lifetime  ends in 7h, at 2"), "{wide}");
    assert!(wide.contains("idle      deleted "), "{wide}");
    for (flag, value, why) in [
        ("--idle-timeout", "0s", "idle_timeout is 0s: must be from 1s to 3650d"),
        ("--max-lifetime", "4000d", "max_lifetime is 345600000s: must be from 1s to 3650d"),
        ("--max-lifetime", "soon", "soon"),
    ] {
        let refused = harness.muster(&[&create("x", "1")[..], &[flag, value]].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
}

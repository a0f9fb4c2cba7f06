//! Clusters with several groups of workers.

use serde_json::{Value, json};

use crate::harness::Harness;

const NODES: [&str; 2] = ["--profile", "simulated.node-1.0"];

fn sizes(cluster: &Value) -> Vec<(String, i64)> {
    let groups = cluster["clusterSpec"]["workerGroupSpec"].as_array().expect("groups");
    let size = |group: &Value| {
        (group["groupName"].as_str().unwrap_or_default().to_owned(), group["replicas"].as_i64().unwrap_or(0))
    };
    groups.iter().map(size).collect()
}

#[tokio::test]
async fn each_group_has_its_size_shape_and_bounds() {
    let harness = Harness::new();
    let groups = ["--group", "name=small,workers=2,min=1,max=3,cpu=1", "--group", "name=big,memory=8Gi"];
    let made =
        harness.muster(&[&["create", "fred", "-o", "json"], &NODES[..], &groups].concat()).success().json();
    assert_eq!(sizes(&made), [("small".to_owned(), 2), ("big".to_owned(), 1)]);
    let small = &made["clusterSpec"]["workerGroupSpec"][0];
    assert_eq!((&small["minReplicas"], &small["maxReplicas"]), (&json!(1), &json!(3)));
    assert_eq!(small["shape"], json!({"cpu": "1"}));
    assert_eq!(made["clusterSpec"]["workerGroupSpec"][1]["shape"], json!({"memory": "8Gi"}));
    assert_eq!(made["readyWorkers"], 3);
    let scale = |group: &'static str, workers: &'static str| {
        ["scale", "fred", "--group", group, "--workers", workers, "-o", "json"]
    };
    let scaled = harness.muster(&scale("big", "4")).success().json();
    assert_eq!(sizes(&scaled), [("small".to_owned(), 2), ("big".to_owned(), 4)]);
    for (group, workers, why) in [
        ("small", "4", "replicas of group 'small' is 4: must be at most max_replicas (3)"),
        ("small", "0", "replicas of group 'small' is 0: must be at least min_replicas (1)"),
        ("huge", "1", "worker group 'huge' not found: use one of small, big"),
    ] {
        let refused = harness.muster(&scale(group, workers));
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    let which = harness.muster(&["scale", "fred", "--workers", "1"]);
    assert!(which.err.contains("'fred' has 2 worker groups: small (2), big (4)"), "{which:?}");
}

#[tokio::test]
async fn invalid_groups_are_refused_with_the_reason() {
    let harness = Harness::new();
    let two = ["--group", "name=a", "--group", "name=b"];
    let command =
        ["--profile", "local.process-1.0", "--profile-properties", r#"{"command": ["sleep", "9"]}"#];
    for (arguments, why) in [
        (
            [&command[..], &two].concat(),
            "clusters of type local.process-1.0 have one worker group, and 2 were given: leave out the others",
        ),
        ([&NODES[..], &two, &["--workers", "2"]].concat(), "cannot be used with"),
        ([&NODES[..], &two, &["--shape", "cpu=1"]].concat(), "cannot be used with"),
        ([&NODES[..], &["--group", "name=a,workers=5,max=4"]].concat(), "replicas of group 'a' is 5"),
        (
            [&NODES[..], &["--group", "name=a", "--group", "name=a"]].concat(),
            "two worker groups are named 'a': give each a name of its own",
        ),
        ([&NODES[..], &["--group", "a"]].concat(), "'a' is not part of a group"),
    ] {
        let refused = harness.muster(&[&["create", "x"], &arguments[..]].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    assert_eq!(harness.muster(&["get", "x"]).code, 4, "nothing is stored");
}

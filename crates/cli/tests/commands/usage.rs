//! What clusters requested, and what nodes use.

use crate::harness::{Harness, create};

fn sleeping(name: &str) -> Vec<&str> {
    let words = r#"{"command": ["sleep", "1000"]}"#;
    let shape = "cpu=500m,memory=16Mi";
    let kind = ["--profile", "local.process-1.0", "--profile-properties", words];
    [&["create", name, "--workers", "2", "--shape", shape], &kind[..]].concat()
}

#[tokio::test]
async fn usage_sums_what_clusters_requested_deleted_ones_too() {
    let harness = Harness::new();
    harness.muster(&create("wilma", "1")).success();
    harness.muster(&sleeping("fred")).success();
    harness.muster(&["delete", "fred"]).success();
    let usage = harness.muster(&["usage", "--by", "framework", "-o", "json"]).success().json();
    let names: Vec<_> = usage["rows"].as_array().expect("rows").iter().map(|row| &row["name"]).collect();
    assert_eq!(names.len(), 2, "{usage}");
    let of_fred = |key: &str| {
        let rows = usage["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["name"] == "local.process-1.0").expect("a row");
        row[key].as_f64().unwrap_or_default()
    };
    assert!(of_fred("clusterHours") < 0.1, "{usage}");
    assert_eq!(usage["total"]["clusters"], "2", "{usage}");
    let table = harness.muster(&["usage"]).success().out;
    assert!(
        table.starts_with("NAME") && table.contains("CORE-HOURS") && table.lines().count() == 2,
        "{table}"
    );
    let all =
        harness.muster(&["usage", "-A", "--by", "project", "--since", "1h", "-o", "yaml"]).success().out;
    assert!(all.contains("by: project"), "{all}");
    let long = harness.muster(&["usage", "--since", "400d"]).success().err;
    assert!(long.contains("note: clusters deleted before "), "{long}");
    assert_eq!(harness.muster(&["usage", "--since", "soon"]).code, 2);
    let late = harness.muster(&["usage", "--since", "2100-01-01T00:00:00Z"]);
    assert!(late.code == 2 && late.err.contains("give an earlier time"), "{late:?}");
    let zeros = harness.muster(&["usage", "-n", "other", "-o", "json"]).success().json()["total"].clone();
    assert_eq!((&zeros["clusters"], &zeros["gpuHours"]), (&serde_json::json!("0"), &serde_json::json!(0.0)));
    let nothing = harness.muster(&["usage", "-n", "other"]).success();
    assert_eq!((nothing.out.as_str(), nothing.err.as_str()), ("", "No clusters existed in that time.\n"));
}

#[tokio::test]
async fn top_measures_the_processes_of_local_nodes_and_says_what_is_not_measured() {
    let harness = Harness::new();
    harness.muster(&sleeping("fred")).success();
    let nodes = harness.muster(&["top", "fred", "-o", "json"]).success().json();
    let nodes = nodes.as_array().expect("an array").clone();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for node in &nodes {
        let bytes: u64 = node["memoryBytes"].as_str().and_then(|bytes| bytes.parse().ok()).expect("memory");
        assert!(bytes > 0 && node["cluster"] == "fred" && node["cpuMillis"].is_string(), "{node}");
    }
    harness.muster(&create("wilma", "1")).success();
    let simulated = harness.muster(&["top", "wilma"]);
    assert!(simulated.code != 0 && simulated.err.contains("is not measured"), "{simulated:?}");
    // Of several clusters those are shown that can be measured.
    let all = harness.muster(&["top"]).success();
    assert!(all.out.starts_with("CLUSTER") && all.out.lines().count() == 3, "{all:?}");
    assert!(all.err.contains("warning: cluster 'wilma' is not measured: "), "{all:?}");
    harness.muster(&["delete", "fred"]).success();
    let none = harness.muster(&["top"]);
    assert!(none.code != 0 && none.err.contains("error: ") && none.out.is_empty(), "{none:?}");
}

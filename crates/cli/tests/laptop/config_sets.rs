//! Stored configurations complete new clusters.

use std::process::Command;

use serde_json::{Value, json};

use crate::clusters::state;
use crate::harness::Harness;
use crate::traces;

async fn create(harness: &Harness, query: &str, cluster: Value) -> Value {
    let path = format!("/namespaces/demo/clusters?wait_for=reached&wait_timeout=3m&{query}");
    harness.post(&path, cluster).await
}

#[tokio::test]
async fn a_set_gives_framework_workers_and_shape_unless_the_request_does() {
    let Some((harness, _python)) = Harness::with_dask().await else { return };
    let folder = harness.data().join("configs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let set = "framework = \"dask\"\nworkercount = 2\nshape = \"cpu=1,memory=256Mi\"\n";
    std::fs::write(folder.join("two.toml"), set).expect("a set");
    let fred = create(&harness, "stored_config=two", json!({"name": "fred", "provider": "local"})).await;
    assert_eq!((state(&fred), fred["framework"].as_str()), ("ACTIVE", Some("dask")), "{fred}");
    assert_eq!(fred["readyWorkers"], 2, "{fred}");
    let group = &fred["clusterSpec"]["workerGroupSpec"][0];
    assert_eq!(group["shape"], json!({"cpu": "1", "memory": "256Mi"}), "{fred}");
    harness.delete_without_trace("fred").await;

    let query = "stored_config=two&config.workers=0";
    let none = create(&harness, query, json!({"name": "none", "provider": "local"})).await;
    assert_eq!((state(&none), none["desiredWorkers"].as_i64().unwrap_or(0)), ("ACTIVE", 0), "{none}");
    harness.delete_without_trace("none").await;
}

#[tokio::test]
async fn a_launcher_uses_the_set_of_its_flag_or_variable() {
    let Some((harness, _python)) = Harness::with_dask().await else { return };
    let folder = harness.data().join("configs");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("two.toml"), "framework = \"dask\"\nworkercount = 2\n").expect("a set");
    let run = |name: &str, flags: &[&str]| {
        let program = env!("CARGO_BIN_EXE_muster");
        // The default framework differs, so that only the set can have chosen Spark.
        let mut command = Command::new(program);
        command.args([&["run", "--shared", "--cluster", name], flags, &["--", "true"]].concat());
        command.env("MUSTER_DATA_DIR", harness.data()).env("MUSTER_NAMESPACE", "demo");
        command.env("MUSTER_FRAMEWORK", "ray").env(traces::MARK, harness.path());
        for name in ["MUSTER_PYTHON", "VIRTUAL_ENV", "POD_NAME", "APP_EXIT"] {
            command.env_remove(name);
        }
        command
    };
    let mut by_variable = run("variable", &[]);
    by_variable.env("OSHINKO_NAMED_CONFIG", "two");
    for (name, mut command) in [("flag", run("flag", &["--storedconfig", "two"])), ("variable", by_variable)]
    {
        let output = command.output().expect("muster runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made = harness.get(&format!("/namespaces/demo/clusters/{name}")).await;
        assert_eq!((made["framework"].as_str(), made["desiredWorkers"].as_i64()), (Some("dask"), Some(2)));
        harness.delete_without_trace(name).await;
    }
    let absent = run("none", &["--storedconfig", "absent"]).output().expect("muster runs");
    assert_eq!(absent.status.code(), Some(4), "{}", String::from_utf8_lossy(&absent.stderr));
}

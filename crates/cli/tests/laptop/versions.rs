//! The versions of what a cluster runs: recorded when its head is started, and compared with those of its clients.

use std::process::{Command, Output};

use crate::harness::Harness;
use crate::recipes::dask;

fn muster(harness: &Harness, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).env("MUSTER_DATA_DIR", harness.data()).env("MUSTER_NO_AUTOSTART", "1");
    command.env_remove("MUSTER_SERVER").output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_cluster_shows_its_versions_and_a_command_of_another_python_is_warned() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let question =
        "import sys, distributed; print('%d.%d.%d' % sys.version_info[:3], distributed.__version__)";
    let asked = Command::new(python.path()).args(["-c", question]).output().expect("Python runs");
    let asked = text(&asked.stdout);
    let versions: Vec<&str> = asked.split_whitespace().collect();
    assert_eq!([&created["pythonVersion"], &created["frameworkVersion"]], [versions[0], versions[1]]);
    let wide = text(&muster(&harness, &["get", "fred", "-n", "demo", "-o", "wide"]).stdout);
    assert!(wide.contains("LAST USE") && versions.iter().all(|version| wide.contains(version)), "{wide}");
    let described = text(&muster(&harness, &["describe", "fred", "-n", "demo"]).stdout);
    assert!(described.contains("memory limit") && described.contains("Dask's own"), "{described}");

    // Another process writes it: a file that is open for writing cannot be run.
    let other = harness.path().join("python2.7").display().to_string();
    let write = r#"printf '#!/bin/sh\necho 2.7\n' > "$1" && chmod +x "$1""#;
    assert!(Command::new("sh").args(["-c", write, "sh", &other]).status().expect("sh runs").success());
    let exec =
        |python: &str| text(&muster(&harness, &["exec", "fred", "-n", "demo", "--", python, "-V"]).stderr);
    let warned = exec(&other);
    let minor = versions[0].rsplit_once('.').expect("a minor version").0;
    let warning = format!("warning: python 2.7 here, {minor} on cluster 'fred': pickled functions may fail");
    assert!(warned.contains(&warning) && warned.contains("muster exec fred -- python"), "{warned}");
    assert!(!exec("python").contains("warning"), "it is the cluster's own");
    harness.delete_without_trace("fred").await;
}

//! `muster run`: a command with its own cluster, and the end of both.

use std::process::{Command, Output};

use muster_testkit::{Process, eventually, lives};
use rstest::rstest;

use crate::harness::{Harness, TIMEOUT};
use crate::traces;

/// A module beside the scripts, which workers import.
const MODULE: &str = "import os
def half(number):
    return number / 2 if os.environ['GREETING'] == 'hello' else None
";

/// Scripts that compute on their cluster and exit with 7.
const DASK: &str = "import os, sys, beside
from dask.distributed import Client
client = Client(os.environ['DASK_SCHEDULER_ADDRESS'])
print('sum', client.submit(beside.half, 12).result())
sys.exit(7)
";
const RAY: &str = "import sys, ray, beside
ray.init()
@ray.remote
def add(a, b):
    return beside.half(a) + beside.half(b)
print('sum', ray.get(add.remote(4, 8)))
sys.exit(7)
";
const SPARK: &str = "import os, sys, beside
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(os.environ['SPARK_MASTER']).getOrCreate()
print('sum', spark.sparkContext.parallelize([2, 4, 6]).map(beside.half).sum())
spark.stop()
sys.exit(7)
";

/// Starts a harness with a framework and a short grace period for apps.
async fn start_with(framework: &str) -> Option<Harness> {
    let python = muster_testkit::python(framework).await?;
    let path = python.path().display().to_string();
    Some(Harness::with(&[("MUSTER_PYTHON", &path), ("MUSTER_APP_GRACE", "1")]).await)
}

/// Builds a command against this harness.
fn muster(harness: &Harness, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).env("MUSTER_DATA_DIR", harness.data()).env("MUSTER_NAMESPACE", "demo");
    command.env(traces::MARK, harness.path()).env_remove("MUSTER_PYTHON").env_remove("VIRTUAL_ENV");
    command.env_remove("POD_NAME").env_remove("APP_EXIT");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("muster runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the namespace has no cluster.
async fn until_no_cluster_is_left(harness: &Harness) {
    eventually("no cluster is left", TIMEOUT, async || {
        let left = harness.get("/namespaces/demo/clusters").await;
        if left["clusters"].as_array().is_none_or(Vec::is_empty) { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Starts a launcher whose command sleeps, and waits until it runs.
async fn start_sleeping(harness: &Harness, more: &[&str]) -> (Process, i32) {
    start_script(harness, more, "echo command $$; exec sleep 600").await
}

/// Starts a launcher of a script, and returns it with the process id that the script prints.
async fn start_script(harness: &Harness, more: &[&str], script: &str) -> (Process, i32) {
    let arguments = [&["run"], more, &["--", "sh", "-c", script]].concat();
    let launcher = Process::spawn("muster", &muster(harness, &arguments));
    let line = launcher.wait_for_line("command ", TIMEOUT).await;
    let pid = line.trim().rsplit(' ').next().and_then(|pid| pid.parse().ok());
    (launcher, pid.expect("a process id"))
}

#[rstest]
#[case("dask", DASK)]
#[case("ray", RAY)]
#[case("spark", SPARK)]
#[tokio::test]
async fn a_script_computes_on_a_cluster_that_is_deleted_after_it(
    #[case] framework: &str,
    #[case] script: &str,
) {
    let Some(harness) = start_with(framework).await else { return };
    let file = harness.path().join("job.py");
    std::fs::write(&file, script).expect("a script");
    std::fs::write(harness.path().join("beside.py"), MODULE).expect("a module");
    let file = file.to_str().expect("a plain path");
    let wanted = ["--framework", framework, "--workers", "1", "--env", "GREETING=hello"];
    let mut command = muster(&harness, &[&["run"][..], &wanted, &[file]].concat());
    let ran = output(command.current_dir(harness.path()));
    let (out, printed) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(7), "{out}{printed}");
    assert!(out.lines().any(|line| line == "sum 6.0"), "{out}{printed}");
    assert!(!out.contains("cluster"), "its own words are on standard error: {out}");
    for words in ["creating ephemeral cluster", "Using ephemeral cluster", "Deleting cluster", "deleted"] {
        assert!(printed.contains(words), "{printed}");
    }
    until_no_cluster_is_left(&harness).await;
}

#[tokio::test]
async fn a_command_that_cannot_start_creates_nothing() {
    let Some(harness) = start_with("dask").await else { return };
    let missing = output(&mut muster(&harness, &["run", "--", "no-such-command"]));
    assert_eq!(missing.status.code(), Some(127), "{}", text(&missing.stderr));
    let plain = harness.path().join("plain");
    std::fs::write(&plain, "").expect("a file");
    let refused = output(&mut muster(&harness, &["run", "--", plain.to_str().expect("a plain path")]));
    assert_eq!(refused.status.code(), Some(126), "{}", text(&refused.stderr));
    let all = harness.get("/namespaces/demo/clusters?deleted=include").await;
    assert!(all["clusters"].as_array().is_none_or(Vec::is_empty), "{all}");
}

#[tokio::test]
async fn killing_a_launcher_ends_its_command_and_its_cluster() {
    let Some(harness) = start_with("dask").await else { return };
    let (mut launcher, pid) = start_sleeping(&harness, &[]).await;
    // The command has a child, which must end too.
    let child = "sleep 600 & echo the child of the command $!; wait";
    let (mut parent, child) = start_script(&harness, &[], child).await;
    for launcher in [&mut launcher, &mut parent] {
        launcher.kill();
        launcher.wait_for_exit(TIMEOUT).await;
    }
    until_no_cluster_is_left(&harness).await;
    assert!(!lives(pid), "its command got a signal");
    eventually("the child has ended", TIMEOUT, async || if lives(child) { Err(child) } else { Ok(()) }).await;
    wait_for_guards(&harness).await;
}

#[tokio::test]
async fn a_command_that_is_killed_alone_counts_as_completed() {
    let Some(harness) = start_with("dask").await else { return };
    let (mut launcher, pid) = start_sleeping(&harness, &[]).await;
    traces::kill(pid);
    let status = launcher.wait_for_exit(TIMEOUT).await;
    assert_eq!(status.code(), Some(137));
    until_no_cluster_is_left(&harness).await;
}

#[tokio::test]
async fn the_next_server_deletes_the_cluster_of_a_launcher_that_was_killed_with_the_last_one() {
    let Some(mut harness) = start_with("dask").await else { return };
    let (mut launcher, pid) = start_sleeping(&harness, &[]).await;
    harness.kill().await;
    launcher.kill();
    launcher.wait_for_exit(TIMEOUT).await;
    traces::kill(pid);
    harness.start().await;
    until_no_cluster_is_left(&harness).await;
    wait_for_guards(&harness).await;
}

/// Waits until the guard of a killed launcher ends, after the process group of its command.
async fn wait_for_guards(harness: &Harness) {
    eventually("the guard ends", TIMEOUT, async || {
        let processes = harness.traces().processes;
        if processes.is_empty() { Ok(()) } else { Err(format!("{processes:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_cluster_of_another_app_is_refused_and_a_shared_one_is_kept() {
    let Some(harness) = start_with("dask").await else { return };
    let (mut launcher, _) = start_sleeping(&harness, &["--cluster", "mine"]).await;
    let other = output(&mut muster(&harness, &["run", "--cluster", "mine", "--", "true"]));
    assert_eq!(other.status.code(), Some(3), "{}", text(&other.stderr));
    assert!(
        text(&other.stderr).contains("ephemeral cluster belongs to deployment run-"),
        "{}",
        text(&other.stderr)
    );
    launcher.terminate();
    let status = launcher.wait_for_exit(TIMEOUT).await;
    assert_eq!(status.code(), Some(143), "{}", launcher.tail());
    assert!(launcher.tail().contains("Received a termination signal"), "{}", launcher.tail());
    until_no_cluster_is_left(&harness).await;

    let first = output(&mut muster(&harness, &["run", "--cluster", "ours", "--shared", "--", "true"]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("cluster not deleted 'ours'"), "{}", text(&first.stderr));
    let next = output(&mut muster(&harness, &["run", "--cluster", "ours", "--workers", "3", "--", "true"]));
    let printed = text(&next.stderr);
    assert!(
        printed.contains("Found cluster ours") && printed.contains("Using shared cluster ours"),
        "{printed}"
    );
    assert!(printed.contains("it is used unchanged"), "{printed}");
    let wrong =
        output(&mut muster(&harness, &["run", "--cluster", "ours", "--framework", "ray", "--", "true"]));
    assert_eq!(wrong.status.code(), Some(3), "{}", text(&wrong.stderr));
    assert!(output(&mut muster(&harness, &["delete", "ours"])).status.success());
}

#[tokio::test]
async fn an_incomplete_cluster_is_waited_for_up_to_a_limit() {
    let Some(harness) = start_with("dask").await else { return };
    let command = ["run", "--cluster", "slow", "--wait", "1s", "--", "true"];
    let body = serde_json::json!({
        "name": "slow", "framework": "dask", "profile": "",
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 1, "args": ["--no-such-flag"]}]},
    });
    harness.post("/namespaces/demo/clusters?wait_for=accepted", body).await;
    let given_up = output(&mut muster(&harness, &command));
    let printed = text(&given_up.stderr);
    assert!(matches!(given_up.status.code(), Some(1 | 5)), "{printed}");
    assert!(printed.contains("still incomplete") || printed.contains("is in state ERROR"), "{printed}");
    assert!(output(&mut muster(&harness, &["delete", "slow"])).status.success());
}

#[tokio::test]
async fn packages_of_inline_metadata_and_flags_are_available_to_script_and_tasks() {
    let Some(harness) = start_with("dask").await else { return };
    let file = harness.path().join("job.py");
    let metadata = "# /// script\n# dependencies = [\"six==1.16.0\"]\n# ///\n";
    let script = "import os, six
from dask.distributed import Client
def version():
    import six
    return six.__version__
print('here', six.__version__, 'there', Client(os.environ['DASK_SCHEDULER_ADDRESS']).submit(version).result())
";
    let name = file.to_str().expect("a plain path");
    let wanted = ["run", "--pip", "six==1.16.0", name];
    for (text_of_script, arguments) in
        [(format!("{metadata}{script}"), &["run", name][..]), (script.to_owned(), &wanted)]
    {
        std::fs::write(&file, text_of_script).expect("a script");
        let ran = output(&mut muster(&harness, arguments));
        let (out, printed) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(0), "{out}{printed}");
        assert!(out.contains("here 1.16.0 there 1.16.0"), "{out}{printed}");
    }
    until_no_cluster_is_left(&harness).await;
    let images = harness.get("/namespaces/demo/image_templates").await;
    let images = images["imageTemplates"].as_array().expect("a list").clone();
    assert_eq!(images.len(), 1, "what the first run built is found by the second: {images:?}");
    let name = images[0]["name"].as_str().expect("a name");
    assert!(output(&mut muster(&harness, &["image", "delete", name])).status.success());
}

//! `muster run`: a command with a cluster of its own, whatever ends either.

use std::process::{Command, Output};

use muster_testkit::{Process, eventually, lives};
use rstest::rstest;

use crate::laptop::{Laptop, PATIENCE};
use crate::traces;

/// Scripts that compute something on their cluster and end with status 7.
const DASK: &str = "import os, sys
from dask.distributed import Client
client = Client(os.environ['DASK_SCHEDULER_ADDRESS'])
print('sum', client.submit(sum, [1, 2, 3]).result())
sys.exit(7)
";
const RAY: &str = "import sys, ray
ray.init()
@ray.remote
def add(a, b):
    return a + b
print('sum', ray.get(add.remote(2, 4)))
sys.exit(7)
";
const SPARK: &str = "import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(os.environ['SPARK_MASTER']).getOrCreate()
print('sum', spark.sparkContext.parallelize([1, 2, 3]).sum())
spark.stop()
sys.exit(7)
";

/// A laptop with a framework whose server soon notices that an app is gone.
async fn laptop(framework: &str) -> Option<Laptop> {
    let python = muster_testkit::python(framework).await?;
    let path = python.path().display().to_string();
    Some(Laptop::with(&[("MUSTER_PYTHON", &path), ("MUSTER_APP_GRACE", "1")]).await)
}

/// A command of Muster at this laptop.
fn muster(laptop: &Laptop, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).env("MUSTER_DATA_DIR", laptop.data()).env("MUSTER_NAMESPACE", "demo");
    command.env(traces::MARK, laptop.path()).env_remove("MUSTER_PYTHON").env_remove("VIRTUAL_ENV");
    command.env_remove("POD_NAME").env_remove("APP_EXIT");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("muster runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns when the namespace has no cluster.
async fn nothing_is_left(laptop: &Laptop) {
    eventually("no cluster is left", PATIENCE, async || {
        let left = laptop.get("/namespaces/demo/clusters").await;
        if left["clusters"].as_array().is_none_or(Vec::is_empty) { Ok(()) } else { Err(left) }
    })
    .await;
}

/// A launcher whose command sleeps, once that has begun.
async fn sleeping(laptop: &Laptop, more: &[&str]) -> (Process, i32) {
    running(laptop, more, "echo command $$; exec sleep 600").await
}

/// A launcher whose command is a script, and the process that the script names.
async fn running(laptop: &Laptop, more: &[&str], script: &str) -> (Process, i32) {
    let arguments = [&["run"], more, &["--", "sh", "-c", script]].concat();
    let launcher = Process::spawn("muster", &muster(laptop, &arguments));
    let line = launcher.wait_for_line("command ", PATIENCE).await;
    let pid = line.trim().rsplit(' ').next().and_then(|pid| pid.parse().ok());
    (launcher, pid.expect("a process id"))
}

#[rstest]
#[case("dask", DASK)]
#[case("ray", RAY)]
#[case("spark", SPARK)]
#[tokio::test]
async fn a_script_computes_on_a_cluster_that_ends_with_it(#[case] framework: &str, #[case] script: &str) {
    let Some(laptop) = laptop(framework).await else { return };
    let file = laptop.path().join("job.py");
    std::fs::write(&file, script).expect("a script");
    let file = file.to_str().expect("a plain path");
    let ran = output(&mut muster(&laptop, &["run", "--framework", framework, "--workers", "1", file]));
    let (out, said) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(7), "{out}{said}");
    assert!(out.lines().any(|line| line == "sum 6"), "{out}{said}");
    assert!(!out.contains("cluster"), "its own words are on standard error: {out}");
    for words in ["creating ephemeral cluster", "Using ephemeral cluster", "Deleting cluster", "deleted"] {
        assert!(said.contains(words), "{said}");
    }
    nothing_is_left(&laptop).await;
}

#[tokio::test]
async fn a_command_that_cannot_start_creates_nothing() {
    let Some(laptop) = laptop("dask").await else { return };
    let missing = output(&mut muster(&laptop, &["run", "--", "no-such-command"]));
    assert_eq!(missing.status.code(), Some(127), "{}", text(&missing.stderr));
    let plain = laptop.path().join("plain");
    std::fs::write(&plain, "").expect("a file");
    let refused = output(&mut muster(&laptop, &["run", "--", plain.to_str().expect("a plain path")]));
    assert_eq!(refused.status.code(), Some(126), "{}", text(&refused.stderr));
    let all = laptop.get("/namespaces/demo/clusters?deleted=include").await;
    assert!(all["clusters"].as_array().is_none_or(Vec::is_empty), "{all}");
}

#[tokio::test]
async fn a_killed_launcher_takes_its_command_and_its_cluster_along() {
    let Some(laptop) = laptop("dask").await else { return };
    let (mut launcher, pid) = sleeping(&laptop, &[]).await;
    // The command of this one has a child, which ends with it.
    let child = "sleep 600 & echo the child of the command $!; wait";
    let (mut parent, child) = running(&laptop, &[], child).await;
    for launcher in [&mut launcher, &mut parent] {
        launcher.kill();
        launcher.wait_for_exit(PATIENCE).await;
    }
    nothing_is_left(&laptop).await;
    assert!(!lives(pid), "its command got a signal");
    eventually("the child has ended", PATIENCE, async || if lives(child) { Err(child) } else { Ok(()) })
        .await;
}

#[tokio::test]
async fn a_command_that_is_killed_alone_has_completed() {
    let Some(laptop) = laptop("dask").await else { return };
    let (mut launcher, pid) = sleeping(&laptop, &[]).await;
    traces::kill(pid);
    let status = launcher.wait_for_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(137));
    nothing_is_left(&laptop).await;
}

#[tokio::test]
async fn a_server_that_was_killed_ends_the_cluster_of_a_launcher_that_was_killed_too() {
    let Some(mut laptop) = laptop("dask").await else { return };
    let (mut launcher, pid) = sleeping(&laptop, &[]).await;
    laptop.kill().await;
    launcher.kill();
    launcher.wait_for_exit(PATIENCE).await;
    traces::kill(pid);
    laptop.start().await;
    nothing_is_left(&laptop).await;
}

#[tokio::test]
async fn a_cluster_of_another_app_is_refused_and_a_shared_one_stays() {
    let Some(laptop) = laptop("dask").await else { return };
    let (mut launcher, _) = sleeping(&laptop, &["--cluster", "mine"]).await;
    let other = output(&mut muster(&laptop, &["run", "--cluster", "mine", "--", "true"]));
    assert_eq!(other.status.code(), Some(3), "{}", text(&other.stderr));
    assert!(
        text(&other.stderr).contains("ephemeral cluster belongs to deployment run-"),
        "{}",
        text(&other.stderr)
    );
    launcher.terminate();
    let status = launcher.wait_for_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(143), "{}", launcher.tail());
    assert!(launcher.tail().contains("Received a termination signal"), "{}", launcher.tail());
    nothing_is_left(&laptop).await;

    let first = output(&mut muster(&laptop, &["run", "--cluster", "ours", "--shared", "--", "true"]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("cluster not deleted 'ours'"), "{}", text(&first.stderr));
    let next = output(&mut muster(&laptop, &["run", "--cluster", "ours", "--workers", "3", "--", "true"]));
    let said = text(&next.stderr);
    assert!(said.contains("Found cluster ours") && said.contains("Using shared cluster ours"), "{said}");
    assert!(said.contains("it is used as it is"), "{said}");
    let wrong =
        output(&mut muster(&laptop, &["run", "--cluster", "ours", "--framework", "ray", "--", "true"]));
    assert_eq!(wrong.status.code(), Some(3), "{}", text(&wrong.stderr));
    assert!(output(&mut muster(&laptop, &["delete", "ours"])).status.success());
}

#[tokio::test]
async fn an_incomplete_cluster_is_waited_for_and_then_given_up() {
    let Some(laptop) = laptop("dask").await else { return };
    let command = ["run", "--cluster", "slow", "--wait", "1s", "--", "true"];
    let body = serde_json::json!({
        "name": "slow", "framework": "dask", "profile": "",
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 1, "args": ["--no-such-flag"]}]},
    });
    laptop.post("/namespaces/demo/clusters?wait_for=accepted", body).await;
    let given_up = output(&mut muster(&laptop, &command));
    let said = text(&given_up.stderr);
    assert!(matches!(given_up.status.code(), Some(1 | 5)), "{said}");
    assert!(said.contains("still incomplete") || said.contains("is in state ERROR"), "{said}");
    assert!(output(&mut muster(&laptop, &["delete", "slow"])).status.success());
}

#[tokio::test]
async fn a_script_with_inline_metadata_has_the_packages_that_it_names() {
    let Some(laptop) = laptop("dask").await else { return };
    let file = laptop.path().join("job.py");
    let script = "# /// script\n# dependencies = [\"six==1.16.0\"]\n# ///\nimport os, six
from dask.distributed import Client
def version():
    import six
    return six.__version__
print('here', six.__version__, 'there', Client(os.environ['DASK_SCHEDULER_ADDRESS']).submit(version).result())
";
    std::fs::write(&file, script).expect("a script");
    for _ in 0..2 {
        let ran = output(&mut muster(&laptop, &["run", file.to_str().expect("a plain path")]));
        let (out, said) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(0), "{out}{said}");
        assert!(out.contains("here 1.16.0 there 1.16.0"), "{out}{said}");
    }
    nothing_is_left(&laptop).await;
    let images = laptop.get("/namespaces/demo/image_templates").await;
    let images = images["imageTemplates"].as_array().expect("a list").clone();
    assert_eq!(images.len(), 1, "the second run finds it: {images:?}");
    let name = images[0]["name"].as_str().expect("a name");
    assert!(output(&mut muster(&laptop, &["image", "delete", name])).status.success());
}

//! Spark from end to end, with real drivers.

mod driver;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use muster_testkit::{Python, lives};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, state};
use crate::harness::Harness;
use crate::limits::wait_until_deleted;
use crate::recipes::{dask, spark};
use crate::traces::kill;
use driver::{Driver, master};

/// Starts a harness with Spark; `None` if the test is skipped.
async fn start_with_spark() -> Option<(Harness, Python)> {
    start_with_spark_and_gpus("0").await
}

/// Starts a harness with Spark on a machine with this number of devices; `None` if the test is skipped.
async fn start_with_spark_and_gpus(gpus: &str) -> Option<(Harness, Python)> {
    let python = muster_testkit::python("spark").await?;
    if Command::new("java").arg("-version").output().is_err() {
        muster_testkit::skip("needs Java, and `java` was not found");
        return None;
    }
    let path = python.path().display().to_string();
    Some((Harness::with(&[("MUSTER_PYTHON", &path), ("MUSTER_GPUS", gpus)]).await, python))
}

/// Lists the executors that run on a harness.
fn executors(harness: &Harness) -> Vec<i32> {
    let processes = harness.traces().processes;
    let is_executor = |command: &str| command.contains("CoarseGrainedExecutorBackend");
    processes.into_iter().filter(|(_, command)| is_executor(command)).map(|(pid, _)| pid).collect()
}

/// Lists the folders in a folder, by name.
fn folders(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[tokio::test]
async fn a_job_continues_while_its_cluster_shrinks_and_its_head_restarts() {
    let Some((harness, python)) = start_with_spark().await else { return };
    let created = harness.create(&spark("fred", 2)).await;
    assert_eq!((state(&created), created["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{created}");
    let mut driver = Driver::connect(&harness, &python, "fred").await;
    driver.computes().await;

    driver.begin("squares(40, 0.5)").await;
    driver.until_done_by(2).await;
    let before = harness.workers("fred").await;
    let scaled = harness.scale("fred", 1).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(1)), "{scaled}");
    assert_eq!(driver.answer().await, "20540");
    assert_eq!(driver.begun(), 40, "a worker that leaves finishes what it does");
    let [stayed] = &harness.workers("fred").await[..] else { panic!("one worker stays") };
    for worker in &before {
        assert_eq!(
            lives(worker.pid()),
            worker.pid() == stayed.pid(),
            "{worker:?}, of which {stayed:?} stayed"
        );
    }
    let cluster = harness.data().join("local").join(created["id"].as_str().expect("an id"));
    let written = folders(&cluster.join("kept/executors"));
    assert_eq!(written.len(), 2, "output of removed executors is kept: {written:?}");

    driver.begin("squares(30, 0.5)").await;
    driver.until_done_by(1).await;
    let head = harness.head("fred").await;
    let restarted = harness.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    assert!(!lives(head.pid()) && lives(stayed.pid()), "the worker outlives its head");
    assert!(harness.messages("fred", "WorkersReplaced").await.is_empty());
    assert_eq!(driver.answer().await, "8555");
    let counted = master(&restarted).await;
    assert_eq!((&counted["aliveworkers"], &counted["status"]), (&json!(1), &json!("ALIVE")), "{counted}");
    assert_eq!(counted["activeapps"].as_array().map(Vec::len), Some(1), "{counted}");

    assert_eq!(harness.scale("fred", 2).await["readyWorkers"], 2);
    driver.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn killed_processes_are_restarted_and_an_idle_cluster_is_deleted_after_its_driver() {
    let Some((harness, python)) = start_with_spark().await else { return };
    let created = harness.create(&spark("fred", 1)).await;
    let mut driver = Driver::connect(&harness, &python, "fred").await;
    driver.computes().await;

    let [executor] = executors(&harness)[..] else { panic!("one executor") };
    kill(executor);
    driver.computes().await;
    assert_eq!(harness.messages("fred", "NodeLost").await, Vec::<String>::new(), "that is for Spark to mend");

    let worker = harness.workers("fred").await.remove(0);
    kill(worker.pid());
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    driver.computes().await;

    let worker = harness.workers("fred").await.remove(0);
    kill(harness.head("fred").await.pid());
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 2).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    let cluster = harness.until_active("fred", 1).await;
    assert_eq!(cluster["endpoints"], created["endpoints"]);
    assert!(lives(worker.pid()), "the worker outlives its head");
    driver.computes().await;
    let messages = harness.messages("fred", "NodeLost").await;
    assert!(
        messages.len() == 2 && messages.iter().all(|message| message.contains("signal 9 (SIGKILL)")),
        "{messages:?}"
    );

    let limit = json!({"idle_timeout": "2s"});
    harness.answer(Method::PATCH, &format!("{CLUSTERS}/fred?wait_for=reached"), Some(limit)).await;
    driver.computes().await;
    let used = harness.cluster("fred").await;
    assert_eq!((state(&used), &used["idleSince"]), ("ACTIVE", &Value::Null), "a driver is connected: {used}");
    drop(driver);
    wait_until_deleted(&harness, "fred").await;
    harness.traces().assert_none();
}

#[tokio::test]
async fn clusters_side_by_side_do_not_interfere() {
    let Some((harness, python)) = start_with_spark().await else { return };
    let Some(python_of_dask) = muster_testkit::python("dask").await else { return };
    let mut third = dask("third", 1);
    third["profile_properties"] = json!({"image": python_of_dask.path().display().to_string()});
    let (one, other) = (spark("one", 1), spark("other", 1));
    let (_, _, third) = futures::join!(harness.create(&one), harness.create(&other), harness.create(&third));
    let mut driver = Driver::connect(&harness, &python, "one").await;
    let mut another = Driver::connect(&harness, &python, "other").await;
    let mut client = Client::connect(&python_of_dask, &third).await;
    futures::join!(driver.computes(), another.computes(), client.computes());
    let alone = master(&harness.cluster("one").await).await;
    assert_eq!((&alone["aliveworkers"], alone["activeapps"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    harness.delete("other").await;
    futures::join!(driver.computes(), client.computes());
    harness.delete("third").await;
    driver.computes().await;
    harness.delete_without_trace("one").await;
}

#[tokio::test]
async fn without_java_a_cluster_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    std::fs::write(&python, "#!/bin/sh\necho 4.3.0\necho /site/pyspark\n").unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The PATH has what the server needs, but no Java.
    let path = std::env::var_os("PATH").unwrap();
    let starter = std::env::split_paths(&path).map(|at| at.join("setpriv")).find(|file| file.exists());
    std::os::unix::fs::symlink(starter.unwrap(), folder.path().join("setpriv")).unwrap();
    let nowhere = folder.path().display().to_string();
    let python = python.display().to_string();
    let harness = Harness::with(&[("MUSTER_PYTHON", &python), ("JAVA_HOME", ""), ("PATH", &nowhere)]).await;
    let response = harness.call(Method::POST, CLUSTERS, Some(spark("fred", 1))).await;
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["details"][0]["reason"], "RequirementMissing", "{body}");
    let sentence = body["message"].as_str().unwrap();
    assert!(
        sentence.contains("spark needs Java 17 or newer, but there is no java in JAVA_HOME or PATH"),
        "{sentence}"
    );
    assert!(sentence.contains("apt install openjdk-17-jre-headless"), "{sentence}");
    let clusters = harness.get(CLUSTERS).await;
    assert_eq!(clusters["clusters"].as_array().map_or(0, Vec::len), 0, "nothing is stored");
}

#[tokio::test]
async fn output_of_executors_is_in_the_logs_of_their_workers() {
    let Some((harness, python)) = start_with_spark_and_gpus("1").await else { return };
    let mut cluster = spark("fred", 1);
    cluster["cluster_spec"]["worker_group_spec"][0]["shape"] = json!({"gpu": 1});
    let created = harness.create(&cluster).await;
    let of_worker = master(&created).await["workers"][0]["resources"].clone();
    assert_eq!(of_worker, json!({"gpu": {"name": "gpu", "addresses": ["0"]}}), "{created}");
    let worker = harness.workers("fred").await.remove(0);
    let mut driver = Driver::connect(&harness, &python, "fred").await;
    driver.begin("sc.parallelize([1], 1).map(lambda n: {}['no such', 'key']).collect()").await;
    let failed = driver.answer().await;
    assert!(failed.contains("PythonException"), "{failed}");
    let beginning = format!("{}/app-", worker.name);
    let is_traceback = |line: &str| line.starts_with(&beginning) && line.contains("/executor-0.stderr");
    let check_logs = || {
        let logs = harness.muster(&["logs", "fred", "--node", "worker", "--grep", "KeyError"]);
        assert!(logs.lines().any(is_traceback), "{logs}");
    };
    check_logs();
    drop(driver);
    harness.delete_without_trace("fred").await;
    // The output is stored with the logs of the deleted cluster.
    check_logs();
}

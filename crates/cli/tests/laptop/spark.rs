//! Spark from end to end, with real drivers.

mod driver;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use muster_testkit::{Python, lives};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, state};
use crate::laptop::Laptop;
use crate::limits::gone;
use crate::recipes::{dask, spark};
use crate::traces::kill;
use driver::{Driver, master};

/// One with Spark, or nothing if the test is skipped.
async fn laptop() -> Option<(Laptop, Python)> {
    let python = muster_testkit::python("spark").await?;
    if Command::new("java").arg("-version").output().is_err() {
        muster_testkit::skip("needs Java, and `java` was not found");
        return None;
    }
    let path = python.path().display().to_string();
    Some((Laptop::with(&[("MUSTER_PYTHON", &path)]).await, python))
}

/// The executors that run on a laptop.
fn executors(laptop: &Laptop) -> Vec<i32> {
    let processes = laptop.traces().processes;
    let is_executor = |command: &str| command.contains("CoarseGrainedExecutorBackend");
    processes.into_iter().filter(|(_, command)| is_executor(command)).map(|(pid, _)| pid).collect()
}

/// The folders below one, by name.
fn folders(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[tokio::test]
async fn a_job_goes_on_while_its_cluster_shrinks_and_its_head_is_restarted() {
    let Some((laptop, python)) = laptop().await else { return };
    let created = laptop.create(&spark("fred", 2)).await;
    assert_eq!((state(&created), created["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{created}");
    let mut driver = Driver::connect(&laptop, &python, "fred").await;
    driver.computes().await;

    driver.begin("squares(40, 0.5)").await;
    driver.until_done_by(2).await;
    let before = laptop.workers("fred").await;
    let scaled = laptop.scale("fred", 1).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(1)), "{scaled}");
    assert_eq!(driver.answer().await, "20540");
    assert_eq!(driver.begun(), 40, "a worker that leaves finishes what it does");
    let [stayed] = &laptop.workers("fred").await[..] else { panic!("one worker stays") };
    for worker in &before {
        assert_eq!(
            lives(worker.pid()),
            worker.pid() == stayed.pid(),
            "{worker:?}, of which {stayed:?} stayed"
        );
    }
    let cluster = laptop.data().join("local").join(created["id"].as_str().expect("an id"));
    let written = folders(&cluster.join("kept/executors"));
    assert_eq!(written.len(), 2, "what executors wrote stays, whoever left: {written:?}");

    driver.begin("squares(30, 0.5)").await;
    driver.until_done_by(1).await;
    let head = laptop.head("fred").await;
    let restarted = laptop.restart_head("fred").await;
    assert_eq!(
        (state(&restarted), &restarted["endpoints"]),
        ("ACTIVE", &created["endpoints"]),
        "{restarted}"
    );
    assert!(!lives(head.pid()) && lives(stayed.pid()), "the worker outlives its head");
    assert!(laptop.messages("fred", "WorkersReplaced").await.is_empty());
    assert_eq!(driver.answer().await, "8555");
    let counted = master(&restarted).await;
    assert_eq!((&counted["aliveworkers"], &counted["status"]), (&json!(1), &json!("ALIVE")), "{counted}");
    assert_eq!(counted["activeapps"].as_array().map(Vec::len), Some(1), "{counted}");

    assert_eq!(laptop.scale("fred", 2).await["readyWorkers"], 2);
    driver.computes().await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn what_is_killed_comes_back_and_the_cluster_goes_once_its_driver_has_gone() {
    let Some((laptop, python)) = laptop().await else { return };
    let created = laptop.create(&spark("fred", 1)).await;
    let mut driver = Driver::connect(&laptop, &python, "fred").await;
    driver.computes().await;

    let [executor] = executors(&laptop)[..] else { panic!("one executor") };
    kill(executor);
    driver.computes().await;
    assert_eq!(laptop.messages("fred", "NodeLost").await, Vec::<String>::new(), "that is for Spark to mend");

    let worker = laptop.workers("fred").await.remove(0);
    kill(worker.pid());
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    driver.computes().await;

    let worker = laptop.workers("fred").await.remove(0);
    kill(laptop.head("fred").await.pid());
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 2).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed}");
    let cluster = laptop.until_active("fred", 1).await;
    assert_eq!(cluster["endpoints"], created["endpoints"]);
    assert!(lives(worker.pid()), "the worker outlives its head");
    driver.computes().await;
    let messages = laptop.messages("fred", "NodeLost").await;
    assert!(
        messages.len() == 2 && messages.iter().all(|message| message.contains("signal 9 (SIGKILL)")),
        "{messages:?}"
    );

    let limit = json!({"idle_timeout": "2s"});
    laptop.answer(Method::PATCH, &format!("{CLUSTERS}/fred?wait_for=reached"), Some(limit)).await;
    driver.computes().await;
    let used = laptop.cluster("fred").await;
    assert_eq!((state(&used), &used["idleSince"]), ("ACTIVE", &Value::Null), "a driver is there: {used}");
    drop(driver);
    gone(&laptop, "fred").await;
    laptop.traces().are_none();
}

#[tokio::test]
async fn clusters_side_by_side_do_not_disturb_each_other() {
    let Some((laptop, python)) = laptop().await else { return };
    let Some(python_of_dask) = muster_testkit::python("dask").await else { return };
    let mut third = dask("third", 1);
    third["profile_properties"] = json!({"image": python_of_dask.path().display().to_string()});
    let (one, other) = (spark("one", 1), spark("other", 1));
    let (_, _, third) = futures::join!(laptop.create(&one), laptop.create(&other), laptop.create(&third));
    let mut driver = Driver::connect(&laptop, &python, "one").await;
    let mut another = Driver::connect(&laptop, &python, "other").await;
    let mut client = Client::connect(&python_of_dask, &third).await;
    futures::join!(driver.computes(), another.computes(), client.computes());
    let alone = master(&laptop.cluster("one").await).await;
    assert_eq!((&alone["aliveworkers"], alone["activeapps"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    laptop.delete("other").await;
    futures::join!(driver.computes(), client.computes());
    laptop.delete("third").await;
    driver.computes().await;
    laptop.delete_without_trace("one").await;
}

#[tokio::test]
async fn without_java_a_cluster_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    std::fs::write(&python, "#!/bin/sh\necho 4.3.0\necho /site/pyspark\n").unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    // What starts the server is there, and no Java.
    let path = std::env::var_os("PATH").unwrap();
    let starter = std::env::split_paths(&path).map(|at| at.join("setpriv")).find(|file| file.exists());
    std::os::unix::fs::symlink(starter.unwrap(), folder.path().join("setpriv")).unwrap();
    let nowhere = folder.path().display().to_string();
    let python = python.display().to_string();
    let laptop = Laptop::with(&[("MUSTER_PYTHON", &python), ("JAVA_HOME", ""), ("PATH", &nowhere)]).await;
    let response = laptop.call(Method::POST, CLUSTERS, Some(spark("fred", 1))).await;
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["details"][0]["reason"], "RequirementMissing", "{body}");
    let sentence = body["message"].as_str().unwrap();
    assert!(
        sentence.contains("spark needs Java 17 or newer, and there is no java in JAVA_HOME or PATH"),
        "{sentence}"
    );
    assert!(sentence.contains("apt install openjdk-17-jre-headless"), "{sentence}");
    let clusters = laptop.get(CLUSTERS).await;
    assert_eq!(clusters["clusters"].as_array().map_or(0, Vec::len), 0, "nothing is stored");
}

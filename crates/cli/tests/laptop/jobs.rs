//! Jobs: commands that use a cluster and survive their submitter and the server.

use std::process::{Command, Output};

use muster_testkit::Process;
use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Harness, TIMEOUT};

/// Returns a cluster of plain processes without any: a job needs only that it exists.
fn plain(name: &str) -> Value {
    json!({
        "name": name,
        "profile": "local.process-1.0",
        "profile_properties": {"command": ["sleep", "1000"]},
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 0}]},
    })
}

async fn with_cluster(name: &str) -> Harness {
    let harness = Harness::bare().await;
    harness.post("/namespaces/default/clusters?wait_for=reached", plain(name)).await;
    harness
}

fn command(harness: &Harness, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).current_dir(harness.path()).env("MUSTER_DATA_DIR", harness.data());
    command.env("MUSTER_NO_AUTOSTART", "1").env_remove("MUSTER_PYTHON").env_remove("VIRTUAL_ENV");
    command.env_remove("MUSTER_NAMESPACE").env_remove("PYTHONPATH");
    command
}

fn muster(harness: &Harness, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command(harness, arguments).output().expect("muster runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// Submits a line of the shell and returns the printed name.
fn submit(harness: &Harness, cluster: &str, line: &str) -> String {
    let (code, out, printed) = muster(harness, &["job", "submit", cluster, "--", "sh", "-c", line]);
    assert_eq!(code, Some(0), "{out}{printed}");
    out.trim().to_owned()
}

fn show(harness: &Harness, job: &str) -> Value {
    let (code, out, printed) = muster(harness, &["job", "show", job, "-o", "json"]);
    assert_eq!(code, Some(0), "{out}{printed}");
    serde_json::from_str(&out).expect("JSON")
}

/// Deletes the cluster, so that nothing is left at the end of the test.
fn delete(harness: &Harness, cluster: &str) {
    let deleted = muster(harness, &["delete", cluster]);
    assert_eq!(deleted.0, Some(0), "{deleted:?}");
}

/// Lists the reasons of a cluster's events.
async fn reasons(harness: &Harness, cluster: &str) -> Vec<String> {
    let events = harness.get(&format!("/namespaces/default/clusters/{cluster}/events")).await;
    let events = events["events"].as_array().expect("events").iter();
    events.map(|event| event["reason"].as_str().expect("a reason").to_owned()).collect()
}

#[tokio::test]
async fn a_job_has_an_exit_status_a_reason_and_its_last_lines() {
    let harness = with_cluster("fred").await;
    std::fs::write(harness.path().join("data.csv"), "1,2\n").unwrap();
    let line = "cat data.csv; echo $MUSTER_CLUSTER $GREETING; exit 7";
    let submitted =
        ["job", "submit", "fred", "--name", "report", "--env", "GREETING=hello", "--", "sh", "-c", line];
    let (code, out, printed) = muster(&harness, &submitted);
    assert_eq!((code, out.as_str()), (Some(0), "report\n"), "{printed}");
    let (code, _, printed) = muster(&harness, &["job", "wait", "report"]);
    assert_eq!(code, Some(7), "{printed}");
    assert!(printed.contains("job 'report' FAILED: Its command exited with code 7."), "{printed}");
    let job = show(&harness, "report");
    assert_eq!((&job["exitCode"], &job["lastLines"]), (&json!(7), &json!("1,2\nfred hello")), "{job}");
    assert!(job.get("envs").is_none(), "variables may be secret: {job}");
    let (code, out, _) = muster(&harness, &["job", "logs", "report"]);
    assert_eq!((code, out.as_str()), (Some(0), "1,2\nfred hello\n"));
    let (_, out, _) = muster(&harness, &["job", "logs", "report", "--tail", "1"]);
    assert_eq!(out, "fred hello\n");
    assert!(reasons(&harness, "fred").await.iter().any(|reason| reason == "JobFailed"));

    let taken = muster(&harness, &submitted);
    assert_eq!(taken.0, Some(3), "{taken:?}");
    let id = job["id"].as_str().unwrap();
    let by_id = muster(&harness, &["job", "wait", &id[..24]]);
    assert_eq!(by_id.0, Some(7), "{by_id:?}");
    let (code, _, printed) = muster(&harness, &["job", "submit", "fred", "--", "no-such-command"]);
    assert_eq!(code, Some(0), "{printed}");
    let (_, out, _) = muster(&harness, &["job", "list", "-o", "name"]);
    let newest = out.lines().next().expect("a job").to_owned();
    let (code, _, printed) = muster(&harness, &["job", "wait", &newest]);
    assert_eq!(code, Some(127), "{printed}");
    let starts = reasons(&harness, "fred").await.iter().filter(|reason| *reason == "JobStarted").count();
    assert_eq!(starts, 1, "a command that does not exist was never started");
    assert_eq!(muster(&harness, &["job", "show", "nothing"]).0, Some(4));
    let (code, _, printed) = muster(&harness, &["job", "logs", "nothing"]);
    assert!(code == Some(4) && !printed.contains("the job continues"), "{printed}");
    assert_eq!(muster(&harness, &["job", "submit", "nothing", "--", "true"]).0, Some(4));
    delete(&harness, "fred");
}

#[tokio::test]
async fn a_followed_job_ends_with_its_status_after_all_output() {
    let harness = with_cluster("fred").await;
    let line = "for i in $(seq 2000); do echo line $i; done; exit 3";
    let (code, out, printed) =
        muster(&harness, &["job", "submit", "fred", "--follow", "--", "sh", "-c", line]);
    assert_eq!(code, Some(3), "{printed}");
    assert_eq!(out.lines().count(), 2000, "{printed}");
    assert!(out.ends_with("line 2000\n"));
    delete(&harness, "fred");
}

#[tokio::test]
async fn an_interrupted_submit_says_that_the_job_continues() {
    let harness = with_cluster("fred").await;
    let arguments = [
        "job",
        "submit",
        "fred",
        "--name",
        "one",
        "--follow",
        "--",
        "sh",
        "-c",
        "echo begun; exec sleep 1000",
    ];
    let mut submit = Process::spawn("muster", &command(&harness, &arguments));
    submit.wait_for_line("begun", TIMEOUT).await;
    let pid = submit.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("it runs");
    kill_process(pid, Signal::INT).expect("it runs");
    assert_eq!(submit.wait_for_exit(TIMEOUT).await.code(), Some(130));
    let printed = std::fs::read_to_string(submit.log()).unwrap();
    assert!(
        printed.contains("`muster job logs one -f`") && printed.contains("`muster job stop one`"),
        "{printed}"
    );
    assert_eq!(show(&harness, "one")["state"], "RUNNING");
    delete(&harness, "fred");
}

#[tokio::test]
async fn a_job_survives_its_server_and_its_end_is_recorded_later() {
    let mut harness = with_cluster("fred").await;
    let (go, count) = (harness.path().join("go"), harness.path().join("count"));
    let line = format!(
        "echo begun; echo x >> {}; until test -e {}; do sleep 0.05; done; echo done; exit 5",
        count.display(),
        go.display()
    );
    let running = submit(&harness, "fred", &line);
    let quick = submit(&harness, "fred", &line);
    for job in [&running, &quick] {
        let log = Process::spawn("muster", &command(&harness, &["job", "logs", job, "-f"]));
        log.wait_for_line("begun", TIMEOUT).await;
        assert_eq!(show(&harness, job)["state"], "RUNNING");
    }
    // Both continue, and end while no server runs.
    harness.kill().await;
    std::fs::write(&go, "").unwrap();
    harness.start().await;
    for job in [&running, &quick] {
        let (code, _, printed) = muster(&harness, &["job", "wait", job]);
        assert_eq!(code, Some(5), "{printed}");
        assert_eq!(show(&harness, job)["lastLines"], "begun\ndone");
    }
    std::fs::remove_file(&go).unwrap();
    let third = submit(&harness, "fred", &line);
    let log = Process::spawn("muster", &command(&harness, &["job", "logs", &third, "-f"]));
    log.wait_for_line("begun", TIMEOUT).await;
    // This one continues under the next server and is not started again.
    harness.kill_and_start_again().await;
    assert_eq!(show(&harness, &third)["state"], "RUNNING");
    std::fs::write(&go, "").unwrap();
    assert_eq!(muster(&harness, &["job", "wait", &third]).0, Some(5));
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\nx\n", "a command ran twice");
    delete(&harness, "fred");
}

#[tokio::test]
async fn a_followed_log_continues_at_the_next_server() {
    let mut harness = with_cluster("fred").await;
    let go = harness.path().join("go");
    let line = format!("echo begun; until test -e {}; do sleep 0.05; done; echo done; exit 5", go.display());
    let job = submit(&harness, "fred", &line);
    let mut log = Process::spawn("muster", &command(&harness, &["job", "logs", &job, "-f"]));
    log.wait_for_line("begun", TIMEOUT).await;
    let running = show(&harness, &job);
    assert_eq!((&running["state"], &running["lastLines"]), (&json!("RUNNING"), &json!("begun")), "{running}");
    harness.kill_and_start_again().await;
    std::fs::write(&go, "").unwrap();
    log.wait_for_line("done", TIMEOUT).await;
    assert!(log.wait_for_exit(TIMEOUT).await.success());
    let printed = std::fs::read_to_string(log.log()).unwrap();
    assert_eq!(printed.matches("begun").count(), 1, "{printed}");
    let (code, out, _) = muster(&harness, &["job", "list", "-A"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("NAMESPACE  NAME"), "{out}");
    let (_, out, _) = muster(&harness, &["job", "list", "-A", "-o", "name"]);
    assert_eq!(out, format!("default/{job}\n"));
    delete(&harness, "fred");
}

#[tokio::test]
async fn a_stopped_job_ends_by_a_signal() {
    let harness = with_cluster("fred").await;
    let job = submit(&harness, "fred", "echo begun; exec sleep 1000");
    let log = Process::spawn("muster", &command(&harness, &["job", "logs", &job, "-f"]));
    log.wait_for_line("begun", TIMEOUT).await;
    let (code, _, printed) = muster(&harness, &["job", "stop", &job]);
    assert_eq!(code, Some(0), "{printed}");
    let stopped = show(&harness, &job);
    assert_eq!((&stopped["state"], &stopped["exitCode"]), (&json!("STOPPED"), &json!(143)), "{stopped}");
    assert!(stopped["statusReason"].as_str().unwrap().starts_with("It was stopped by "), "{stopped}");
    assert_eq!(muster(&harness, &["job", "wait", &job]).0, Some(143));
    // A second stop changes nothing.
    assert_eq!(muster(&harness, &["job", "stop", &job]).0, Some(0));
    let (_, open, _) = muster(&harness, &["job", "list", "--open", "-o", "name"]);
    assert_eq!(open, "");
    delete(&harness, "fred");
}

#[tokio::test]
async fn a_job_ends_with_its_cluster() {
    let harness = with_cluster("fred").await;
    let job = submit(&harness, "fred", "echo begun; exec sleep 1000");
    let log = Process::spawn("muster", &command(&harness, &["job", "logs", &job, "-f"]));
    log.wait_for_line("begun", TIMEOUT).await;
    delete(&harness, "fred");
    let (code, _, printed) = muster(&harness, &["job", "wait", &job]);
    assert_eq!(code, Some(143), "{printed}");
    assert!(printed.contains("FAILED: Its cluster 'fred' was deleted"), "{printed}");
}

#[tokio::test]
async fn a_cluster_created_for_a_job_is_deleted_with_it_even_if_the_server_is_killed() {
    let mut harness = Harness::bare().await;
    let go = harness.path().join("go");
    let line =
        format!("echo on $MUSTER_CLUSTER; until test -e {}; do sleep 0.05; done; exit 4", go.display());
    let request = json!({
        "job": {"name": "once", "command": ["sh", "-c", line]},
        "new_cluster": {"cluster": plain("")},
    });
    let job = harness.post("/namespaces/default/jobs", request.clone()).await;
    assert_eq!((&job["cluster"], &job["ownsCluster"]), (&json!("once"), &json!(true)), "{job}");
    let log = Process::spawn("muster", &command(&harness, &["job", "logs", "once", "-f"]));
    log.wait_for_line("on once", TIMEOUT).await;
    for command in [&["get"][..], &["get", "once"], &["describe", "once"]] {
        let (_, out, _) = muster(&harness, command);
        assert!(out.contains("job/once") && !out.contains("<shared>"), "{out}");
    }
    // If the name is in use, no second cluster is left.
    let again = harness.call(Method::POST, "/namespaces/default/jobs", Some(request)).await;
    assert_eq!(again.status(), StatusCode::CONFLICT);
    harness.kill().await;
    std::fs::write(&go, "").unwrap();
    harness.start().await;
    assert_eq!(muster(&harness, &["job", "wait", "once"]).0, Some(4));
    let (code, _, printed) = muster(&harness, &["wait", "once", "--for", "deleted", "--timeout", "2m"]);
    assert_eq!(code, Some(0), "{printed}");
    let clusters = harness.get("/namespaces/default/clusters").await;
    assert!(clusters["clusters"].as_array().is_none_or(Vec::is_empty), "{clusters}");
    assert!(reasons(&harness, "once").await.iter().any(|reason| reason == "DeletedWithJob"));
}

#[tokio::test]
async fn a_python_file_uses_the_cluster_that_was_created_for_it() {
    let Some((harness, _python)) = Harness::with_dask().await else { return };
    let script = "from dask.distributed import Client\nprint('sum', Client().submit(sum, [1, 2]).result())\n";
    std::fs::write(harness.path().join("job.py"), script).unwrap();
    let arguments = ["job", "submit", "--framework", "dask", "--workers", "1", "--follow", "--", "job.py"];
    let (code, out, printed) = muster(&harness, &arguments);
    assert_eq!(code, Some(0), "{out}{printed}");
    assert!(out.contains("sum 3"), "{out}{printed}");
    let (_, clusters, _) = muster(&harness, &["get", "-o", "name"]);
    for cluster in clusters.lines() {
        let waited = muster(&harness, &["wait", cluster, "--for", "deleted", "--timeout", "2m"]);
        assert_eq!(waited.0, Some(0), "{waited:?}");
    }
}

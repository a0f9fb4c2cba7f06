//! Scaled-down workers finish their tasks, and idle ones are removed first.

use muster_testkit::{Python, eventually, lives};
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{CLUSTERS, Member, reason, state};
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::dask;
use crate::traces::freeze;

/// Tasks that record their executions and run until the gate is opened.
const GATED: &str = r#"
import os, time
from dask.distributed import Client
client, folder = Client(sys.argv[1]), sys.argv[2]
def gated(n):
    with open(f"{folder}/executions", "a") as executions:
        executions.write(f"{n}\n")
    while not os.path.exists(f"{folder}/gate"):
        time.sleep(0.02)
    return n
def workers():
    return client.scheduler_info(n_workers=-1)["workers"]
def address(name):
    return next(address for address, worker in workers().items() if worker["name"] == name)
def executing():
    counts = {worker["name"]: worker["metrics"].get("task_counts", {}) for worker in workers().values()}
    return sorted(name for name, counts in counts.items() if counts.get("executing"))
"#;

/// A program whose tasks delay a scale-down.
struct Job {
    client: Client,
    folder: std::path::PathBuf,
}

impl Job {
    async fn connect(harness: &Harness, python: &Python, cluster: &Value) -> Self {
        let folder = harness.path().join("job");
        std::fs::create_dir(&folder).expect("a folder");
        let address = cluster["endpoints"]["address"].as_str().expect("an address");
        let arguments = [address, folder.to_str().expect("a text")];
        Self { client: Client::start(python.command(), GATED, &arguments).await, folder }
    }

    /// Occupies a worker with a task.
    async fn occupy(&mut self, worker: &Member, number: usize) {
        let name = &worker.name;
        let submit =
            format!("client.submit(gated, {number}, workers=[address('{name}')], allow_other_workers=True)");
        self.client.run(&format!("kept.update({{{number}: {submit}}})")).await;
    }

    /// Waits until a line of Python has this result.
    async fn until(&mut self, line: &str, expected: &str) {
        let client = tokio::sync::Mutex::new(&mut self.client);
        eventually(line, TIMEOUT, async || {
            let answer = client.lock().await.run(line).await;
            if answer == expected { Ok(()) } else { Err(answer) }
        })
        .await;
    }

    /// Lets all tasks end.
    fn open_gate(&self) {
        std::fs::write(self.folder.join("gate"), "").expect("a file");
    }

    /// Returns the number of each task, once per execution.
    fn executions(&self) -> Vec<usize> {
        let text = std::fs::read_to_string(self.folder.join("executions")).expect("a file");
        let mut numbers: Vec<usize> = text.lines().map(|line| line.parse().expect("a number")).collect();
        numbers.sort_unstable();
        numbers
    }
}

fn names(workers: &[Member]) -> Vec<&str> {
    workers.iter().map(|worker| worker.name.as_str()).collect()
}

#[tokio::test]
async fn dask_removes_idle_workers_first_and_busy_ones_after_their_tasks() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 4)).await;
    let mut job = Job::connect(&harness, &python, &created).await;
    let workers = harness.workers("fred").await;
    let [one, idle, other, idle_too] = &workers[..] else { panic!("four workers") };
    job.occupy(one, 0).await;
    job.occupy(other, 1).await;
    let busy = [one.clone(), other.clone()];
    job.until("executing()", &format!("{:?}", names(&busy)).replace('"', "'")).await;

    let scaled = harness.scale("fred", 2).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{scaled}");
    let stayed = harness.workers("fred").await;
    assert_eq!(names(&stayed), names(&busy), "{idle:?} and {idle_too:?} had nothing to do");

    // Now both are busy, and more tasks wait.
    job.client.run("kept.update(more=client.map(gated, range(2, 8)))").await;
    let open = async {
        let drains = "sorted({worker['status'] for worker in workers().values()})";
        job.until(drains, "['closing_gracefully', 'running']").await;
        job.open_gate();
    };
    let (scaled, ()) = tokio::join!(harness.scale("fred", 1), open);
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(1)), "{scaled}");
    let sum = "sum(client.gather([kept[0], kept[1], *kept['more']]))";
    assert_eq!(job.client.run(sum).await, "28");
    assert_eq!(job.executions(), (0..8).collect::<Vec<_>>(), "each task is executed exactly once");
    drop(job);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn an_update_replaces_busy_workers_one_by_one_and_loses_no_task() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 2)).await;
    let mut job = Job::connect(&harness, &python, &created).await;
    let workers = harness.workers("fred").await;
    assert_eq!(names(&workers), ["fred-worker-1", "fred-worker-2"]);
    let shims: Vec<i32> = workers.iter().map(Member::shim).collect();
    for (number, worker) in workers.iter().enumerate() {
        job.occupy(worker, number).await;
    }
    job.until("len(executing())", "2").await;
    harness.begin_update("fred", "restart=workers", &json!({"envs": {"A": "1"}})).await;
    job.until(
        "sorted(worker['status'] for worker in workers().values())",
        "['closing_gracefully', 'running']",
    )
    .await;
    let draining = harness
        .until("fred", |cluster| reason(cluster).starts_with("fred-worker-1: draining: waiting for 1 task ("))
        .await;
    assert_eq!(state(&draining), "UPDATING", "{draining}");
    job.open_gate();
    let updated = harness.until_ended("fred", "CLUSTER_UPDATE", 1).await;
    assert_eq!(updated["status"], "SUCCEEDED", "{updated}");
    assert_eq!(job.client.run("sum(client.gather([kept[0], kept[1]]))").await, "1");
    assert_eq!(job.executions(), [0, 1], "each task is executed exactly once");
    let replaced = harness.workers("fred").await;
    assert_eq!(names(&replaced), names(&workers), "a replaced worker keeps its name");
    assert!(replaced.iter().all(|worker| !shims.contains(&worker.shim())), "each has another process");
    let row = harness.cluster("fred").await;
    assert_eq!(row["outdatedNodes"], json!(["fred-head"]), "{row}");
    let shown = harness.muster(&["nodes", "fred"]);
    let outdated: Vec<&str> = shown.lines().filter(|line| line.contains("ACTIVE,outdated")).collect();
    assert!(matches!(outdated[..], [head] if head.starts_with("fred-head ")), "{shown}");
    drop(job);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn workers_keep_their_numbers_and_free_numbers_are_reused() {
    let Some((harness, _)) = Harness::with_dask().await else { return };
    harness.create(&dask("fred", 3)).await;
    let workers = harness.workers("fred").await;
    assert_eq!(names(&workers), ["fred-worker-1", "fred-worker-2", "fred-worker-3"]);
    let preview = json!({"envs": {"A": "1"}});
    let preview = harness.post(&format!("{CLUSTERS}/fred/preview_update"), preview).await;
    assert_eq!(preview["replacedNodes"].as_array().map(Vec::len), Some(4), "{preview}");
    assert_eq!(preview["replacesHead"], true, "{preview}");
    harness.scale("fred", 1).await;
    let stayed = harness.workers("fred").await;
    harness.scale("fred", 3).await;
    let mut again = harness.workers("fred").await;
    again.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(names(&again), names(&workers));
    assert_eq!(again.iter().filter(|worker| worker.shim() == stayed[0].shim()).count(), 1);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_drain_is_completed_by_the_next_server() {
    let Some((mut harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let mut job = Job::connect(&harness, &python, &created).await;
    let worker = harness.workers("fred").await.remove(0);
    job.occupy(&worker, 0).await;
    job.until("executing()", &format!("{:?}", names(std::slice::from_ref(&worker))).replace('"', "'")).await;
    harness.begin_scale("fred", 0).await;
    job.until("sorted({worker['status'] for worker in workers().values()})", "['closing_gracefully']").await;
    harness.kill().await;
    // The head and the worker, each with its shim.
    eventually("the end of the drain", TIMEOUT, async || {
        let left = harness.traces().processes;
        if left.len() == 4 { Ok(()) } else { Err(format!("{left:#?}")) }
    })
    .await;
    harness.start().await;
    job.open_gate();
    harness.until_active("fred", 0).await;
    assert_eq!(job.executions(), [0], "its task was executed once");
    drop(job);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_worker_whose_drain_is_cancelled_does_not_stay_idle() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 2)).await;
    let mut job = Job::connect(&harness, &python, &created).await;
    for (number, worker) in harness.workers("fred").await.iter().enumerate() {
        job.occupy(worker, number).await;
    }
    job.until("len(executing())", "2").await;
    let scale = harness.begin_scale("fred", 1).await;
    let statuses = "sorted(worker['status'] for worker in workers().values())";
    job.until(statuses, "['closing_gracefully', 'running']").await;
    harness.cancel(&scale).await;

    // The cluster should have one worker: the draining one is removed after its task.
    let events = harness.until_event("fred", "NodeLost").await;
    assert!(events[0].starts_with("its head drained it"), "{events:?}");
    job.open_gate();
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed:#}");
    harness.until_active("fred", 1).await;
    job.until(statuses, "['running']").await;
    assert_eq!(job.client.run("client.gather([kept[0], kept[1]])").await, "[0, 1]");
    assert_eq!(job.executions(), [0, 1], "each task is executed exactly once");
    drop(job);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_worker_that_its_head_has_lost_is_replaced() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let mut cluster = dask("fred", 2);
    // A scheduler waits five minutes by default.
    cluster["envs"] = json!({"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"});
    let created = harness.create(&cluster).await;
    let mut client = Client::connect(&python, &created).await;
    let frozen = harness.workers("fred").await.remove(0);
    freeze(frozen.pid());
    let events = harness.until_event("fred", "NodeLost").await;
    assert_eq!(events, ["its process is running, but its head no longer counts it as a worker"]);
    let healed = harness.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed:#}");
    harness.until_active("fred", 2).await;
    assert!(!lives(frozen.pid()), "its process is replaced");
    client.computes().await;
    drop(client);
    harness.delete_without_trace("fred").await;
}

//! Workers that are scaled away finish what they do, and idle ones go first.

use muster_testkit::{Python, eventually, lives};
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::{Member, state};
use crate::laptop::{Laptop, PATIENCE};
use crate::recipes::dask;
use crate::traces::freeze;

/// Tasks that record each of their executions, and run until the gate is opened.
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

/// A program whose tasks are in the way of a scale-in.
struct Job {
    client: Client,
    folder: std::path::PathBuf,
}

impl Job {
    async fn connect(laptop: &Laptop, python: &Python, cluster: &Value) -> Self {
        let folder = laptop.path().join("job");
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

    /// Waits until a line of Python comes to this.
    async fn until(&mut self, line: &str, expected: &str) {
        let client = tokio::sync::Mutex::new(&mut self.client);
        eventually(line, PATIENCE, async || {
            let answer = client.lock().await.run(line).await;
            if answer == expected { Ok(()) } else { Err(answer) }
        })
        .await;
    }

    /// Lets all tasks end.
    fn open_gate(&self) {
        std::fs::write(self.folder.join("gate"), "").expect("a file");
    }

    /// The numbers of tasks, as often as each was executed.
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
async fn dask_lets_idle_workers_go_first_and_busy_ones_once_their_tasks_have_ended() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 4)).await;
    let mut job = Job::connect(&laptop, &python, &created).await;
    let workers = laptop.workers("fred").await;
    let [one, idle, other, idle_too] = &workers[..] else { panic!("four workers") };
    job.occupy(one, 0).await;
    job.occupy(other, 1).await;
    let busy = [one.clone(), other.clone()];
    job.until("executing()", &format!("{:?}", names(&busy)).replace('"', "'")).await;

    let scaled = laptop.scale("fred", 2).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{scaled}");
    let stayed = laptop.workers("fred").await;
    assert_eq!(names(&stayed), names(&busy), "{idle:?} and {idle_too:?} had nothing to do");

    // Now both are busy, and more is waiting.
    job.client.run("kept.update(more=client.map(gated, range(2, 8)))").await;
    let open = async {
        let drains = "sorted({worker['status'] for worker in workers().values()})";
        job.until(drains, "['closing_gracefully', 'running']").await;
        job.open_gate();
    };
    let (scaled, ()) = tokio::join!(laptop.scale("fred", 1), open);
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(1)), "{scaled}");
    let sum = "sum(client.gather([kept[0], kept[1], *kept['more']]))";
    assert_eq!(job.client.run(sum).await, "28");
    assert_eq!(job.executions(), (0..8).collect::<Vec<_>>(), "each task is executed exactly once");
    drop(job);
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_drain_ends_with_the_server_that_began_it_and_the_next_one_completes_it() {
    let Some((mut laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 1)).await;
    let mut job = Job::connect(&laptop, &python, &created).await;
    let worker = laptop.workers("fred").await.remove(0);
    job.occupy(&worker, 0).await;
    job.until("executing()", &format!("{:?}", names(std::slice::from_ref(&worker))).replace('"', "'")).await;
    laptop.begin_scale("fred", 0).await;
    job.until("sorted({worker['status'] for worker in workers().values()})", "['closing_gracefully']").await;
    laptop.kill().await;
    // The head and the worker, each under its shim.
    eventually("the end of the drain", PATIENCE, async || {
        let left = laptop.traces().processes;
        if left.len() == 4 { Ok(()) } else { Err(format!("{left:#?}")) }
    })
    .await;
    laptop.start().await;
    job.open_gate();
    laptop.until_active("fred", 0).await;
    assert_eq!(job.executions(), [0], "its task was executed once");
    drop(job);
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_worker_whose_drain_is_cancelled_does_not_stay_without_work() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let created = laptop.create(&dask("fred", 2)).await;
    let mut job = Job::connect(&laptop, &python, &created).await;
    for (number, worker) in laptop.workers("fred").await.iter().enumerate() {
        job.occupy(worker, number).await;
    }
    job.until("len(executing())", "2").await;
    let scale = laptop.begin_scale("fred", 1).await;
    let statuses = "sorted(worker['status'] for worker in workers().values())";
    job.until(statuses, "['closing_gracefully', 'running']").await;
    laptop.cancel(&scale).await;

    // The cluster is to have one worker, so the one that takes no work goes, once its task has ended.
    let events = laptop.until_event("fred", "NodeLost").await;
    assert!(events[0].starts_with("its head was asked to drain it"), "{events:?}");
    job.open_gate();
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed:#}");
    laptop.until_active("fred", 1).await;
    job.until(statuses, "['running']").await;
    assert_eq!(job.client.run("client.gather([kept[0], kept[1]])").await, "[0, 1]");
    assert_eq!(job.executions(), [0, 1], "each task is executed exactly once");
    drop(job);
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_worker_that_its_head_has_lost_is_replaced() {
    let Some((laptop, python)) = Laptop::with_dask().await else { return };
    let mut cluster = dask("fred", 2);
    // Otherwise a scheduler waits for five minutes.
    cluster["envs"] = json!({"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"});
    let created = laptop.create(&cluster).await;
    let mut client = Client::connect(&python, &created).await;
    let frozen = laptop.workers("fred").await.remove(0);
    freeze(frozen.pid());
    let events = laptop.until_event("fred", "NodeLost").await;
    assert_eq!(events, ["it runs, and its head does not count it any more: the head has lost it"]);
    let healed = laptop.until_ended("fred", "CLUSTER_RECOVER", 1).await;
    assert_eq!(healed["status"], "SUCCEEDED", "{healed:#}");
    laptop.until_active("fred", 2).await;
    assert!(!lives(frozen.pid()), "its process is replaced");
    client.computes().await;
    drop(client);
    laptop.delete_without_trace("fred").await;
}

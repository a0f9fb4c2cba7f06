//! Ray from end to end, with real drivers.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testkit::{Python, eventually, lives};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::clusters::{CLUSTERS, Member, state};
use crate::harness::{Harness, TIMEOUT};
use crate::limits::wait_until_deleted;
use crate::recipes::ray;
use crate::traces::kill;

/// Serialises the clusters: Ray gives up on a node that takes 30 seconds to start, which happens on two cores if others start
/// at the same time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A user's program, which finds its cluster by environment variables.
const DRIVER: &str = r#"
import os, time, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(*sys.argv[1:], log_to_driver=False)
@ray.remote
def square(n):
    return n * n
@ray.remote(max_retries=0)
def once(n):
    time.sleep(3)
    return n * n, ray.get_runtime_context().get_node_id()
@ray.remote
class Keeper:
    def word(self):
        return "kept"
@ray.remote
def large(n):
    return bytes([n]) * 20_000_000
def alive():
    return [node for node in ray.nodes() if node["Alive"]]
def named(name):
    # With several groups, a number that differs for every start follows.
    return next(node["NodeID"] for node in alive() if node["NodeName"].split("~")[0] == name)
def held_by(name, n):
    held = large.options(scheduling_strategy=On(named(name), soft=True)).remote(n)
    ray.wait([held], fetch_local=False)
    return held
"#;

/// Starts a program with the variables that `muster env` prints.
async fn driver(harness: &Harness, python: &Python, name: &str) -> Client {
    Client::start(with_environment(harness, python, name).await, DRIVER, &[]).await
}

async fn with_environment(harness: &Harness, python: &Python, name: &str) -> Command {
    let environment = harness.get(&format!("{CLUSTERS}/{name}/environment")).await;
    let variables = environment["variables"].as_object().expect("variables").clone();
    let mut command = python.command();
    command.envs(variables.iter().map(|(name, value)| (name, value.as_str().expect("a text"))));
    command
}

async fn computes(driver: &mut Client) {
    assert_eq!(driver.run("sum(ray.get([square.remote(n) for n in range(20)]))").await, "2470");
}

/// Scales one group at a time, since the names of groups are those of the test.
async fn scale(harness: &Harness, name: &str, group: &str, replicas: u32) -> Value {
    let body =
        json!({"group_name": group, "replicas": replicas, "wait_for": "reached", "wait_timeout": "180s"});
    harness.post(&format!("{CLUSTERS}/{name}/scale"), body).await
}

/// Returns the secret that clients get.
async fn secret(harness: &Harness, name: &str) -> String {
    let environment = harness.get(&format!("{CLUSTERS}/{name}/environment")).await;
    environment["variables"]["RAY_AUTH_TOKEN"].as_str().expect("a secret").to_owned()
}

/// Submits a job by HTTP, as `ray job submit` does, and returns its output.
async fn submit(harness: &Harness, name: &str, dashboard: &str, entrypoint: &str) -> String {
    let (client, secret) = (reqwest::Client::new(), secret(harness, name).await);
    let jobs = format!("{dashboard}/api/jobs/");
    let submitted = client.post(&jobs).bearer_auth(&secret).json(&json!({"entrypoint": entrypoint}));
    let submitted: Value = submitted.send().await.expect("an answer").json().await.expect("JSON");
    let job = format!("{jobs}{}", submitted["submission_id"].as_str().expect("an id"));
    let get = async |path: &str| -> Value {
        let answer = client.get(format!("{job}{path}")).bearer_auth(&secret).send().await;
        answer.expect("an answer").json().await.expect("JSON")
    };
    let status = eventually("the end of the job", TIMEOUT, async || {
        let status = get("").await["status"].as_str().unwrap_or_default().to_owned();
        if matches!(status.as_str(), "PENDING" | "RUNNING") { Err(status) } else { Ok(status) }
    });
    let status = status.await;
    let logs = get("/logs").await["logs"].as_str().unwrap_or_default().to_owned();
    assert_eq!(status, "SUCCEEDED", "{logs}");
    logs
}

async fn healed(harness: &Harness, name: &str, times: usize) {
    let action = harness.until_ended(name, "CLUSTER_RECOVER", times).await;
    assert_eq!(action["status"], "SUCCEEDED", "{action:#}\n{:#?}", harness.list(name, "events").await);
}

/// Lists files that Ray leaves in its default folders.
fn leftover_files() -> Vec<PathBuf> {
    let entries = |folder: &str| {
        let found = std::fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
        found.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let of_ray = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name == "ray" || name.starts_with("plasma") || name.starts_with("pymp-")
    };
    entries("/tmp").into_iter().chain(entries("/dev/shm")).filter(of_ray).collect()
}

/// Returns the child process of this name.
fn child(parent: i32, name: &str) -> i32 {
    let numbers = std::fs::read_dir("/proc").expect("processes").flatten();
    let is_it = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(") ") else { return false };
        head.ends_with(&format!("({name}")) && rest.split(' ').nth(1) == Some(&parent.to_string())
    };
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(is_it).unwrap_or_else(|| panic!("process {parent} has a {name}"))
}

fn pids(members: &[Member]) -> Vec<i32> {
    members.iter().map(Member::pid).collect()
}

#[tokio::test]
async fn a_cluster_of_two_groups_computes_shrinks_during_a_job_and_is_deleted() {
    let _turn = TURN.lock().await;
    let Some(python) = muster_testkit::python("ray").await else { return };
    let path = python.path().display().to_string();
    let harness = Harness::with(&[("MUSTER_PYTHON", &path), ("MUSTER_GPUS", "1")]).await;
    let before = leftover_files();
    let mut cluster = ray("fred", &[("small", 1), ("large", 1)]);
    let shape = json!({"cpu": "2", "memory": "1Gi", "gpu": 1});
    cluster["cluster_spec"]["worker_group_spec"][1]["shape"] = shape;
    let created = harness.create(&cluster).await;
    assert_eq!((state(&created), created["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{created}");

    // A client with the variables computes; one with only the address does not.
    let mut driver = driver(&harness, &python, "fred").await;
    computes(&mut driver).await;
    let sizes =
        "sorted(tuple(int(node['Resources'].get(what, 0)) for what in ('CPU', 'GPU')) for node in alive())";
    assert_eq!(driver.run(sizes).await, "[(0, 0), (1, 0), (2, 1)]");
    let memory = "[int(node['Resources']['memory']) for node in alive() if node['Resources'].get('GPU')]";
    assert_eq!(driver.run(memory).await, "[1073741824]");
    let [dashboard, client] =
        ["dashboard", "client"].map(|name| created["endpoints"][name].as_str().expect("an endpoint"));
    let anonymous = reqwest::get(format!("{dashboard}/api/v0/nodes")).await.unwrap();
    assert_eq!(anonymous.status(), 401);

    // Other ways to connect.
    let program = r#"python -c "import ray; print('the sum is', sum(ray.get([ray.remote(abs).remote(-n) for n in range(9)])))""#;
    let printed = submit(
        &harness,
        "fred",
        dashboard,
        &program.replace("ray.remote(abs)", "ray.remote(lambda n: abs(n))"),
    )
    .await;
    assert!(printed.contains("the sum is 36"), "{printed}");
    let remote = with_environment(&harness, &python, "fred").await;
    let mut remote = Client::start(remote, DRIVER, &[client]).await;
    computes(&mut remote).await;
    drop(remote);
    harness.listens_on_loopback_only();

    // Tasks without retries run to their end; stored objects are reconstructed on demand.
    assert_eq!(scale(&harness, "fred", "small", 2).await["readyWorkers"], 3);
    let workers = harness.workers("fred").await;
    for (number, worker) in workers.iter().enumerate() {
        driver.run(&format!("kept.update({{{number}: held_by('{}', {number})}})", worker.name)).await;
    }
    driver.run("kept.update(job=[once.remote(n) for n in range(20)])").await;
    driver.run("ray.wait(kept['job'], num_returns=4)").await;
    let scaled = scale(&harness, "fred", "small", 1).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{scaled}");
    driver.run("kept.update(done=ray.get(kept['job']))").await;
    assert_eq!(driver.run("sum(square for square, _ in kept['done'])").await, "2470");
    assert_eq!(driver.run("len({node for _, node in kept['done']})").await, "3", "one of them is gone");
    assert_eq!(driver.run("[ray.get(kept[n])[-1] for n in range(3)]").await, "[0, 1, 2]");
    let stayed = harness.workers("fred").await;
    for worker in &workers {
        assert_eq!(lives(worker.pid()), pids(&stayed).contains(&worker.pid()), "{worker:?}");
    }
    let prints = "ray.get(ray.remote(lambda: print('a word of a task')).remote())";
    assert_eq!(driver.run(prints).await, "None");
    drop(driver);
    harness.delete_without_trace("fred").await;
    assert_eq!(leftover_files(), before);
    let logs = harness.muster(&["logs", "fred", "--grep", "a word of a task"]);
    assert!(logs.lines().any(|line| line.starts_with("fred-head/worker-")), "{logs}");
}

#[tokio::test]
async fn a_killed_process_of_a_node_is_observed_and_the_node_restarted() {
    let _turn = TURN.lock().await;
    let Some((harness, python)) = Harness::with_framework("ray").await else { return };
    let created = harness.create(&ray("fred", &[("default", 2)])).await;
    let mut first = driver(&harness, &python, "fred").await;
    computes(&mut first).await;
    let known = secret(&harness, "fred").await;

    // Kill the first process of one node, and one in the middle of another.
    let [one, other] = &harness.workers("fred").await[..] else { panic!("two workers") };
    kill(one.pid());
    healed(&harness, "fred", 1).await;
    computes(&mut first).await;
    kill(child(other.pid(), "raylet"));
    healed(&harness, "fred", 2).await;
    assert!(!lives(one.pid()) && !lives(other.pid()));
    computes(&mut first).await;
    let events = harness.messages("fred", "NodeLost").await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("it was ended by signal 9 (SIGKILL)"), "{events:?}");
    assert!(events[1].starts_with("it exited with code 1") && events[1].contains("raylet"), "{events:?}");

    // The head's workers end with it, and all return at the same address with the same secret.
    let before = harness.workers("fred").await;
    kill(harness.head("fred").await.pid());
    healed(&harness, "fred", 3).await;
    drop(first);
    let again = harness.until_active("fred", 2).await;
    assert_eq!(again["endpoints"], created["endpoints"]);
    assert_eq!(secret(&harness, "fred").await, known);
    assert!(!pids(&before).into_iter().any(lives), "a new head knows nothing of them");
    computes(&mut driver(&harness, &python, "fred").await).await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn two_clusters_side_by_side_do_not_interfere() {
    let _turn = TURN.lock().await;
    let Some((harness, python)) = Harness::with_framework("ray").await else { return };
    let (left, right) = (ray("left", &[("default", 1)]), ray("right", &[("default", 1)]));
    let (left, right) = tokio::join!(harness.create(&left), harness.create(&right));
    assert_eq!((state(&left), state(&right)), ("ACTIVE", "ACTIVE"), "{left} {right}");
    assert_ne!(secret(&harness, "left").await, secret(&harness, "right").await);
    let mut one = driver(&harness, &python, "left").await;
    let mut other = driver(&harness, &python, "right").await;
    assert_eq!(one.run("len(alive())").await, "2", "it sees its own nodes only");
    computes(&mut one).await;
    drop(one);
    let theirs = [harness.workers("right").await, vec![harness.head("right").await]].concat();

    // Killing the supervisor of a head ends all its processes, including renamed ones.
    kill(harness.head("left").await.shim());
    healed(&harness, "left", 1).await;
    computes(&mut driver(&harness, &python, "left").await).await;
    let restarted = harness.restart_head("left").await;
    assert_eq!((state(&restarted), &restarted["endpoints"]), ("ACTIVE", &left["endpoints"]), "{restarted}");
    computes(&mut driver(&harness, &python, "left").await).await;
    computes(&mut other).await;

    // The idle cluster is deleted; the other stays while something runs there, even without a connected client.
    other
        .run(
            "kept.update(keeper=Keeper.options(name='keeper', namespace='us', lifetime='detached').remote())",
        )
        .await;
    assert_eq!(other.run("ray.get(kept['keeper'].word.remote())").await, "kept");
    drop(other);
    for name in ["right", "left"] {
        let limit = Some(json!({"idle_timeout": "3s"}));
        harness.answer(Method::PATCH, &format!("{CLUSTERS}/{name}?wait_for=reached"), limit).await;
    }
    wait_until_deleted(&harness, "left").await;
    let present = harness.cluster("right").await;
    assert_eq!((state(&present), &present["idleSince"]), ("ACTIVE", &Value::Null), "{present}");
    assert!(pids(&theirs).into_iter().all(lives), "{theirs:?}");
    let mut last = driver(&harness, &python, "right").await;
    computes(&mut last).await;
    last.run("ray.kill(ray.get_actor('keeper', namespace='us'))").await;
    // A driver that exits at once may lose its request to end the actor.
    let named = "ray.util.list_named_actors(all_namespaces=True)";
    eventually("the end of the actor", TIMEOUT, async || {
        let actors = last.run(named).await;
        if actors == "[]" { Ok(()) } else { Err(actors) }
    })
    .await;
    drop(last);
    wait_until_deleted(&harness, "right").await;
    harness.traces().assert_none();
}

#[tokio::test]
async fn a_worker_whose_drain_is_cancelled_is_removed_all_the_same() {
    let _turn = TURN.lock().await;
    let Some((harness, python)) = Harness::with_framework("ray").await else { return };
    harness.create(&ray("fred", &[("default", 1)])).await;
    let mut driver = driver(&harness, &python, "fred").await;
    driver.run("kept.update(keeper=Keeper.options(num_cpus=1).remote())").await;
    assert_eq!(driver.run("ray.get(kept['keeper'].word.remote())").await, "kept");
    // The actor keeps the drain from completing.
    let worker = harness.workers("fred").await.remove(0);
    let scale = harness.begin_scale("fred", 0).await;
    worker.until_draining().await;
    harness.cancel(&scale).await;
    let events = harness.until_event("fred", "NodeLost").await;
    assert!(events[0].starts_with("its head drained it"), "{events:?}");
    driver.run("ray.kill(kept['keeper'])").await;
    healed(&harness, "fred", 1).await;
    assert_eq!(pids(&harness.workers("fred").await), Vec::<i32>::new());
    drop(driver);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn output_of_tasks_is_in_the_logs_of_the_cluster() {
    let _turn = TURN.lock().await;
    let Some((harness, python)) = Harness::with_framework("ray").await else { return };
    harness.create(&ray("fred", &[("small", 1)])).await;
    let mut driver = driver(&harness, &python, "fred").await;
    let printed = "ray.get(ray.remote(lambda: print('a word of', 'a task', flush=True)).remote())";
    assert_eq!(driver.run(printed).await, "None");
    let logs = harness.muster(&["logs", "fred", "--grep", "a word of a task"]);
    let line = logs.lines().next().unwrap_or_default();
    assert!(line.starts_with("fred-head/worker-") && line.contains(".out"), "{logs}");
    drop(driver);
    harness.delete_without_trace("fred").await;
}

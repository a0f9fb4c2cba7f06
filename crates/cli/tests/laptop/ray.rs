//! Ray from end to end, with real drivers.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testkit::{Python, eventually, lives};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::clusters::{CLUSTERS, Member, state};
use crate::laptop::{Laptop, PATIENCE};
use crate::limits::gone;
use crate::recipes::ray;
use crate::traces::kill;

/// One cluster after the other: Ray gives up on a node that takes 30 seconds to start, which on two cores it does next to
/// others that start.
static TURN: Mutex<()> = Mutex::const_new(());

/// What a user's program has: the variables that it was given say where its cluster is.
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
    return next(node["NodeID"] for node in alive() if node["NodeName"] == name)
def held_by(name, n):
    held = large.options(scheduling_strategy=On(named(name), soft=True)).remote(n)
    ray.wait([held], fetch_local=False)
    return held
"#;

/// Somebody whose program has the variables that `muster env` prints.
async fn driver(laptop: &Laptop, python: &Python, name: &str) -> Client {
    Client::start(with_environment(laptop, python, name).await, DRIVER, &[]).await
}

async fn with_environment(laptop: &Laptop, python: &Python, name: &str) -> Command {
    let environment = laptop.get(&format!("{CLUSTERS}/{name}/environment")).await;
    let variables = environment["variables"].as_object().expect("variables").clone();
    let mut command = python.command();
    command.envs(variables.iter().map(|(name, value)| (name, value.as_str().expect("a text"))));
    command
}

async fn computes(driver: &mut Client) {
    assert_eq!(driver.run("sum(ray.get([square.remote(n) for n in range(20)]))").await, "2470");
}

/// One after the other, because the names of groups are those of the test.
async fn scale(laptop: &Laptop, name: &str, group: &str, replicas: u32) -> Value {
    let body =
        json!({"group_name": group, "replicas": replicas, "wait_for": "reached", "wait_timeout": "180s"});
    laptop.post(&format!("{CLUSTERS}/{name}/scale"), body).await
}

/// The secret as a client has it.
async fn secret(laptop: &Laptop, name: &str) -> String {
    let environment = laptop.get(&format!("{CLUSTERS}/{name}/environment")).await;
    environment["variables"]["RAY_AUTH_TOKEN"].as_str().expect("a secret").to_owned()
}

/// Submits a job by HTTP, as `ray job submit` does, and shows what it wrote.
async fn submit(laptop: &Laptop, name: &str, dashboard: &str, entrypoint: &str) -> String {
    let (client, secret) = (reqwest::Client::new(), secret(laptop, name).await);
    let jobs = format!("{dashboard}/api/jobs/");
    let submitted = client.post(&jobs).bearer_auth(&secret).json(&json!({"entrypoint": entrypoint}));
    let submitted: Value = submitted.send().await.expect("an answer").json().await.expect("JSON");
    let job = format!("{jobs}{}", submitted["submission_id"].as_str().expect("an id"));
    let get = async |path: &str| -> Value {
        let answer = client.get(format!("{job}{path}")).bearer_auth(&secret).send().await;
        answer.expect("an answer").json().await.expect("JSON")
    };
    let status = eventually("the end of the job", PATIENCE, async || {
        let status = get("").await["status"].as_str().unwrap_or_default().to_owned();
        if matches!(status.as_str(), "PENDING" | "RUNNING") { Err(status) } else { Ok(status) }
    });
    let status = status.await;
    let logs = get("/logs").await["logs"].as_str().unwrap_or_default().to_owned();
    assert_eq!(status, "SUCCEEDED", "{logs}");
    logs
}

async fn healed(laptop: &Laptop, name: &str, times: usize) {
    let action = laptop.until_ended(name, "CLUSTER_RECOVER", times).await;
    assert_eq!(action["status"], "SUCCEEDED", "{action:#}\n{:#?}", laptop.list(name, "events").await);
}

/// What Ray itself leaves on a machine, wherever it was told to write.
fn litter() -> Vec<PathBuf> {
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

/// The process of this name below another.
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
async fn a_cluster_of_two_groups_computes_shrinks_in_the_middle_of_a_job_and_goes() {
    let _turn = TURN.lock().await;
    let Some(python) = muster_testkit::python("ray").await else { return };
    let path = python.path().display().to_string();
    let laptop = Laptop::with(&[("MUSTER_PYTHON", &path), ("MUSTER_GPUS", "1")]).await;
    let before = litter();
    let mut cluster = ray("fred", &[("small", 1), ("large", 1)]);
    let shape = json!({"cpu": "2", "memory": "1Gi", "gpu": 1});
    cluster["cluster_spec"]["worker_group_spec"][1]["shape"] = shape;
    let created = laptop.create(&cluster).await;
    assert_eq!((state(&created), created["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{created}");

    // Whoever has the variables computes; whoever has only the address does not.
    let mut driver = driver(&laptop, &python, "fred").await;
    computes(&mut driver).await;
    let sizes =
        "sorted(tuple(int(node['Resources'].get(what, 0)) for what in ('CPU', 'GPU')) for node in alive())";
    assert_eq!(driver.run(sizes).await, "[(0, 0), (1, 0), (2, 1)]");
    let memory = "[int(node['Resources']['memory']) for node in alive() if node['Resources'].get('GPU')]";
    assert_eq!(driver.run(memory).await, "[1073741824]");
    let [dashboard, client] =
        ["dashboard", "client"].map(|name| created["endpoints"][name].as_str().expect("an endpoint"));
    let stranger = reqwest::get(format!("{dashboard}/api/v0/nodes")).await.unwrap();
    assert_eq!(stranger.status(), 401);

    // The other ways in.
    let program = r#"python -c "import ray; print('the sum is', sum(ray.get([ray.remote(abs).remote(-n) for n in range(9)])))""#;
    let said = submit(
        &laptop,
        "fred",
        dashboard,
        &program.replace("ray.remote(abs)", "ray.remote(lambda n: abs(n))"),
    )
    .await;
    assert!(said.contains("the sum is 36"), "{said}");
    let remote = with_environment(&laptop, &python, "fred").await;
    let mut remote = Client::start(remote, DRIVER, &[client]).await;
    computes(&mut remote).await;
    drop(remote);
    laptop.listens_on_loopback_only();

    // Tasks that may not be tried twice run to their end; what is only held is there again for whoever wants it.
    assert_eq!(scale(&laptop, "fred", "small", 2).await["readyWorkers"], 3);
    let workers = laptop.workers("fred").await;
    for (number, worker) in workers.iter().enumerate() {
        driver.run(&format!("kept.update({{{number}: held_by('{}', {number})}})", worker.name)).await;
    }
    driver.run("kept.update(job=[once.remote(n) for n in range(20)])").await;
    driver.run("ray.wait(kept['job'], num_returns=4)").await;
    let scaled = scale(&laptop, "fred", "small", 1).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{scaled}");
    driver.run("kept.update(done=ray.get(kept['job']))").await;
    assert_eq!(driver.run("sum(square for square, _ in kept['done'])").await, "2470");
    assert_eq!(driver.run("len({node for _, node in kept['done']})").await, "3", "one of them is gone");
    assert_eq!(driver.run("[ray.get(kept[n])[-1] for n in range(3)]").await, "[0, 1, 2]");
    let stayed = laptop.workers("fred").await;
    for worker in &workers {
        assert_eq!(lives(worker.pid()), pids(&stayed).contains(&worker.pid()), "{worker:?}");
    }
    drop(driver);
    laptop.delete_without_trace("fred").await;
    assert_eq!(litter(), before);
}

#[tokio::test]
async fn whatever_of_a_node_is_killed_is_seen_and_comes_back_where_it_was() {
    let _turn = TURN.lock().await;
    let Some((laptop, python)) = Laptop::with_framework("ray").await else { return };
    let created = laptop.create(&ray("fred", &[("default", 2)])).await;
    let mut first = driver(&laptop, &python, "fred").await;
    computes(&mut first).await;
    let known = secret(&laptop, "fred").await;

    // The first process of one, and one in the middle of another.
    let [one, other] = &laptop.workers("fred").await[..] else { panic!("two workers") };
    kill(one.pid());
    healed(&laptop, "fred", 1).await;
    computes(&mut first).await;
    kill(child(other.pid(), "raylet"));
    healed(&laptop, "fred", 2).await;
    assert!(!lives(one.pid()) && !lives(other.pid()));
    computes(&mut first).await;
    let events = laptop.messages("fred", "NodeLost").await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("it was ended by signal 9 (SIGKILL)"), "{events:?}");
    assert!(events[1].starts_with("it exited with code 1") && events[1].contains("raylet"), "{events:?}");

    // The head takes its workers along, and all come back at the same address with the same secret.
    let before = laptop.workers("fred").await;
    kill(laptop.head("fred").await.pid());
    healed(&laptop, "fred", 3).await;
    drop(first);
    let again = laptop.until_active("fred", 2).await;
    assert_eq!(again["endpoints"], created["endpoints"]);
    assert_eq!(secret(&laptop, "fred").await, known);
    assert!(!pids(&before).into_iter().any(lives), "a new head knows nothing of them");
    computes(&mut driver(&laptop, &python, "fred").await).await;
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn two_clusters_side_by_side_do_not_disturb_each_other() {
    let _turn = TURN.lock().await;
    let Some((laptop, python)) = Laptop::with_framework("ray").await else { return };
    let (left, right) = (ray("left", &[("default", 1)]), ray("right", &[("default", 1)]));
    let (left, right) = tokio::join!(laptop.create(&left), laptop.create(&right));
    assert_eq!((state(&left), state(&right)), ("ACTIVE", "ACTIVE"), "{left} {right}");
    assert_ne!(secret(&laptop, "left").await, secret(&laptop, "right").await);
    let mut one = driver(&laptop, &python, "left").await;
    let mut other = driver(&laptop, &python, "right").await;
    assert_eq!(one.run("len(alive())").await, "2", "it sees its own nodes only");
    computes(&mut one).await;
    drop(one);
    let theirs = [laptop.workers("right").await, vec![laptop.head("right").await]].concat();

    // Everything below a head whose supervisor is killed goes, also what hides by another name.
    kill(laptop.head("left").await.shim());
    healed(&laptop, "left", 1).await;
    computes(&mut driver(&laptop, &python, "left").await).await;
    let restarted = laptop.restart_head("left").await;
    assert_eq!((state(&restarted), &restarted["endpoints"]), ("ACTIVE", &left["endpoints"]), "{restarted}");
    computes(&mut driver(&laptop, &python, "left").await).await;
    computes(&mut other).await;

    // The one that nobody uses goes; the other stays for as long as something runs there, though nobody is connected.
    other
        .run(
            "kept.update(keeper=Keeper.options(name='keeper', namespace='us', lifetime='detached').remote())",
        )
        .await;
    assert_eq!(other.run("ray.get(kept['keeper'].word.remote())").await, "kept");
    drop(other);
    for name in ["right", "left"] {
        let limit = Some(json!({"idle_timeout": "3s"}));
        laptop.answer(Method::PATCH, &format!("{CLUSTERS}/{name}?wait_for=reached"), limit).await;
    }
    gone(&laptop, "left").await;
    let present = laptop.cluster("right").await;
    assert_eq!((state(&present), &present["idleSince"]), ("ACTIVE", &Value::Null), "{present}");
    assert!(pids(&theirs).into_iter().all(lives), "{theirs:?}");
    let mut last = driver(&laptop, &python, "right").await;
    computes(&mut last).await;
    last.run("ray.kill(ray.get_actor('keeper', namespace='us'))").await;
    // A driver that leaves at once may take its request to end the actor with it.
    let named = "ray.util.list_named_actors(all_namespaces=True)";
    eventually("the end of the actor", PATIENCE, async || {
        let actors = last.run(named).await;
        if actors == "[]" { Ok(()) } else { Err(actors) }
    })
    .await;
    drop(last);
    gone(&laptop, "right").await;
    laptop.traces().are_none();
}

#[tokio::test]
async fn a_worker_whose_drain_is_cancelled_goes_all_the_same() {
    let _turn = TURN.lock().await;
    let Some((laptop, python)) = Laptop::with_framework("ray").await else { return };
    laptop.create(&ray("fred", &[("default", 1)])).await;
    let mut driver = driver(&laptop, &python, "fred").await;
    driver.run("kept.update(keeper=Keeper.options(num_cpus=1).remote())").await;
    assert_eq!(driver.run("ray.get(kept['keeper'].word.remote())").await, "kept");
    // The actor keeps the drain from its end.
    let worker = laptop.workers("fred").await.remove(0);
    let scale = laptop.begin_scale("fred", 0).await;
    worker.until_draining().await;
    laptop.cancel(&scale).await;
    let events = laptop.until_event("fred", "NodeLost").await;
    assert!(events[0].starts_with("its head was asked to drain it"), "{events:?}");
    driver.run("ray.kill(kept['keeper'])").await;
    healed(&laptop, "fred", 1).await;
    assert_eq!(pids(&laptop.workers("fred").await), Vec::<i32>::new());
    drop(driver);
    laptop.delete_without_trace("fred").await;
}

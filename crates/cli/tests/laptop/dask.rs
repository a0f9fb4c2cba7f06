//! Dask from end to end, with a real client.

use std::collections::BTreeSet;

use muster_testkit::lives;
use reqwest::{Method, Response};
use serde_json::json;

use crate::client::Client;
use crate::clusters::state;
use crate::harness::{Harness, TIMEOUT};
use crate::recipes::dask;

#[tokio::test]
async fn a_cluster_computes_grows_and_shrinks_without_losing_data_and_is_deleted() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 2)).await;
    assert_eq!((state(&created), created["readyWorkers"].as_i64()), ("ACTIVE", Some(2)), "{created}");
    let mut client = Client::connect(&python, &created).await;
    client.computes().await;
    assert_eq!(harness.scale("fred", 5).await["readyWorkers"], 5);
    assert_eq!(client.run("len(client.scheduler_info(n_workers=-1)['workers'])").await, "5");
    client.run("kept.update(parts=client.scatter(list(range(50))))").await;
    let held = "len([1 for keys in client.has_what().values() if keys])";
    assert_eq!(client.run(held).await, "5", "every worker holds a part");
    let before = harness.workers("fred").await;
    assert_eq!(harness.scale("fred", 1).await["readyWorkers"], 1);
    assert_eq!(client.run("sum(client.gather(kept['parts']))").await, "1225");
    let [stayed] = &harness.workers("fred").await[..] else { panic!("one worker stays") };
    for worker in before {
        assert_eq!(
            lives(worker.pid()),
            worker.pid() == stayed.pid(),
            "{worker:?}, of which {stayed:?} stayed"
        );
    }
    let names = "[worker['name'] for worker in client.scheduler_info(n_workers=-1)['workers'].values()]";
    assert_eq!(client.run(names).await, format!("['{}']", stayed.name));
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cluster_has_its_address_and_its_logs() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let dashboard = created["endpoints"]["dashboard"].as_str().expect("a dashboard");
    assert!(dashboard.starts_with("http://127.0.0.1:"), "{dashboard}");
    let health = dashboard.replace("/status", "/health");
    assert_eq!(reqwest::get(health).await.unwrap().text().await.unwrap(), "ok");
    let environment = harness.get("/namespaces/demo/clusters/fred/environment").await;
    assert_eq!(environment["variables"]["DASK_SCHEDULER_ADDRESS"], created["endpoints"]["address"]);
    assert_eq!(environment["variables"]["MUSTER_CLUSTER"], "fred");
    let head = text(logs(&harness, "").await).await;
    assert!(head.contains("Scheduler at:"), "{head}");
    let name = harness.workers("fred").await[0].name.clone();
    let mut followed = logs(&harness, &format!("?node={name}&follow=true")).await;
    let mut client = Client::connect(&python, &created).await;
    client.run("client.run(lambda: print('a word of the worker'))").await;
    let followed_text = async {
        let mut followed_text = String::new();
        while !followed_text.contains("a word of the worker") {
            followed_text +=
                &String::from_utf8_lossy(&followed.chunk().await.expect("a chunk").expect("more"));
        }
    };
    tokio::time::timeout(TIMEOUT, followed_text).await.expect("new output is streamed at once");
    let last = text(logs(&harness, &format!("?node={name}&tail=1")).await).await;
    assert_eq!(last.matches("\\n").count(), 1, "one line, and no more: {last}");
    harness.delete_without_trace("fred").await;
    let mut kept = walk(&harness.data().join("logs"));
    kept.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    assert_eq!(kept.len(), 2, "the logs of head and worker stay: {kept:?}");
    let stored = text(logs(&harness, &format!("?node={name}")).await).await;
    assert!(stored.contains("a word of the worker"), "{stored}");
}

async fn logs(harness: &Harness, query: &str) -> Response {
    let response =
        harness.call(Method::GET, &format!("/namespaces/demo/clusters/fred/logs{query}"), None).await;
    assert!(response.status().is_success(), "{response:?}");
    response
}

async fn text(response: Response) -> String {
    tokio::time::timeout(TIMEOUT, response.text()).await.expect("it ends").expect("a text")
}

fn walk(folder: &std::path::Path) -> BTreeSet<std::path::PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let below = if path.is_dir() { walk(&path) } else { BTreeSet::from([path]) };
        found.extend(below);
    }
    found
}

#[tokio::test]
async fn settings_of_a_cluster_reach_its_nodes() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let mut cluster = dask("fred", 1);
    cluster["envs"] = json!({"GREETING": "hello"});
    cluster["cluster_spec"]["worker_group_spec"][0]["args"] = json!(["--resources", "GPU=2"]);
    cluster["cluster_spec"]["worker_group_spec"][0]["shape"] = json!({"cpu": "2", "memory": "1Gi"});
    let created = harness.create(&cluster).await;
    let mut client = Client::connect(&python, &created).await;
    let worker = "next(iter(client.scheduler_info(n_workers=-1)['workers'].values()))";
    let line = format!("(lambda w: (w['nthreads'], w['memory_limit'], w['resources']))({worker})");
    assert_eq!(client.run(&line).await, "(2, 1073741824, {'GPU': 2.0})");
    let greeting = "client.submit(lambda: __import__('os').environ['GREETING']).result()";
    assert_eq!(client.run(greeting).await, "hello");
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn an_update_reaches_running_nodes() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let mut cluster = dask("fred", 1);
    cluster["envs"] = json!({"GREETING": "hello", "OLD": "1"});
    harness.create(&cluster).await;
    let patch = async |body: serde_json::Value| {
        let path = "/namespaces/demo/clusters/fred?wait_for=reached";
        let answer = harness.call(Method::PATCH, path, Some(body)).await;
        let status = answer.status();
        (status, answer.json::<serde_json::Value>().await.expect("JSON"))
    };
    let (status, updated) = patch(json!({"envs": {"GREETING": "bye"}})).await;
    assert_eq!((status.as_u16(), state(&updated)), (200, "ACTIVE"), "{updated}");
    assert_eq!(updated["envs"], json!({"GREETING": "bye"}));
    let head = json!({"environment": {"ROLE": "head"}, "shape": {"cpu": "1"}});
    let (status, updated) = patch(json!({"cluster_spec": {"head_group_spec": head}})).await;
    assert_eq!((status.as_u16(), state(&updated)), (200, "ACTIVE"), "{updated}");
    assert_eq!(updated["clusterSpec"]["headGroupSpec"], head);
    let workers = json!([{"group_name": "default", "shape": {"memory": "2Gi"}}]);
    let (status, updated) = patch(json!({"cluster_spec": {"worker_group_spec": workers}})).await;
    assert_eq!((status.as_u16(), state(&updated)), (200, "ACTIVE"), "{updated}");
    let mut client = Client::connect(&python, &updated).await;
    let memory =
        "[worker['memory_limit'] for worker in client.scheduler_info(n_workers=-1)['workers'].values()]";
    assert_eq!(client.run(memory).await, "[2147483648]", "the update is reached once the worker has it");
    let variables = "[__import__('os').environ.get(name) for name in ('GREETING', 'OLD', 'ROLE')]";
    let of_worker = format!("client.submit(lambda: {variables}).result()");
    assert_eq!(client.run(&of_worker).await, "['bye', None, None]");
    let of_head = format!("client.run_on_scheduler(lambda: {variables})");
    assert_eq!(client.run(&of_head).await, "['bye', None, 'head']");
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_cluster_shrinks_to_no_workers_and_grows_again() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let created = harness.create(&dask("fred", 1)).await;
    let mut client = Client::connect(&python, &created).await;
    client.run("kept.update(parts=client.scatter(list(range(5))))").await;
    let scaled = harness.scale("fred", 0).await;
    assert_eq!((state(&scaled), scaled["readyWorkers"].as_i64()), ("ACTIVE", Some(0)), "{scaled}");
    assert_eq!(harness.scale("fred", 1).await["readyWorkers"], 1);
    client.computes().await;
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn every_worker_has_its_own_accelerator() {
    let Some(python) = muster_testkit::python("dask").await else { return };
    let path = python.path().display().to_string();
    let harness = Harness::with(&[("MUSTER_PYTHON", &path), ("MUSTER_GPUS", "3")]).await;
    let mut visible = BTreeSet::new();
    for (name, workers) in [("fred", 2), ("bob", 1)] {
        let mut cluster = dask(name, workers);
        cluster["cluster_spec"]["worker_group_spec"][0]["shape"] = json!({"gpu": 1});
        let mut client = Client::connect(&python, &harness.create(&cluster).await).await;
        let devices = "sorted(client.run(lambda: __import__('os').environ['CUDA_VISIBLE_DEVICES']).values())";
        visible.insert(client.run(devices).await);
        let resources = "{str(worker['resources']) for worker in client.scheduler_info(n_workers=-1)['workers'].values()}";
        assert_eq!(client.run(resources).await, "{\"{'GPU': 1.0}\"}");
    }
    assert_eq!(visible, BTreeSet::from(["['0', '1']".to_owned(), "['2']".to_owned()]));
    harness.delete("fred").await;
    harness.delete_without_trace("bob").await;
}

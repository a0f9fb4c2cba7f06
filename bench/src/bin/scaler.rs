//! The scaler API: reads compared with the same SELECTs without it, and scaling compared with a plain GET and PATCH.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use muster_bench::bed::{Bed, run_each, wait_for_rows};
use muster_bench::database;
use muster_bench::figures::{at_most, median, milliseconds, ratio, report};
use muster_bench::reads::{self, ReadFlags, ReadFloor};
use muster_bench::server::{self, Server};
use muster_testkit::{FakeDomino, Operator};
use rusqlite::params;
use serde_json::{Value, json};

/// Reads and scaling of the scaler API
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    flags: ReadFlags,
}

/// The number of clusters on the list.
const CLUSTERS: u32 = 200;

/// The number of clusters that are read one by one.
const READ: u32 = 50;

/// The number of clusters that are scaled, and of scalings of each.
const SCALED: u32 = 50;
const ROUNDS: u32 = 6;

/// The commits of one scaling: accept, claim with the decision, acknowledge.
const COMMITS: u32 = 3;

/// The namespace of the clusters, and that of the plain client, which Muster does not watch.
const OURS: &str = "domino-compute";
const BARE: &str = "bare";

/// The admin of the fake Domino.
const ADMIN: &str = "root-token";

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(8);

fn main() -> Result<()> {
    Args::parse().flags.run(LIMIT, measure)
}

async fn measure(muster: &Path) -> Result<()> {
    let bed = Bed::start(true, Operator::Domino).await?;
    let domino = FakeDomino::start().await;
    for namespace in [OURS, BARE] {
        bed.add_namespace(namespace).await?;
        let objects = clusters(&bed, namespace);
        run_each(CLUSTERS, |number| create(objects.clone(), number)).await?;
    }
    let folder = server::folder()?;
    let kubernetes = Some((bed.kubeconfig(), OURS));
    let server = Server::start_for_domino(muster, folder.path(), kubernetes, &domino.url()).await?;
    wait_for_rows(folder.path(), CLUSTERS, 0).await?;
    scale(&bed, &server, folder.path()).await?;
    drop(server);
    read(muster, folder.path(), &domino).await
}

fn clusters(bed: &Bed, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("distributed-compute.dominodatalab.com", "v1alpha1", "RayCluster");
    Api::namespaced_with(bed.client(), namespace, &ApiResource::from_gvk(&kind))
}

fn name(number: u32) -> String {
    format!("ray-{number}")
}

async fn create(objects: Api<DynamicObject>, number: u32) -> Result<()> {
    let node = json!({"resources": {"requests": {"cpu": "1", "memory": "4Gi"}}});
    let mut worker = node.clone();
    worker["replicas"] = 1.into();
    let object = json!({
        "apiVersion": "distributed-compute.dominodatalab.com/v1alpha1",
        "kind": "RayCluster",
        "metadata": {"name": name(number), "labels": {"dominodatalab.com/starting-user-id": "id-ann"}},
        "spec": {
            "image": {"repository": "rayproject/ray", "tag": "2.36.0"},
            "autoscaling": {"minReplicas": 1, "maxReplicas": 5},
            "head": node,
            "worker": worker,
        },
    });
    objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// Scales clusters one after the other through Muster, and others by a plain GET and PATCH, in turn.
async fn scale(bed: &Bed, server: &Server, data: &Path) -> Result<()> {
    let bare = clusters(bed, BARE);
    let mut client = server.connect().await?.with_bearer(ADMIN);
    let (mut ours, mut requests) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let replicas = 2 + round % 2;
        for number in 0..SCALED {
            let name = name(number);
            let started = Instant::now();
            let seen = bare.get(&name).await?;
            let body = json!({
                "metadata": {"resourceVersion": seen.metadata.resource_version},
                "spec": {"worker": {"replicas": replicas}, "autoscaling": {"minReplicas": replicas}},
            });
            bare.patch(&name, &PatchParams::default(), &Patch::Merge(&body)).await?;
            requests.push(started.elapsed());
            let started = Instant::now();
            let path = format!("/ddl_cluster_scaler/scale/rayclusters/{name}");
            let answer = client.patch(&path, serde_json::to_vec(&json!({"replicas": replicas}))?).await?;
            ours.push(started.elapsed());
            let answer: Value = serde_json::from_slice(&answer)?;
            ensure!(answer["object"]["spec"]["worker"]["replicas"] == replicas, "{answer}");
        }
    }
    let commits = commits(data)?;
    let (ours, requests) = (median(ours), median(requests));
    println!("{SCALED} clusters scaled {ROUNDS} times each, one after the other; etcd waits for the disk");
    report("a bare GET and PATCH", milliseconds(requests));
    report("three durable commits", milliseconds(commits));
    report("through Muster, until Kubernetes has accepted it", milliseconds(ours));
    at_most("  ratio to both together", ratio(ours, requests + commits), 1.0, |ratio| format!("{ratio:.2}"));
    Ok(())
}

/// The duration of three durable commits on the same disk.
fn commits(data: &Path) -> Result<Duration> {
    let database = database::write(&data.join("commits.db"))?;
    database.execute_batch("CREATE TABLE written (number INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let body = "x".repeat(2_000);
    let mut times = Vec::new();
    for round in 0..SCALED {
        let started = Instant::now();
        for commit in 0..COMMITS {
            database
                .execute("INSERT INTO written VALUES (?1, ?2)", params![round * COMMITS + commit, body])?;
        }
        times.push(started.elapsed());
    }
    Ok(median(times))
}

/// Compares reads by a caller whom Domino has identified with the same SELECTs without Muster.
async fn read(muster: &Path, data: &Path, domino: &FakeDomino) -> Result<()> {
    let ones: Vec<String> =
        (0..READ).map(|number| format!("/ddl_cluster_scaler/cluster/rayclusters/{}", name(number))).collect();
    let list = vec!["/ddl_cluster_scaler/list/rayclusters".to_owned()];
    let paths: Vec<String> = ones.iter().chain(&list).cloned().collect();
    let learned = reads::learn(muster, data, &paths).await?;
    let server = Server::start_for_domino(muster, data, None, &domino.url()).await?;
    let listed: Value =
        serde_json::from_slice(&server.connect().await?.with_bearer(ADMIN).get(&list[0]).await?)?;
    ensure!(listed["count"] == CLUSTERS, "{} clusters are on the list", listed["count"]);
    let floor = ReadFloor::start(data, &learned).await?;
    reads::compare_as(Some(ADMIN), "GET of one cluster of Domino", &server, &floor, &ones).await?;
    reads::compare_as(Some(ADMIN), &format!("list of {CLUSTERS} clusters of Domino"), &server, &floor, &list)
        .await
}

//! The clustering API: creates of 200 nodes compared with the core API, and reads compared with their SELECTs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use muster_bench::client::{self, Client};
use muster_bench::copies;
use muster_bench::figures::{at_most, median, milliseconds, ratio, report};
use muster_bench::reads::{self, ReadFlags, ReadFloor};
use muster_bench::server::{self, Server};
use serde_json::{Value, json};

/// The clustering API beside the core API, and its reads beside raw ones
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    flags: ReadFlags,
}

const NODES: u32 = 200;
const ROUNDS: usize = 30;
/// The number of rounds for warm-up.
const WARM_UP: usize = 10;

/// The number of clusters, with one node each.
const CLUSTERS: u32 = 500;
/// The number of different clusters that are read.
const READ: usize = 50;

/// The interval between checks of the status.
const LOOK: Duration = Duration::from_millis(1);

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(5);

const V1: &str = "/clustering/v1";

fn main() -> Result<()> {
    Args::parse().flags.run(LIMIT, async |muster| {
        creates(muster).await?;
        reads_of(muster).await
    })
}

/// Creates the same cluster through both APIs in turn, and polls each until it is ACTIVE.
async fn creates(muster: &Path) -> Result<()> {
    let folder = server::folder()?;
    let server = Server::start(muster, folder.path()).await?;
    let mut client = server.connect().await?;
    let profile = profile(&mut client).await?;
    let (mut ours, mut core) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let through_core = core_round(&mut client, round).await?;
        let started = Instant::now();
        create(&mut client, &format!("c-{round}"), &profile, NODES).await?;
        let through_clustering = started.elapsed();
        if round >= WARM_UP {
            core.push(through_core);
            ours.push(through_clustering);
        }
    }
    let (ours, core) = (median(ours), median(core));
    println!("{NODES} nodes from POST to ACTIVE, {ROUNDS} rounds in turn");
    report("through the core API", milliseconds(core));
    report("through the clustering API", milliseconds(ours));
    at_most("ratio", ratio(ours, core), 1.2, |ratio| format!("{ratio:.2}"));
    Ok(())
}

async fn core_round(client: &mut Client, round: usize) -> Result<Duration> {
    let body = json!({
        "name": format!("core-{round}"),
        "profile": "simulated.node-1.0",
        "cluster_spec": {"worker_group_spec": [{"group_name": "workers", "replicas": NODES}]},
    });
    let started = Instant::now();
    post(client, &client::clusters(), &body).await?;
    let path = format!("{}/core-{round}", client::clusters());
    until_active(client, &path, |cluster| &cluster["state"]).await?;
    Ok(started.elapsed())
}

/// A recipe for simulated nodes.
async fn profile(client: &mut Client) -> Result<String> {
    let spec = json!({"type": "simulated.node", "version": "1.0", "properties": {"flavor": "small"}});
    let profile = json!({"profile": {"name": "p", "spec": spec}});
    let made = post(client, &format!("{V1}/profiles"), &profile).await?;
    Ok(made["profile"]["id"].as_str().context("a profile without an id")?.to_owned())
}

/// Creates a cluster, waits until it is ACTIVE, and returns its id.
async fn create(client: &mut Client, name: &str, profile: &str, nodes: u32) -> Result<String> {
    let cluster = json!({"name": name, "profile_id": profile, "desired_capacity": nodes});
    let made = post(client, &format!("{V1}/clusters"), &json!({"cluster": cluster})).await?;
    let id = made["cluster"]["id"].as_str().context("a cluster without an id")?;
    let path = format!("{V1}/clusters/{id}");
    until_active(client, &path, |answer| &answer["cluster"]["status"]).await?;
    Ok(id.to_owned())
}

async fn post(client: &mut Client, path: &str, body: &Value) -> Result<Value> {
    let (status, answer) = client.post(path, serde_json::to_vec(body)?).await?;
    ensure!(status.is_success(), "POST {path}: {status}: {}", String::from_utf8_lossy(&answer));
    Ok(serde_json::from_slice(&answer)?)
}

async fn until_active(client: &mut Client, path: &str, status: impl Fn(&Value) -> &Value) -> Result<()> {
    loop {
        let answer: Value = serde_json::from_slice(&client.get(path).await?)?;
        if status(&answer) == "ACTIVE" {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Reads one cluster and all clusters, compared with the same SELECTs without Muster.
async fn reads_of(muster: &Path) -> Result<()> {
    let folder = server::folder()?;
    let server = Server::start(muster, folder.path()).await?;
    let mut client = server.connect().await?;
    let profile = profile(&mut client).await?;
    let original = create(&mut client, "original", &profile, 1).await?;
    drop((client, server));
    copies::add(folder.path(), CLUSTERS - 1)?;
    let one = |copy: usize| format!("{V1}/clusters/{}{copy:012x}", &original[..24]);
    let (ones, all): (Vec<String>, _) = ((1..=READ).map(one).collect(), vec![format!("{V1}/clusters")]);
    let paths: Vec<String> = ones.iter().chain(&all).cloned().collect();
    let learned = reads::learn(muster, folder.path(), &paths).await?;
    let server = Server::start(muster, folder.path()).await?;
    let listed: Value = serde_json::from_slice(&server.connect().await?.get(&all[0]).await?)?;
    let count = listed["clusters"].as_array().map_or(0, Vec::len);
    ensure!(count == usize::try_from(CLUSTERS)?, "{count} clusters are on the list");
    let floor = ReadFloor::start(folder.path(), &learned).await?;
    reads::compare("GET of one cluster", &server, &floor, &ones).await?;
    reads::compare(&format!("list of {CLUSTERS} clusters"), &server, &floor, &all).await
}

//! Clusters whose custom resource is accepted, through Muster and through a plain client, in turn.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use muster_bench::client::Client;
use muster_bench::figures::{at_least, at_most, median, milliseconds, ratio, tell};
use muster_bench::process::Meter;
use muster_bench::server::{self, Server};
use serde_json::{Value, json};

use crate::bed::{Bed, CONNECTIONS};
use crate::objects;

/// Where Muster makes its clusters, and where it does not look.
const MADE: &str = "made";
const BARE: &str = "bare";

/// Pairs of rounds that count, each one through Muster and one without; one before them warms up. Many short ones,
/// compared pair by pair: how fast this machine is changes within seconds, and hardly between the two of a pair.
const PAIRS: u32 = 20;

/// Nobody has anything to do who has used nothing for so long; should that never be, it goes on all the same.
const QUIET: Duration = Duration::from_millis(300);
const LONGEST_BUSY: Duration = Duration::from_secs(10);

pub(crate) async fn measure(muster: &Path, count: u32) -> Result<()> {
    let bed = Bed::start(true).await?;
    bed.add_namespace(MADE).await?;
    bed.add_namespace(BARE).await?;
    let folder = server::folder()?;
    let server = Server::start_over(muster, folder.path(), bed.kubeconfig(), MADE).await?;
    let api_server = bed.api_server().await?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(server.connect().await?);
    }
    create(&mut clients[0], "first").await?;
    let pattern = objects::ray_clusters(bed.client(), MADE).get("first").await?;
    let bare = objects::ray_clusters(bed.client(), BARE);
    let each = (count / PAIRS).div_ceil(u32::try_from(CONNECTIONS)?).max(1);

    let mut pairs = Vec::new();
    let mut used = Used::default();
    for round in 0..=PAIRS {
        let mut pair = Pair::default();
        // Whoever comes second finds what the first one left: so they take turns.
        let muster_first = round % 2 == 0;
        for through in [muster_first, !muster_first] {
            let (of_muster, of_api) = (Meter::start(server.pid())?, Meter::start(api_server)?);
            if through {
                pair.ours = through_muster(&mut clients, round, each).await?;
            } else {
                pair.raw = without(&bare, &pattern, round, each).await?;
            }
            let by_api = of_api.used()?;
            // What Muster does behind its answers is its own too.
            let by_muster = of_muster.used_until_quiet(QUIET, LONGEST_BUSY).await?;
            of_api.used_until_quiet(QUIET, LONGEST_BUSY).await?;
            match (round, through) {
                (0, _) => {}
                (_, true) => {
                    used.muster += by_muster;
                    used.api += by_api;
                }
                (_, false) => used.api_bare += by_api,
            }
        }
        if round > 0 {
            pairs.push(pair);
        }
    }
    report(each * u32::try_from(CONNECTIONS)?, &used, &pairs);
    Ok(())
}

/// How long the two rounds of a pair took.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    ours: Duration,
    raw: Duration,
}

/// Processor time of all rounds that count.
#[derive(Debug, Default)]
struct Used {
    muster: Duration,
    /// The API server's, through Muster and without.
    api: Duration,
    api_bare: Duration,
}

fn report(batch: u32, used: &Used, pairs: &[Pair]) {
    let made = batch * PAIRS;
    println!(
        "{made} clusters until their custom resource is accepted, {CONNECTIONS} connections, {PAIRS} pairs of {batch}"
    );
    tell("processor time of the API server for each", milliseconds(used.api / made));
    tell("  the same without Muster", milliseconds(used.api_bare / made));
    tell("processor time of Muster for each", milliseconds(used.muster / made));
    at_most("  ratio", ratio(used.muster, used.api), 0.5, |ratio| format!("{ratio:.2}"));
    let rate = |took: Duration| format!("{:.0}", f64::from(batch) / took.as_secs_f64());
    tell("a second, without Muster", rate(median(pairs.iter().map(|pair| pair.raw).collect())));
    tell("a second, through Muster", rate(median(pairs.iter().map(|pair| pair.ours).collect())));
    let mut ratios: Vec<f64> = pairs.iter().map(|pair| ratio(pair.raw, pair.ours)).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |quarter: usize| {
        ratios.get(quarter * ratios.len().saturating_sub(1) / 4).copied().unwrap_or_default()
    };
    at_least("  ratio, median of the pairs", at(2), 0.8, |ratio| format!("{ratio:.2}"));
    tell("  half of the pairs are between", format!("{:.2} and {:.2}", at(1), at(3)));
}

/// Creates `each` clusters over each connection, one after the other.
async fn through_muster(clients: &mut [Client], round: u32, each: u32) -> Result<Duration> {
    let started = Instant::now();
    let connections = clients.iter_mut().enumerate().map(|(connection, client)| async move {
        for number in 0..each {
            create(client, &name(round, connection, number)).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(connections).await?;
    Ok(started.elapsed())
}

async fn create(client: &mut Client, name: &str) -> Result<()> {
    let path = format!("/apis/v1alpha2/namespaces/{MADE}/clusters?wait_for=applied&wait_timeout=60s");
    let body = json!({
        "name": name,
        "framework": "ray",
        "provider": "kubernetes",
        "cluster_spec": {"worker_group_spec": [{"group_name": objects::GROUP, "replicas": 2}]},
    });
    let (status, answer) = client.post(&path, serde_json::to_vec(&body)?).await?;
    ensure!(status.is_success(), "creating {name}: {status}: {}", String::from_utf8_lossy(&answer));
    let cluster: Value = serde_json::from_slice(&answer)?;
    cluster["id"].as_str().context("a cluster without an id")?;
    Ok(())
}

/// The same objects by a plain client.
async fn without(
    api: &Api<DynamicObject>,
    pattern: &DynamicObject,
    round: u32,
    each: u32,
) -> Result<Duration> {
    let started = Instant::now();
    let connections = (0..CONNECTIONS).map(|connection| async move {
        for number in 0..each {
            let object = objects::again(pattern, &name(round, connection, number));
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(connections).await?;
    Ok(started.elapsed())
}

fn name(round: u32, connection: usize, number: u32) -> String {
    format!("c-{round}-{connection}-{number}")
}

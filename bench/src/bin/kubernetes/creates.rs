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

/// Rounds that count, each through Muster and without; one before them warms up.
const ROUNDS: u32 = 5;

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
    let each = (count / ROUNDS).div_ceil(u32::try_from(CONNECTIONS)?).max(1);

    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    let (mut muster_used, mut api_used, mut bare_used) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for round in 0..=ROUNDS {
        let (of_muster, of_api) = (Meter::start(server.pid())?, Meter::start(api_server)?);
        let took = through_muster(&mut clients, round, each).await?;
        let by_api = of_api.used()?;
        // What Muster does behind its answers is its own too.
        let by_muster = of_muster.used_until_quiet(QUIET, LONGEST_BUSY).await?;
        let of_api = Meter::start(api_server)?;
        let took_bare = without(&bare, &pattern, round, each).await?;
        if round > 0 {
            ours.push(took);
            raw.push(took_bare);
            muster_used += by_muster;
            api_used += by_api;
            bare_used += of_api.used()?;
        }
        of_api.used_until_quiet(QUIET, LONGEST_BUSY).await?;
    }

    let batch = each * u32::try_from(CONNECTIONS)?;
    let made = batch * ROUNDS;
    println!(
        "{made} clusters until their custom resource is accepted, {CONNECTIONS} connections, batches of {batch}"
    );
    tell("processor time of the API server for each", milliseconds(api_used / made));
    tell("  the same without Muster", milliseconds(bare_used / made));
    tell("processor time of Muster for each", milliseconds(muster_used / made));
    at_most("  ratio", ratio(muster_used, api_used), 0.5, |ratio| format!("{ratio:.2}"));
    let rate = |took: Duration| f64::from(batch) / took.as_secs_f64();
    let (ours, raw) = (median(ours), median(raw));
    tell("a second, without Muster", format!("{:.0}", rate(raw)));
    tell("a second, through Muster", format!("{:.0}", rate(ours)));
    at_least("  ratio", ratio(raw, ours), 0.8, |ratio| format!("{ratio:.2}"));
    Ok(())
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

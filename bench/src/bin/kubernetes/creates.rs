//! Creates of custom resources by Muster and by a plain client, in turn.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use futures::future::try_join_all;
use kube::Api;
use kube::api::{DynamicObject, PostParams, WatchParams};
use muster_bench::bed::{Bed, CONNECTIONS};
use muster_bench::client::Client;
use muster_bench::figures::{at_least, at_most, median, milliseconds, ratio, report};
use muster_bench::process::Meter;
use muster_bench::server::{self, Server};
use muster_testkit::Operator;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::objects;

/// The namespace of Muster's clusters, and one that Muster does not watch.
const MADE: &str = "made";
const BARE: &str = "bare";

/// The namespace that only a plain watch observes.
const FOLLOWED: &str = "followed";

/// The number of turns that count, after one for warm-up. Each turn has a round by Muster, one by a plain client, and one by
/// a plain client beside a plain watch. Rounds are compared within a turn, because the speed of a machine changes within
/// seconds.
const TURNS: u32 = 20;

/// The timeout of a watch: longer than the benchmark.
const WATCH_SECONDS: u32 = 290;

/// A program without processor time for this long is idle; the second value bounds the wait.
const QUIET: Duration = Duration::from_millis(300);
const LONGEST_BUSY: Duration = Duration::from_secs(10);

pub(crate) async fn measure(muster: &Path, count: u32) -> Result<()> {
    let bed = Bed::start(true, Operator::KubeRay).await?;
    bed.add_namespace(MADE).await?;
    bed.add_namespace(BARE).await?;
    bed.add_namespace(FOLLOWED).await?;
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
    let followed = objects::ray_clusters(bed.client(), FOLLOWED);
    let _follows = follow(&followed).await?;
    let each = (count / TURNS).div_ceil(u32::try_from(CONNECTIONS)?).max(1);

    let (mut turns, mut used) = (Vec::new(), TurnTimes::default());
    for round in 0..=TURNS {
        let mut took = TurnTimes::default();
        // The order of the ways rotates, because earlier ones leave objects behind.
        let mut ways = [Way::Muster, Way::Bare, Way::Followed];
        let first = usize::try_from(round)? % ways.len();
        ways.rotate_left(first);
        for way in ways {
            let (of_muster, of_api) = (Meter::start(server.pid())?, Meter::start(api_server)?);
            *took.of(way) = match way {
                Way::Muster => through_muster(&mut clients, round, each).await?,
                Way::Bare => without(&bare, &pattern, round, each).await?,
                Way::Followed => without(&followed, &pattern, round, each).await?,
            };
            let by_api = of_api.used()?;
            // The work of Muster after its responses counts, too.
            let by_muster = of_muster.used_until_quiet(QUIET, LONGEST_BUSY).await?;
            of_api.used_until_quiet(QUIET, LONGEST_BUSY).await?;
            if round > 0 {
                *used.of(way) += by_api;
                used.by_muster += if way == Way::Muster { by_muster } else { Duration::ZERO };
            }
        }
        if round > 0 {
            turns.push(took);
        }
    }
    summarize(each * u32::try_from(CONNECTIONS)?, &used, &turns);
    Ok(())
}

/// The way in which clusters are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Through Muster.
    Muster,
    /// By a plain client.
    Bare,
    /// By a plain client, beside a plain watch of its objects.
    Followed,
}

/// The durations of the rounds of a turn, or the processor times of the API server.
#[derive(Debug, Clone, Copy, Default)]
struct TurnTimes {
    muster: Duration,
    bare: Duration,
    followed: Duration,
    /// The processor time of Muster.
    by_muster: Duration,
}

impl TurnTimes {
    fn of(&mut self, way: Way) -> &mut Duration {
        match way {
            Way::Muster => &mut self.muster,
            Way::Bare => &mut self.bare,
            Way::Followed => &mut self.followed,
        }
    }
}

fn summarize(batch: u32, used: &TurnTimes, turns: &[TurnTimes]) {
    let made = batch * TURNS;
    println!(
        "{made} clusters until their custom resource is accepted, {CONNECTIONS} connections, {TURNS} turns of {batch}"
    );
    report("processor time of the API server for each", milliseconds(used.muster / made));
    report("  without Muster", milliseconds(used.bare / made));
    report("  without Muster, followed by a watch", milliseconds(used.followed / made));
    report("processor time of Muster for each", milliseconds(used.by_muster / made));
    at_most("  ratio", ratio(used.by_muster, used.muster), 0.5, |ratio| format!("{ratio:.2}"));
    let rate = |way: fn(&TurnTimes) -> Duration| {
        format!("{:.0}", f64::from(batch) / median(turns.iter().map(way).collect()).as_secs_f64())
    };
    report("a second, without Muster", rate(|turn| turn.bare));
    report("a second, without Muster, followed by a watch", rate(|turn| turn.followed));
    report("a second, through Muster", rate(|turn| turn.muster));
    let (ours, watch) =
        (RatioSpread::of(turns, |turn| turn.muster), RatioSpread::of(turns, |turn| turn.followed));
    at_least("  ratio, median of the turns", ours.median, 0.8, |ratio| format!("{ratio:.2}"));
    report("  half of the turns are between", ours.half());
    report("  the same of a plain client with a watch", format!("{:.2}", watch.median));
    report("  half of the turns are between", watch.half());
}

/// The ratios of the rate of one way to that of a plain client, turn by turn.
struct RatioSpread {
    lower: f64,
    median: f64,
    upper: f64,
}

impl RatioSpread {
    fn of(turns: &[TurnTimes], way: fn(&TurnTimes) -> Duration) -> Self {
        let mut ratios: Vec<f64> = turns.iter().map(|turn| ratio(turn.bare, way(turn))).collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().saturating_sub(1);
        let at = |quarter: usize| ratios.get(quarter * last / 4).copied().unwrap_or_default();
        Self { lower: at(1), median: at(2), upper: at(3) }
    }

    fn half(&self) -> String {
        format!("{:.2} and {:.2}", self.lower, self.upper)
    }
}

/// Watches these objects and discards the events, until the returned value is dropped.
async fn follow(api: &Api<DynamicObject>) -> Result<JoinSet<()>> {
    let mut events = api.watch(&WatchParams::default().timeout(WATCH_SECONDS), "0").await?.boxed();
    let mut follows = JoinSet::new();
    follows.spawn(async move { while events.next().await.is_some() {} });
    Ok(follows)
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

/// Creates the same objects by a plain client.
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

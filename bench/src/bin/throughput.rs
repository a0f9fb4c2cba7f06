//! The largest rate of creates of one-node clusters over 16 connections.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use muster_bench::figures::{at_least, median, milliseconds, ratio, report};
use muster_bench::floor::{Created, Floor};
use muster_bench::server::{self, Server};
use muster_bench::{database, machine, run};
use tokio::task::JoinSet;

/// One-node clusters per second to ACTIVE
#[derive(Debug, Parser)]
struct Args {
    /// The number of clusters altogether
    #[arg(long, default_value_t = 2_000)]
    clusters: u32,
    /// The number of connections
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// The server to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
}

/// The number of batches, each followed by its floor; the first does not count.
const BATCHES: u32 = 5;

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(3);

fn main() -> Result<()> {
    let Args { clusters, connections, muster } = Args::parse();
    let muster = server::program(muster)?;
    machine::report()?;
    run::run(LIMIT, measure(&muster, clusters, connections))
}

async fn measure(muster: &Path, clusters: u32, connections: u32) -> Result<()> {
    let folder = server::folder()?;
    let server = Server::start(muster, folder.path()).await?;
    let reader = database::read(folder.path())?;
    let floor = Floor::new(&folder.path().join("floor.db"), &reader)?;
    let file = database::file(folder.path());
    let each = (clusters / BATCHES / connections).max(1);
    let batch_size = each * connections;
    let (mut subjects, mut floors, mut commits) = (Vec::new(), Vec::new(), 0);
    for batch in 0..BATCHES {
        let before = database::commits(&file)?;
        let (ids, took) = load(&server, connections, each, batch).await?;
        let made = database::commits(&file)? - before;
        let created = ids.iter().map(|id| Created::read(&reader, id)).collect::<Result<Vec<_>>>()?;
        let raw = floor.write(&created, usize::try_from(made)?)?;
        if batch > 0 {
            subjects.push(took);
            floors.push(raw);
            commits += made;
        }
    }
    let counted = batch_size * (BATCHES - 1);
    println!("{counted} clusters of one node, {connections} connections, in batches of {batch_size}");
    let (subject, floor) = (median(subjects), median(floors));
    let per_second = f64::from(batch_size) / subject.as_secs_f64();
    report("a batch raw, in as many commits", milliseconds(floor));
    report("a batch to ACTIVE", milliseconds(subject));
    report("ratio", format!("{:.2}", ratio(subject, floor)));
    report("commits per cluster", format!("{:.2}", f64::from(commits) / f64::from(counted)));
    at_least("clusters per second to ACTIVE", per_second, 300.0, |rate| format!("{rate:.0}"));
    Ok(())
}

/// Creates `each` clusters over each connection, one after the other.
async fn load(server: &Server, connections: u32, each: u32, batch: u32) -> Result<(Vec<String>, Duration)> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(server.connect().await?);
    }
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (connection, mut client) in clients.into_iter().enumerate() {
        running.spawn(async move {
            let mut ids = Vec::new();
            for number in 0..each {
                ids.push(client.create(&format!("load-{batch}-{connection}-{number}"), 1).await?);
            }
            anyhow::Ok(ids)
        });
    }
    let mut ids = Vec::new();
    while let Some(ended) = running.join_next().await {
        ids.extend(ended??);
    }
    Ok((ids, started.elapsed()))
}

//! The time from the HTTP request to ACTIVE for 1, 200 and 10,000 simulated nodes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use muster_bench::client::Client;
use muster_bench::figures::{above_floor, at_most, median, milliseconds, ratio, report};
use muster_bench::floor::{Created, Floor};
use muster_bench::server::{self, Server};
use muster_bench::{database, machine, run};

/// From the request over HTTP to ACTIVE
#[derive(Debug, Parser)]
struct Args {
    /// Rounds, in percent of the usual number
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// The server to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
}

/// The numbers of nodes and rounds, and a guideline for the duration of a create.
const SIZES: [(u32, usize, Option<Duration>); 3] =
    [(1, 60, None), (200, 30, Some(Duration::from_millis(300))), (10_000, 7, Some(Duration::from_secs(5)))];

/// The number of commits, which is that of the server.
const COMMITS: usize = 4;

/// The most rounds of warm-up, which do not count.
const WARM_UP: u32 = 200;

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(5);

fn main() -> Result<()> {
    let Args { rounds, muster } = Args::parse();
    let muster = server::program(muster)?;
    machine::report()?;
    run::run(LIMIT, async {
        for (nodes, usual, limit) in SIZES {
            measure(&muster, nodes, (usual * rounds / 100).max(1), limit).await?;
        }
        Ok(())
    })
}

/// Each size has its own server and floor, so that both databases grow equally.
async fn measure(muster: &std::path::Path, nodes: u32, rounds: usize, limit: Option<Duration>) -> Result<()> {
    let folder = server::folder()?;
    let server = Server::start(muster, folder.path()).await?;
    let reader = database::read(folder.path())?;
    let floor_file = folder.path().join("floor.db");
    let floor = Floor::new(&floor_file, &reader)?;
    let mut client = server.connect().await?;
    let file = database::file(folder.path());
    let (mut subjects, mut floors, mut commits, mut rows) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut warming = 0;
    for round in 0.. {
        if subjects.len() >= rounds {
            break;
        }
        let before = database::commits(&file)?;
        let (id, took) = create(&mut client, round, nodes).await?;
        let made = database::commits(&file)? - before;
        let created = [Created::read(&reader, &id)?];
        rows = created[0].count();
        let raw = floor.write(&created, COMMITS)?;
        if warming < WARM_UP && !(database::is_warm(&file)? && database::is_warm(&floor_file)?) {
            warming += 1;
        } else {
            subjects.push(took);
            floors.push(raw);
            commits.push(made);
        }
    }
    println!("{nodes} nodes ({rows} rows), {rounds} rounds");
    let (subject, floor) = (median(subjects), median(floors));
    report("the same rows raw, in 4 commits", milliseconds(floor));
    match limit {
        Some(limit) => at_most("request to ACTIVE", subject, limit, milliseconds),
        None => report("request to ACTIVE", milliseconds(subject)),
    }
    above_floor(ratio(subject, floor), 2.0);
    commits.sort_unstable();
    // Heartbeats commit every few seconds, too, so that the median counts.
    at_most("durable commits", commits[commits.len() / 2], 6, |count| count.to_string());
    Ok(())
}

async fn create(client: &mut Client, round: u32, nodes: u32) -> Result<(String, Duration)> {
    let started = Instant::now();
    let id = client.create(&format!("round-{round}"), nodes).await?;
    Ok((id, started.elapsed()))
}

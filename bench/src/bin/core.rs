//! Reads of the core API compared with the same SELECTs without it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use muster_bench::client;
use muster_bench::copies;
use muster_bench::reads::{self, ReadFlags, ReadFloor};
use muster_bench::server::{self, Server};
use serde_json::Value;

/// Gets and pages of the core API, beside raw ones
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    flags: ReadFlags,
}

/// The number of clusters, with one node each.
const CLUSTERS: u32 = 1_000;
/// The number of different clusters that are read.
const READ: usize = 50;
/// The number of clusters on a page.
const PAGE: usize = 100;

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(5);

fn main() -> Result<()> {
    Args::parse().flags.run(LIMIT, measure)
}

async fn measure(muster: &Path) -> Result<()> {
    let folder = server::folder()?;
    let server = Server::start(muster, folder.path()).await?;
    server.connect().await?.create("original", 1).await?;
    drop(server);
    copies::add(folder.path(), CLUSTERS - 1)?;
    let ones: Vec<String> =
        (1..=READ).map(|copy| format!("{}/original-{copy}", client::clusters())).collect();
    let page = vec![format!("{}?page_size={PAGE}", client::clusters())];
    let paths: Vec<String> = ones.iter().chain(&page).cloned().collect();
    let learned = reads::learn(muster, folder.path(), &paths).await?;
    let server = Server::start(muster, folder.path()).await?;
    let listed: Value = serde_json::from_slice(&server.connect().await?.get(&page[0]).await?)?;
    let count = listed["clusters"].as_array().map_or(0, Vec::len);
    ensure!(count == PAGE, "{count} clusters are on the page");
    let floor = ReadFloor::start(folder.path(), &learned).await?;
    reads::compare("GET of one cluster by name", &server, &floor, &ones).await?;
    reads::compare(&format!("page of {PAGE} of {CLUSTERS} clusters"), &server, &floor, &page).await
}

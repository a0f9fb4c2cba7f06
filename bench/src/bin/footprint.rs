//! The cost of a server with SQLite: its start, its memory, and reads of a growing table.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use muster_bench::client::{self, Client, NAMESPACE};
use muster_bench::figures::{at_most, median, megabytes, milliseconds, ratio, report};
use muster_bench::server::{self, Server};
use muster_bench::{copies, machine, run};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// What a server costs
#[derive(Debug, Parser)]
struct Args {
    /// The server to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
}

/// The number of measured starts.
const STARTS: usize = 15;

/// The time without requests before memory is measured as idle.
const REST: Duration = Duration::from_secs(2);

/// The load: connections, listed clusters, and requests per connection.
const CONNECTIONS: usize = 1_000;
const LISTED: u32 = 200;
const LISTS: u32 = 10;

/// The time without requests after the load.
const RECOVERY: Duration = Duration::from_secs(30);

/// The number of clusters to page through.
const PAGED: u32 = 10_000;

/// Two sizes of the database, whose reads must take equally long.
const FEW: u32 = 1_000;
const MANY: u32 = 100_000;

/// The number of reads of each kind and size.
const READS: u32 = 300;

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(5);

const MEGABYTE: u64 = 1_000_000;

fn main() -> Result<()> {
    let Args { muster } = Args::parse();
    let muster = server::program(muster)?;
    machine::report()?;
    run::run(LIMIT, async {
        starts(&muster).await?;
        memory(&muster).await?;
        memory_under_load(&muster).await?;
        reads(&muster).await
    })
}

/// The time from the start of the process to `/readyz` on a new folder; the floor is a process that prints its version.
async fn starts(muster: &Path) -> Result<()> {
    let (mut subjects, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let folder = server::folder()?;
        subjects.push(Server::start(muster, folder.path()).await?.took());
        let started = Instant::now();
        ensure!(Command::new(muster).arg("version").stdout(Stdio::null()).status()?.success(), "no version");
        floors.push(started.elapsed());
    }
    let (subject, floor) = (median(subjects), median(floors));
    println!("{STARTS} starts with a new database");
    report("`muster version`", milliseconds(floor));
    at_most("start to /readyz", subject, Duration::from_millis(300), milliseconds);
    report("ratio", format!("{:.1}", ratio(subject, floor)));
    Ok(())
}

async fn memory(muster: &Path) -> Result<()> {
    let empty = server::folder()?;
    let server = Server::start(muster, empty.path()).await?;
    tokio::time::sleep(REST).await;
    println!("resident memory");
    at_most("idle, nothing in it", server.resident()?, 40 * MEGABYTE, megabytes);
    drop(server);
    let (_folder, server) = with_clusters(muster, PAGED).await?;
    tokio::time::sleep(REST).await;
    let idle = server.resident()?;
    at_most(&format!("idle, {PAGED} clusters"), idle, 40 * MEGABYTE, megabytes);
    let seen = page_through(&mut server.connect().await?).await?;
    ensure!(seen > u64::from(PAGED), "{seen} clusters were on the pages");
    let more = server.resident()?.saturating_sub(idle);
    at_most("more after paging through them", more, 20 * MEGABYTE, megabytes);
    Ok(())
}

async fn page_through(client: &mut Client) -> Result<u64> {
    let (mut seen, mut token) = (0, String::new());
    loop {
        let (clusters, next) = page(client, 100, &token).await?;
        seen += clusters;
        match next {
            Some(next) => token = next,
            None => return Ok(seen),
        }
    }
}

/// The memory while very many clients list clusters at the same time, and after they have disconnected.
async fn memory_under_load(muster: &Path) -> Result<()> {
    let (_folder, server) = with_clusters(muster, LISTED).await?;
    tokio::time::sleep(REST).await;
    let idle = server.resident()?;
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut client = server.connect().await?;
        clients.spawn(async move {
            for _ in 0..LISTS {
                client.get(&client::clusters()).await?;
            }
            anyhow::Ok(client)
        });
    }
    let mut peak = idle;
    let mut open = Vec::new();
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                Some(client) => open.push(client??),
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(20)) => peak = peak.max(server.resident()?),
        }
    }
    println!("{CONNECTIONS} connections list {LISTED} clusters {LISTS} times each");
    report("idle before", megabytes(idle));
    at_most("peak", peak, 100 * MEGABYTE, megabytes);
    drop(open);
    tokio::time::sleep(RECOVERY).await;
    let more = server.resident()?.saturating_sub(idle);
    at_most("more than idle afterwards", more, 20 * MEGABYTE, megabytes);
    Ok(())
}

/// Reads a page, and returns the number of its items and the token of the next page.
async fn page(client: &mut Client, size: u32, token: &str) -> Result<(u64, Option<String>)> {
    let body = client.get(&format!("{}?page_size={size}&page_token={token}", client::clusters())).await?;
    let page: serde_json::Value = serde_json::from_slice(&body)?;
    let clusters = page["clusters"].as_array().context("a page without clusters")?.len() as u64;
    let next = page["nextPageToken"].as_str().filter(|token| !token.is_empty());
    Ok((clusters, next.map(str::to_owned)))
}

/// A server whose database has one cluster and this many copies of it.
async fn with_clusters(muster: &Path, count: u32) -> Result<(TempDir, Server)> {
    let folder = server::folder()?;
    let server = Server::start(muster, folder.path()).await?;
    server.connect().await?.create("original", 1).await?;
    drop(server);
    copies::add(folder.path(), count)?;
    let server = Server::start(muster, folder.path()).await?;
    Ok((folder, server))
}

/// Compares reads of a small and a large database, in turn.
async fn reads(muster: &Path) -> Result<()> {
    let (_few, few) = with_clusters(muster, FEW).await?;
    let (_many, many) = with_clusters(muster, MANY).await?;
    let (mut few, mut many) = (few.connect().await?, many.connect().await?);
    println!("reads with {FEW} and with {MANY} clusters, {READS} of each");
    let one = format!("/apis/v1alpha2/namespaces/{NAMESPACE}/clusters/original-500");
    compare("get by name", (&mut few, &one), (&mut many, &one)).await?;
    let first = format!("{}?page_size=100", client::clusters());
    compare("first page of the namespace", (&mut few, &first), (&mut many, &first)).await?;
    let by_name = format!("{first}&sort_by=name");
    compare("first page by name", (&mut few, &by_name), (&mut many, &by_name)).await?;
    let all = "/apis/v1alpha2/clusters?page_size=100".to_owned();
    compare("first page of all", (&mut few, &all), (&mut many, &all)).await?;
    let middle = (middle_page(&mut few, FEW).await?, middle_page(&mut many, MANY).await?);
    compare("page in the middle", (&mut few, &middle.0), (&mut many, &middle.1)).await
}

/// The largest page.
const LARGEST_PAGE: u32 = 1_000;

/// The path of the page in the middle of the list.
async fn middle_page(client: &mut Client, count: u32) -> Result<String> {
    let mut token = String::new();
    let mut left = count / 2;
    while left > 0 {
        let size = left.min(LARGEST_PAGE);
        let (_, next) = page(client, size, &token).await?;
        token = next.context("no second half")?;
        left -= size;
    }
    Ok(format!("{}?page_size=100&page_token={token}", client::clusters()))
}

async fn compare(what: &str, few: (&mut Client, &str), many: (&mut Client, &str)) -> Result<()> {
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        small.push(timed(few.0, few.1).await?);
        large.push(timed(many.0, many.1).await?);
    }
    let (small, large) = (median(small), median(large));
    report(what, format!("{} and {}", milliseconds(small), milliseconds(large)));
    at_most("  ratio", ratio(large, small), 1.3, |ratio| format!("{ratio:.2}"));
    Ok(())
}

async fn timed(client: &mut Client, path: &str) -> Result<Duration> {
    let started = Instant::now();
    client.get(path).await?;
    Ok(started.elapsed())
}

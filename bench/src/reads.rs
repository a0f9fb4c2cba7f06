//! The floor of reads: the same HTTP stack runs the same SELECTs on the same database, and sends prepared bytes.
//!
//! The SELECTs are taken from the server's log. They run by direct calls of SQLite, which read and discard every column of
//! every row. The floor is a process of its own, as the server is.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use clap::Args;
use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::figures::{at_least, report};
use crate::server::{self, Server};
use crate::{database, load, machine, run};

/// The flags of benchmarks that compare reads with their floor.
#[derive(Debug, Args)]
pub struct ReadFlags {
    /// The server to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
    /// Run as the floor of the reads
    #[arg(long, hide = true, value_name = "FOLDER")]
    floor: Option<PathBuf>,
}

impl ReadFlags {
    /// Measures a server within a time limit, or runs as the floor.
    pub fn run(self, limit: Duration, measure: impl AsyncFnOnce(&Path) -> Result<()>) -> Result<()> {
        let Self { muster, floor } = self;
        if let Some(data) = floor {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            return runtime.block_on(serve(data));
        }
        let muster = server::program(muster)?;
        machine::report()?;
        run::run(limit, measure(&muster))
    }
}

/// The number of connections of a comparison.
const CONNECTIONS: usize = 16;

/// The number of turns, each with the server and with the floor.
const TURNS: usize = 5;

/// The duration of a turn.
const TURN: Duration = Duration::from_secs(2);

/// The lowest accepted ratio to the floor.
const TARGET: f64 = 0.5;

/// The number of prepared statements in the cache: more than there are different ones.
const STATEMENTS: usize = 2_000;

/// The response to one request, and the queries that it takes.
struct Read {
    queries: Vec<String>,
    body: Bytes,
}

/// Requests each path from a server once, and records the queries to its database.
pub async fn learn(muster: &Path, data: &Path, paths: &[String]) -> Result<Value> {
    let log = data.join("queries.log");
    let server = Server::start_traced(muster, data, std::fs::File::create(&log)?).await?;
    let mut client = server.connect().await?;
    let mut learned = serde_json::Map::new();
    for path in paths {
        // The server runs queries of its own, too; only those of the request are logged in the request's span.
        let body = client.get(path).await?;
        let queries = queries_of(&std::fs::read_to_string(&log)?, path);
        ensure!(!queries.is_empty(), "the server asked nothing for {path}");
        let body: Value = serde_json::from_slice(&body)?;
        learned.insert(path.clone(), json!({"queries": queries, "body": body}));
    }
    Ok(learned.into())
}

/// The queries of the requests to a path.
fn queries_of(log: &str, path: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let here = lines.filter(|line| {
        let spans = line["spans"].as_array().into_iter().flatten();
        spans.into_iter().any(|span| span["path"].as_str() == path.split('?').next())
    });
    here.filter_map(|line| line["fields"]["sql"].as_str().map(str::to_owned)).collect()
}

/// The floor as a process, which is killed when this value is dropped.
pub struct ReadFloor {
    _child: Child,
    address: SocketAddr,
}

impl ReadFloor {
    /// Starts this program again as the floor.
    pub async fn start(data: &Path, learned: &Value) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--floor").arg(data).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut input = child.stdin.take().context("the floor has no standard input")?;
        input.write_all(&serde_json::to_vec(learned)?).await?;
        drop(input);
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the floor has no standard output")?)
            .read_line(&mut line)
            .await?;
        let address = line
            .trim()
            .parse()
            .with_context(|| format!("the floor printed '{line}' instead of its address"))?;
        // The first response is not measured.
        let (status, _) = Client::connect(address).await?.try_get("/").await?;
        ensure!(status == StatusCode::NOT_FOUND, "the floor answers {status}");
        Ok(Self { _child: child, address })
    }

    /// The address of the floor.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Runs as the floor until it is killed.
async fn serve(data: PathBuf) -> Result<()> {
    let learned: HashMap<String, Value> = serde_json::from_reader(std::io::stdin())?;
    let read = |(path, value): (String, Value)| {
        let queries = value["queries"].as_array().into_iter().flatten();
        let queries = queries.filter_map(|query| query.as_str().map(str::to_owned)).collect();
        (path, Read { queries, body: value["body"].to_string().into() })
    };
    let reads: HashMap<String, Read> = learned.into_iter().map(read).collect();
    let state = Arc::new(Served { data, reads, idle: Mutex::default() });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    let router = Router::new().fallback(answer).with_state(state);
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // The server sets this option, too.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

struct Served {
    data: PathBuf,
    reads: HashMap<String, Read>,
    idle: Mutex<Vec<Connection>>,
}

async fn answer(State(served): State<Arc<Served>>, request: Request) -> Response {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut response = Response::new(axum::body::Body::empty());
    let Some(read) = served.reads.get(path) else {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    match served.run(&read.queries) {
        Ok(()) => *response.body_mut() = read.body.clone().into(),
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl Served {
    fn run(&self, queries: &[String]) -> Result<()> {
        let idle = self.idle.lock().pop();
        let connection = idle.map_or_else(|| self.open(), Ok)?;
        for query in queries {
            let mut statement = connection.prepare_cached(query)?;
            let columns = statement.column_count();
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    std::hint::black_box::<ValueRef<'_>>(row.get_ref(column)?);
                }
            }
        }
        self.idle.lock().push(connection);
        Ok(())
    }

    fn open(&self) -> Result<Connection> {
        let connection = database::read(&self.data)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    }
}

/// Reads these paths from a server and from its floor, in turn.
pub async fn compare(what: &str, server: &Server, floor: &ReadFloor, paths: &[String]) -> Result<()> {
    compare_as(None, what, server, floor, paths).await
}

/// Compares the reads of a caller with this token.
pub async fn compare_as(
    secret: Option<&str>,
    what: &str,
    server: &Server,
    floor: &ReadFloor,
    paths: &[String],
) -> Result<()> {
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for turn in 0..=TURNS {
        let floor = load::reads(floor.address(), paths, CONNECTIONS, TURN, secret).await?;
        let server = load::reads(server.address(), paths, CONNECTIONS, TURN, secret).await?;
        if turn > 0 {
            raw.push(floor);
            ours.push(server);
        }
    }
    let (ours, raw) = (middle(ours), middle(raw));
    println!("{what}, {CONNECTIONS} connections, {TURNS} turns of {} s", TURN.as_secs());
    report("raw", format!("{raw:.0} a second"));
    report("Muster", format!("{ours:.0} a second"));
    at_least("ratio", ours / raw, TARGET, |ratio| format!("{ratio:.2}"));
    Ok(())
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_other_requests_are_not_counted() {
        let line = |path: &str, sql: &str| {
            json!({"fields": {"sql": sql}, "spans": [{"name": "request", "path": path}]}).to_string()
        };
        let log = [
            line("/a", "SELECT 1"),
            json!({"fields": {"sql": "SELECT 2"}}).to_string(),
            line("/b", "SELECT 3"),
        ];
        assert_eq!(queries_of(&log.join("\n"), "/a?limit=1"), ["SELECT 1"]);
    }
}

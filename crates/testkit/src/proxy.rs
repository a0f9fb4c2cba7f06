//! A proxy in front of PostgreSQL that can be cut: connections stay open and no data passes, as when a cable is cut or
//! a machine loses power.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::eventually::PATIENCE;

/// The states of the statement after which the proxy is cut: not sent yet, prepared, or being executed.
const NOT_SEEN: u8 = 0;
const PREPARED: u8 = 1;
const EXECUTED: u8 = 2;

/// The proxy, which is stopped when this value is dropped.
pub struct PostgresProxy {
    url: String,
    line: Arc<ProxyState>,
    task: JoinHandle<()>,
}

struct ProxyState {
    dark: watch::Sender<bool>,
    statement: Mutex<Option<Vec<u8>>>,
}

impl PostgresProxy {
    /// Starts a proxy for the database at this address.
    pub async fn start(database: &str) -> Self {
        let (before, after) = database.split_once('@').expect("a user");
        let (address, rest) = after.split_once('/').expect("a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let url = format!("{before}@127.0.0.1:{port}/{rest}");
        let line = Arc::new(ProxyState { dark: watch::Sender::new(false), statement: Mutex::default() });
        let task = tokio::spawn(accept(listener, address.to_owned(), Arc::clone(&line)));
        Self { url, line, task }
    }

    /// The address for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops forwarding.
    pub fn cut(&self) {
        self.line.dark.send_replace(true);
    }

    /// Stops forwarding when a statement with this text, which the connection has not prepared before, was executed:
    /// the response does not arrive.
    pub fn cut_after(&self, statement: &str) {
        *self.line.statement.lock() = Some(statement.as_bytes().to_owned());
    }

    /// Waits until the proxy has stopped forwarding.
    pub async fn is_dark(&self) {
        let mut dark = self.line.dark.subscribe();
        let waited = tokio::time::timeout(PATIENCE, dark.wait_for(|dark| *dark)).await;
        waited.expect("the statement is executed in time").expect("the proxy runs");
    }

    /// Forwards again, including data that was sent meanwhile.
    pub fn mend(&self) {
        *self.line.statement.lock() = None;
        self.line.dark.send_replace(false);
    }
}

impl Drop for PostgresProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, address: String, line: Arc<ProxyState>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(&address).await.expect("PostgreSQL answers");
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let seen = Arc::new(AtomicU8::new(NOT_SEEN));
        connections.spawn(carry_statements(from_client, to_server, Arc::clone(&line), Arc::clone(&seen)));
        connections.spawn(carry_answers(from_server, to_client, Arc::clone(&line), seen));
    }
}

async fn carry_statements(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    line: Arc<ProxyState>,
    seen: Arc<AtomicU8>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = client.read(&mut buffer).await {
        line.lit().await;
        let contains = |wanted: &Vec<u8>| buffer[..length].windows(wanted.len()).any(|part| part == wanted);
        if line.statement.lock().as_ref().is_some_and(contains) {
            seen.store(PREPARED, Ordering::Release);
        } else if seen.load(Ordering::Acquire) == PREPARED {
            seen.store(EXECUTED, Ordering::Release);
        }
        if server.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

async fn carry_answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    line: Arc<ProxyState>,
    seen: Arc<AtomicU8>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut buffer).await {
        let executed = seen.compare_exchange(EXECUTED, NOT_SEEN, Ordering::AcqRel, Ordering::Acquire);
        if executed.is_ok() {
            line.dark.send_replace(true);
        }
        line.lit().await;
        if client.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

impl ProxyState {
    /// Waits while forwarding is stopped. Never fails: waiting connections hold a reference to the sender.
    async fn lit(&self) {
        drop(self.dark.subscribe().wait_for(|dark| !dark).await);
    }
}

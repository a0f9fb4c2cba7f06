//! A proxy before the API server, which closes at a chosen write.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::Kubernetes;

/// The point at which a write is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The request never arrives.
    Before,
    /// The write takes effect, and its response never arrives.
    After,
}

/// A write that took effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedWrite {
    /// The HTTP method.
    pub method: String,
    /// The path of the object, including the name of a new one.
    pub path: String,
    /// The UID of the written object, or of the deleted one.
    pub uid: Option<String>,
}

/// A proxy to the API server, with the admin's permissions, that closes at a chosen write: the client then stops at a
/// defined point, as if it had been killed at that instruction.
pub struct Gate {
    state: Arc<GateInner>,
    folder: TempDir,
    task: JoinHandle<()>,
}

struct GateInner {
    client: Client,
    count: Mutex<Count>,
    status: watch::Sender<GateState>,
}

/// The state of the gate.
#[derive(Default)]
struct GateState {
    closed: bool,
    /// True if writes are delayed, even if their client has disconnected.
    holds_writes: bool,
    /// True if watches stay open without events.
    holds_watches: bool,
    /// The number of forwarded writes whose responses are pending.
    pending_writes: usize,
}

#[derive(Default)]
struct Count {
    /// The number of writes since the gate was last opened or set to close.
    come: usize,
    closes: Option<(usize, Side)>,
    written: Vec<RecordedWrite>,
}

/// The decision about a write.
#[derive(Clone, Copy)]
enum WriteVerdict {
    Passes,
    StopsBefore,
    StopsAfter,
    ComesTooLate,
}

impl Gate {
    pub(super) async fn before(kubernetes: &Kubernetes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let folder = tempfile::tempdir().expect("a folder");
        let named = |kind: &str, what: Value| json!([{"name": "gate", kind: what}]);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "gate",
            "clusters": named("cluster", json!({"server": format!("http://{address}")})),
            "users": named("user", json!({})),
            "contexts": named("context", json!({"cluster": "gate", "user": "gate"})),
        });
        std::fs::write(folder.path().join("kubeconfig"), config.to_string()).expect("a kubeconfig");
        let client = kubernetes.client();
        let state = GateInner { client, count: Mutex::default(), status: watch::Sender::default() };
        let state = Arc::new(state);
        let task = tokio::spawn(listen(listener, Arc::clone(&state)));
        Self { state, folder, task }
    }

    /// The kubeconfig of a client of this proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        Path::join(self.folder.path(), "kubeconfig")
    }

    /// Opens the gate until the n-th write from now, or for good, and clears the recorded writes.
    pub fn open(&self, until: Option<(usize, Side)>) {
        *self.state.count.lock() = Count { closes: until, ..Count::default() };
        self.state.status.send_modify(|status| status.closed = false);
    }

    /// Opens the gate for good, for the successor of the stopped writer, and keeps the recorded writes.
    pub fn open_again(&self) {
        self.state.count.lock().closes = None;
        self.state.status.send_modify(|status| status.closed = false);
    }

    /// Waits until the chosen write has arrived and all writes before it have taken effect; with [`Side::After`] also
    /// the chosen one.
    pub async fn closed(&self) {
        let mut status = self.state.status.subscribe();
        // Never closed: this value owns the sender.
        drop(status.wait_for(|status| status.closed && status.pending_writes == 0).await);
    }

    /// Keeps all watches open without events, like a connection whose peer has vanished.
    pub fn hold_watches(&self) {
        self.state.status.send_modify(|status| status.holds_watches = true);
    }

    /// Delays writes, as an admission webhook may; they take effect even if their client has disconnected.
    pub fn hold_writes(&self) {
        self.state.status.send_modify(|status| status.holds_writes = true);
    }

    /// Releases delayed writes.
    pub fn release_writes(&self) {
        self.state.status.send_modify(|status| status.holds_writes = false);
    }

    /// Waits until a write has arrived since the gate was opened.
    pub async fn write_came(&self) {
        let mut status = self.state.status.subscribe();
        // Never closed: this value owns the sender.
        drop(status.wait_for(|_| self.state.count.lock().come > 0).await);
    }

    /// The recorded writes.
    pub fn written(&self) -> Vec<RecordedWrite> {
        self.state.count.lock().written.clone()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(listener: TcpListener, state: Arc<GateInner>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, state: Arc<GateInner>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            // In a separate task, because an API server does not notice disconnected clients either.
            let passed = Arc::clone(&state);
            let answer = tokio::spawn(async move { passed.pass(request).await }).await.expect("no panic");
            Ok::<_, Infallible>(answer.map(|body| {
                if is_watch { held(body, state.status.subscribe()) } else { body.boxed_unsync() }
            }))
        }
    });
    // Clients may be killed in the middle of a request.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

/// A body whose parts wait while watches are held.
fn held(body: Body, status: watch::Receiver<GateState>) -> UnsyncBoxBody<Bytes, kube::Error> {
    let parts = stream::unfold((body, status), |(mut body, mut status)| async move {
        let part = body.frame().await?;
        // The sender is dropped with the test.
        drop(status.wait_for(|status| !status.holds_watches).await);
        Some((part, (body, status)))
    });
    StreamBody::new(parts).boxed_unsync()
}

impl GateInner {
    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let passed = if is_write(request.method()) {
            self.write(request).await
        } else {
            let (parts, body) = request.into_parts();
            match body.collect().await {
                Ok(body) => self.forward(Request::from_parts(parts, body.to_bytes().to_vec())).await,
                Err(error) => Err(io::Error::other(error)),
            }
        };
        passed.unwrap_or_else(|error| {
            let mut answer = Response::new(Body::from(error.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        })
    }

    async fn forward(&self, request: Request<Vec<u8>>) -> io::Result<Response<Body>> {
        self.client.send(request.map(Body::from)).await.map_err(io::Error::other)
    }

    async fn write(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes().to_vec();
        let turn = self.turn();
        self.status.send_modify(|_| {});
        drop(self.status.subscribe().wait_for(|status| !status.holds_writes).await);
        match turn {
            WriteVerdict::StopsBefore => self.stop().await,
            WriteVerdict::ComesTooLate => std::future::pending().await,
            WriteVerdict::Passes | WriteVerdict::StopsAfter => {}
        }
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let pending = PendingWrite::begin(self);
        let answer = self.forward(Request::from_parts(parts, body.clone())).await?;
        let (parts, answered) = answer.into_parts();
        let answered = answered.collect_bytes().await.map_err(io::Error::other)?;
        if parts.status.is_success() {
            self.count.lock().written.push(written(&method, path, &body, &answered));
        }
        drop(pending);
        if matches!(turn, WriteVerdict::StopsAfter) {
            self.stop().await;
        }
        Ok(Response::from_parts(parts, Body::from(answered)))
    }

    /// Counts a write and decides about it. Writes after the chosen one do not arrive, as if their client had been
    /// killed.
    fn turn(&self) -> WriteVerdict {
        let mut count = self.count.lock();
        count.come += 1;
        match count.closes {
            Some((number, Side::Before)) if count.come == number => WriteVerdict::StopsBefore,
            Some((number, Side::After)) if count.come == number => WriteVerdict::StopsAfter,
            Some((number, _)) if count.come > number => WriteVerdict::ComesTooLate,
            _ => WriteVerdict::Passes,
        }
    }

    /// Records that the gate is closed, and waits until the client disconnects.
    async fn stop(&self) {
        self.status.send_modify(|status| status.closed = true);
        std::future::pending::<()>().await;
    }
}

/// The registration of a forwarded write, which ends when the write is recorded or has failed.
struct PendingWrite<'a>(&'a GateInner);

impl<'a> PendingWrite<'a> {
    fn begin(state: &'a GateInner) -> Self {
        state.status.send_modify(|status| status.pending_writes += 1);
        Self(state)
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        self.0.status.send_modify(|status| status.pending_writes -= 1);
    }
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

fn written(method: &Method, path: String, asked: &[u8], answered: &[u8]) -> RecordedWrite {
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (path, uid) = if *method == Method::POST {
        let new = json(answered)["metadata"].take();
        (text(&new["name"]).map_or_else(|| path.clone(), |name| format!("{path}/{name}")), text(&new["uid"]))
    } else {
        (path, text(&json(asked)["preconditions"]["uid"]))
    };
    RecordedWrite { method: method.to_string(), path, uid }
}

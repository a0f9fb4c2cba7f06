//! An external service that the server calls: a small HTTP server whose responses the test chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// A time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that the service received.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedRequest {
    /// Method and path.
    pub line: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, if it is JSON.
    pub body: Value,
}

impl ReceivedRequest {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }
}

/// The response of the service.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status and a body.
    Now(u16, String),
    /// The same after a delay.
    Late(Duration, u16, String),
    /// The connection is closed without a response.
    Closed,
}

type CallHandler = dyn Fn(&ReceivedRequest) -> Reply + Send + Sync;

/// The service, which is stopped when this value is dropped.
pub struct Outside {
    /// The port on loopback.
    pub port: u16,
    handler: Arc<Mutex<Arc<CallHandler>>>,
    calls: mpsc::UnboundedReceiver<ReceivedRequest>,
    task: JoinHandle<()>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Outside {
    /// A service that answers every request with this status and body.
    pub async fn start(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::answering(move |_| Reply::Now(status, body.clone())).await
    }

    /// A service that answers each request by a function.
    pub async fn answering(handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let handler: Arc<Mutex<Arc<CallHandler>>> = Arc::new(Mutex::new(Arc::new(handler)));
        let (sender, calls) = mpsc::unbounded_channel();
        let handlers = Arc::clone(&handler);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (handlers, sender) = (Arc::clone(&handlers), sender.clone());
                connections.spawn(async move { serve(stream, &handlers, &sender).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, handler, calls, task }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Answers all later requests with this status and body.
    pub fn answers(&self, status: u16, body: &str) {
        let body = body.to_owned();
        self.answers_by(move |_| Reply::Now(status, body.clone()));
    }

    /// Answers all later requests by another function.
    pub fn answers_by(&self, handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) {
        *self.handler.lock().expect("not poisoned") = Arc::new(handler);
    }

    /// The next request, once it was received.
    pub async fn call(&mut self) -> ReceivedRequest {
        let call = tokio::time::timeout(PATIENCE, self.calls.recv()).await;
        call.expect("it is called").expect("it listens")
    }

    /// The received requests that were not read yet.
    pub fn received(&mut self) -> Vec<ReceivedRequest> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    handlers: &Mutex<Arc<CallHandler>>,
    sender: &mpsc::UnboundedSender<ReceivedRequest>,
) -> Option<()> {
    let called = read(&mut stream).await?;
    let handler = Arc::clone(&*handlers.lock().expect("not poisoned"));
    let reply = handler(&called);
    drop(sender.send(called));
    let (status, body) = match reply {
        Reply::Now(status, body) => (status, body),
        Reply::Late(after, status, body) => {
            tokio::time::sleep(after).await;
            (status, body)
        }
        Reply::Closed => return None,
    };
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.ok()
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let mut lines = text.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let mut called = ReceivedRequest { line, headers: lines.filter_map(header).collect(), body: Value::Null };
    let length: usize = called.header("content-length").parse().unwrap_or(0);
    while request.len() < head + 4 + length {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    called.body = serde_json::from_slice(&request[head + 4..]).unwrap_or(Value::Null);
    Some(called)
}

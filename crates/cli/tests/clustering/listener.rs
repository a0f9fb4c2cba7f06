//! Somebody outside who is called by the server: a small HTTP server that answers as it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Longer than anything here takes; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What somebody was called with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

pub(crate) struct Listener {
    pub(crate) port: u16,
    answer: Arc<Mutex<(u16, String)>>,
    calls: mpsc::UnboundedReceiver<Called>,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// One that answers so until it is told otherwise.
    pub(crate) async fn start(status: u16, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(Mutex::new((status, body.to_owned())));
        let (sender, calls) = mpsc::unbounded_channel();
        let answers = Arc::clone(&answer);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (status, body) = answers.lock().expect("not poisoned").clone();
                if let Some(called) = serve(stream, status, &body).await {
                    drop(sender.send(called));
                }
            }
        });
        Self { port, answer, calls, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Answers otherwise from now on.
    pub(crate) fn answers(&self, status: u16, body: &str) {
        *self.answer.lock().expect("not poisoned") = (status, body.to_owned());
    }

    /// The next call, once it has come.
    pub(crate) async fn call(&mut self) -> Called {
        let call = tokio::time::timeout(PATIENCE, self.calls.recv()).await;
        call.expect("it is called").expect("it listens")
    }

    /// Whether nobody has called.
    pub(crate) fn heard_nothing(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }
}

async fn serve(mut stream: TcpStream, status: u16, body: &str) -> Option<Called> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
    let header = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_default().to_owned()
    };
    let length: usize = header("content-length").parse().unwrap_or(0);
    while request.len() < head + 4 + length {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    let answer = format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    let line = String::from_utf8_lossy(&request).lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let body = serde_json::from_slice(&request[head + 4..]).unwrap_or(Value::Null);
    Some(Called { line, content_type: header("content-type"), body })
}

//! The listener on the shim's socket. A request is one line of JSON, and so is its reply.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use crate::shim::wire::{ShimReply, ShimRequest};
use crate::sys;

/// Longest request that is read; valid requests have about a hundred bytes.
const MAX_REQUEST_BYTES: u64 = 4096;

/// Requests that may be queued; further connections wait. A server sends one request at a time.
const QUEUE: usize = 4;

/// Pause after a failed accept, such as when file descriptors are exhausted.
const PAUSE: Duration = Duration::from_secs(1);

/// A request with the sender for its reply.
pub(super) type PendingRequest = (ShimRequest, oneshot::Sender<ShimReply>);

/// Accepts connections and queues their requests.
pub(super) struct RequestListener {
    listener: UnixListener,
    queue: mpsc::Sender<PendingRequest>,
}

impl RequestListener {
    pub(super) fn new(listener: StdListener) -> io::Result<(Self, mpsc::Receiver<PendingRequest>)> {
        let (queue, requests) = mpsc::channel(QUEUE);
        Ok((Self { listener: UnixListener::from_std(listener)?, queue }, requests))
    }

    pub(super) fn replace_socket(&mut self, listener: StdListener) -> io::Result<()> {
        self.listener = UnixListener::from_std(listener)?;
        Ok(())
    }

    /// Accepts the next connection and serves it in a task. Cancel safe.
    pub(super) async fn accept_connection(&self) {
        match self.listener.accept().await {
            Ok((stream, _)) if is_allowed_peer(&stream) => {
                tokio::spawn(serve_connection(stream, self.queue.clone()));
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Returns true if the peer runs as the user of the shim, or as root.
fn is_allowed_peer(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == sys::user_id() || peer.uid() == 0)
}

async fn serve_connection(stream: UnixStream, queue: mpsc::Sender<PendingRequest>) {
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::with_capacity(512, input);
    loop {
        let mut line = String::new();
        match (&mut input).take(MAX_REQUEST_BYTES).read_line(&mut line).await {
            Ok(length) if length > 0 && line.ends_with('\n') => {}
            _ => return,
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => {
                let (reply, answer) = oneshot::channel();
                if queue.send((request, reply)).await.is_err() {
                    return;
                }
                let Ok(answer) = answer.await else { return };
                answer
            }
            Err(error) => {
                ShimReply::Failed { message: format!("the shim does not support this request: {error}") }
            }
        };
        let Ok(mut text) = serde_json::to_vec(&answer) else { return };
        text.push(b'\n');
        if output.write_all(&text).await.is_err() {
            return;
        }
    }
}

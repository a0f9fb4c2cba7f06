//! The shim's ear: connections to its socket, one line of JSON each way.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use crate::shim::wire::{Answer, Request};
use crate::sys;

/// A request is a hundred bytes; more is no request.
const LONGEST_REQUEST: u64 = 4096;

/// Who asks beyond these waits: a server asks one thing at a time.
const WAITING: usize = 4;

/// How long nobody is listened to after a connection could not be taken.
const PAUSE: Duration = Duration::from_secs(1);

/// A request, and where its answer goes.
pub(super) type Asked = (Request, oneshot::Sender<Answer>);

/// Listens for requests, until it is dropped or told to listen elsewhere.
pub(super) struct Ear {
    listener: UnixListener,
    asked: mpsc::Sender<Asked>,
}

impl Ear {
    pub(super) fn new(listener: StdListener) -> io::Result<(Self, mpsc::Receiver<Asked>)> {
        let (asked, requests) = mpsc::channel(WAITING);
        Ok((Self { listener: UnixListener::from_std(listener)?, asked }, requests))
    }

    pub(super) fn listen_to(&mut self, listener: StdListener) -> io::Result<()> {
        self.listener = UnixListener::from_std(listener)?;
        Ok(())
    }

    /// Takes the next connection; it is served beside whatever else goes on. Cancel safe.
    pub(super) async fn accept(&self) {
        match self.listener.accept().await {
            Ok((stream, _)) if is_ours(&stream) => {
                tokio::spawn(serve(stream, self.asked.clone()));
            }
            Ok(_) => {}
            // Of descriptors there may be some again in a while.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Whether whoever is at the other end is our user, or root.
fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == sys::user() || peer.uid() == 0)
}

async fn serve(stream: UnixStream, asked: mpsc::Sender<Asked>) {
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::with_capacity(512, input);
    loop {
        let mut line = String::new();
        match (&mut input).take(LONGEST_REQUEST).read_line(&mut line).await {
            Ok(length) if length > 0 && line.ends_with('\n') => {}
            _ => return,
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => {
                let (reply, answer) = oneshot::channel();
                if asked.send((request, reply)).await.is_err() {
                    return;
                }
                let Ok(answer) = answer.await else { return };
                answer
            }
            Err(error) => Answer::Failed { message: format!("the shim does not know this request: {error}") },
        };
        let Ok(mut text) = serde_json::to_vec(&answer) else { return };
        text.push(b'\n');
        if output.write_all(&text).await.is_err() {
            return;
        }
    }
}

//! Requests to a running shim: sends one and reads the reply.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::action::Fence;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use crate::shim::lock::StaleGeneration;
use crate::shim::wire::{ShimReply, ShimRequest, ShimStatus};
use crate::sys::{self, Pidfd};

/// Time limit of a reply. An idle shim replies at once; a slower one is suspended or stuck.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a shim gets to create its socket again, and the interval of connection attempts meanwhile.
const SOCKET_TIMEOUT: Duration = Duration::from_millis(2500);
const CONNECT_INTERVAL: Duration = Duration::from_millis(25);

/// A reason why a request to a shim failed.
#[derive(Debug, thiserror::Error)]
pub enum ShimRequestError {
    /// The node has seen a higher generation.
    #[error(transparent)]
    Refused(#[from] StaleGeneration),
    /// The shim has ended.
    #[error("the node's shim has ended")]
    ShimEnded,
    /// The shim is alive but does not reply.
    #[error("the node's shim (process {shim}) is alive but has not replied within {} s", REPLY_TIMEOUT.as_secs())]
    NoReply {
        /// The process number of the shim.
        shim: i32,
    },
    /// The shim is alive but its socket is gone, and it cannot create another.
    #[error("the node's shim (process {shim}) is alive but does not listen at {}", socket.display())]
    NoSocket {
        /// The process number of the shim.
        shim: i32,
        /// The path of its socket.
        socket: PathBuf,
    },
    /// The request could not be sent, or its reply not be read.
    #[error("the request to the node's shim failed: {0}")]
    Io(io::Error),
    /// The shim replied with an error.
    #[error("the node's shim failed: {0}")]
    Failed(String),
}

/// Sends a request to the shim with this process and socket.
pub(super) async fn send(
    shim: i32,
    process: &Pidfd,
    socket: &Path,
    request: &ShimRequest,
    given: Fence,
) -> Result<ShimStatus, ShimRequestError> {
    let answered = async {
        // Connecting has its own time limit, since a shim without socket is another error than a silent one.
        let stream = connect(process, socket).await?;
        match timeout(REPLY_TIMEOUT, exchange(stream, request)).await {
            Ok(answer) => answer.map(Some),
            Err(_) => Ok(None),
        }
    };
    let answered = tokio::select! {
        // A reply that has arrived takes precedence over the end of the shim after it.
        biased;
        answer = answered => answer,
        Ok(()) = process.wait_for_exit() => Err(io::ErrorKind::UnexpectedEof.into()),
    };
    match answered {
        Ok(Some(ShimReply::Status(status))) => Ok(*status),
        Ok(Some(ShimReply::Refused { highest })) => Err(StaleGeneration { given, highest }.into()),
        Ok(Some(ShimReply::Failed { message })) => Err(ShimRequestError::Failed(message)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ShimRequestError::ShimEnded),
        Err(error) if is_missing(&error) => {
            Err(ShimRequestError::NoSocket { shim, socket: socket.to_owned() })
        }
        Err(error) => Err(ShimRequestError::Io(error)),
        Ok(None) => Err(ShimRequestError::NoReply { shim }),
    }
}

async fn exchange(stream: UnixStream, request: &ShimRequest) -> io::Result<ShimReply> {
    let peer = stream.peer_cred()?;
    if peer.uid() != sys::user_id() {
        return Err(io::Error::other(format!("the socket belongs to user {}", peer.uid())));
    }
    let (input, mut output) = stream.into_split();
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    output.write_all(&text).await.map_err(broken_to_end)?;
    let mut line = String::new();
    BufReader::new(input).read_line(&mut line).await.map_err(broken_to_end)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// Maps the error of a broken connection to that of a shim that has ended, because only its end breaks a connection.
fn broken_to_end(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => io::ErrorKind::UnexpectedEof.into(),
        _ => error,
    }
}

/// Connects to the shim. If a clean-up removed its socket, signals the shim to create it again.
async fn connect(process: &Pidfd, socket: &Path) -> io::Result<UnixStream> {
    let mut last = match UnixStream::connect(socket).await {
        Err(error) if is_missing(&error) => error,
        connected => return connected,
    };
    process.signal(Signal::HUP)?;
    let signalled = Instant::now();
    while signalled.elapsed() < SOCKET_TIMEOUT {
        tokio::time::sleep(CONNECT_INTERVAL).await;
        last = match UnixStream::connect(socket).await {
            Err(error) if is_missing(&error) => error,
            connected => return connected,
        };
    }
    Err(last)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

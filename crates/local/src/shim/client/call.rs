//! One question to a living shim, and its answer.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::action::Fence;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use crate::shim::lock::Refused;
use crate::shim::wire::{Answer, Request, Status};
use crate::sys::{self, Pidfd};

/// How long a shim may take to answer. It has nothing else to do; one that takes longer is stopped, or stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a shim that was asked to listen again may take, and how often it is called meanwhile.
const LISTENS_WITHIN: Duration = Duration::from_millis(2500);
const BETWEEN: Duration = Duration::from_millis(25);

/// Why a shim did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Somebody with a higher generation was there before.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It has ended meanwhile.
    #[error("the node's shim has ended")]
    Gone,
    /// It lives, and does not answer.
    #[error("the node's shim (process {shim}) lives and has not answered within {} s", PATIENCE.as_secs())]
    Silent {
        /// Its number.
        shim: i32,
    },
    /// It lives, and does not listen: its socket is gone and it cannot make another.
    #[error("the node's shim (process {shim}) lives and does not listen at {}", socket.display())]
    Deaf {
        /// Its number.
        shim: i32,
        /// Where it should.
        socket: PathBuf,
    },
    /// Asking it failed on our side.
    #[error("the node's shim cannot be asked: {0}")]
    Io(io::Error),
    /// It said that it cannot.
    #[error("the node's shim cannot do it: {0}")]
    Failed(String),
}

/// Asks the shim behind `process`, which listens at `socket`.
pub(super) async fn ask(
    shim: i32,
    process: &Pidfd,
    socket: &Path,
    request: &Request,
    given: Fence,
) -> Result<Status, CommandError> {
    let answered = async {
        // Connecting has a limit of its own: a shim that does not listen is not one that does not answer.
        let stream = connect(process, socket).await?;
        match timeout(PATIENCE, exchange(stream, request)).await {
            Ok(answer) => answer.map(Some),
            Err(_) => Ok(None),
        }
    };
    let answered = tokio::select! {
        // An answer that is there counts more than the end that came after it.
        biased;
        answer = answered => answer,
        Ok(()) = process.ended() => Err(io::ErrorKind::UnexpectedEof.into()),
    };
    match answered {
        Ok(Some(Answer::Status(status))) => Ok(*status),
        Ok(Some(Answer::Refused { highest })) => Err(Refused { given, highest }.into()),
        Ok(Some(Answer::Failed { message })) => Err(CommandError::Failed(message)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CommandError::Gone),
        Err(error) if is_missing(&error) => Err(CommandError::Deaf { shim, socket: socket.to_owned() }),
        Err(error) => Err(CommandError::Io(error)),
        Ok(None) => Err(CommandError::Silent { shim }),
    }
}

async fn exchange(stream: UnixStream, request: &Request) -> io::Result<Answer> {
    let peer = stream.peer_cred()?;
    if peer.uid() != sys::user() {
        return Err(io::Error::other(format!("it belongs to user {}, not to us", peer.uid())));
    }
    let (input, mut output) = stream.into_split();
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    output.write_all(&text).await.map_err(as_end)?;
    let mut line = String::new();
    BufReader::new(input).read_line(&mut line).await.map_err(as_end)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// A connection that breaks was cut by the end of the shim.
fn as_end(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => io::ErrorKind::UnexpectedEof.into(),
        _ => error,
    }
}

/// Connects; if somebody tidied up the folder of sockets, the shim is asked to listen again.
async fn connect(process: &Pidfd, socket: &Path) -> io::Result<UnixStream> {
    let mut last = match UnixStream::connect(socket).await {
        Err(error) if is_missing(&error) => error,
        connected => return connected,
    };
    process.signal(Signal::HUP)?;
    let asked = Instant::now();
    while asked.elapsed() < LISTENS_WITHIN {
        tokio::time::sleep(BETWEEN).await;
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

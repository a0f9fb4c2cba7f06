//! Lines of JSON over a socket: one request on a connection, and its responses.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{UnixListener, UnixStream};

/// Sends a request, and returns the first response.
pub(super) async fn send_request<Q: Serialize, A: DeserializeOwned>(
    socket: &Path,
    request: &Q,
) -> io::Result<A> {
    let mut answers = open(socket, request).await?;
    let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "it went away before it answered");
    next(&mut answers).await?.ok_or_else(ended)
}

/// Sends a request, and returns all responses as they arrive.
pub(super) async fn open<Q: Serialize>(
    socket: &Path,
    request: &Q,
) -> io::Result<Lines<BufReader<UnixStream>>> {
    let mut stream = UnixStream::connect(socket).await?;
    send(&mut stream, request).await?;
    Ok(BufReader::new(stream).lines())
}

/// The next response; `None` at the end.
pub(super) async fn next<A: DeserializeOwned>(
    answers: &mut Lines<BufReader<UnixStream>>,
) -> io::Result<Option<A>> {
    let line = answers.next_line().await?;
    Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
}

/// Writes one line.
pub(super) async fn send(stream: &mut UnixStream, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).await
}

/// Listens on a socket, after removing the file that a killed process may have left.
pub(super) fn listen(socket: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => UnixListener::bind(socket),
    }
}

/// Reads the request of a connection.
pub(super) async fn request<Q: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<Q> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}

//! Bounds on connections: how many there are, and how long a client may take to send a request's head.

mod first_bytes;

use std::collections::HashMap;
use std::future::ready;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::future::{BoxFuture, FutureExt as _};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower_service::Service;

use first_bytes::FirstBytes;

/// The most connections to one port, if the process may have that many files open.
const MOST: u64 = 4_096;

/// How long a client may take to send the head of a request, and how long an idle connection is kept.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// A connection of HTTP/2 that is silent for so long is probed.
const PROBE_AFTER: Duration = Duration::from_secs(30);

/// How long the other end may take to answer a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// The most requests of one HTTP/2 connection that are open at a time.
const STREAMS: u32 = 256;

/// How much of a request's head, and of an answer that its client does not read, a connection of HTTP/1.1 keeps.
const BUFFER: usize = 32 << 10;

/// Sets the time-outs and buffers of connections; without a timer there are none.
pub(crate) fn set_limits(builder: &mut Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_AFTER)
        .keep_alive_timeout(PROBE_LIMIT)
        .max_concurrent_streams(STREAMS);
}

/// The files that a server with the most connections opens: there are two ports, and half is for its other work.
const FILES: u64 = MOST * 4;

/// How many files the process may open; raised to [`FILES`] as far as the machine allows.
fn open_file_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(FILES);
    let wanted = maximum.unwrap_or(FILES).min(FILES).max(current);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    if raised.is_ok() { wanted } else { current }
}

/// The address that a connection comes from, if it has one.
pub(crate) trait Peer {
    fn peer(&self) -> Option<IpAddr>;
}

impl Peer for TcpStream {
    fn peer(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|address| address.ip())
    }
}

/// Open connections by their peers.
#[derive(Default)]
struct OpenConnections {
    all: usize,
    of_peers: HashMap<Option<IpAddr>, usize>,
}

/// Accepts connections as long as there are not too many; what is beyond that is closed at once. One peer has at most
/// half of them, so that no single machine keeps others out, such as the probes of Kubernetes.
#[derive(Clone)]
pub(crate) struct LimitedAcceptor<A> {
    inner: A,
    most: usize,
    open: Arc<Mutex<OpenConnections>>,
}

impl<A> LimitedAcceptor<A> {
    pub(crate) fn new(inner: A) -> Self {
        Self::with_limit(inner, usize::try_from(MOST.min(open_file_limit() / 4)).unwrap_or(2).max(2))
    }

    fn with_limit(inner: A, most: usize) -> Self {
        Self { inner, most, open: Arc::default() }
    }

    fn open(&self, peer: Option<IpAddr>) -> Option<OpenConnection> {
        let mut open = self.open.lock();
        let of_peer = open.of_peers.get(&peer).copied().unwrap_or_default();
        if open.all >= self.most || of_peer >= self.most / 2 {
            return None;
        }
        open.all += 1;
        open.of_peers.insert(peer, of_peer + 1);
        Some(OpenConnection { peer, among: Arc::clone(&self.open) })
    }
}

/// One open connection; it counts for as long as this is there.
struct OpenConnection {
    peer: Option<IpAddr>,
    among: Arc<Mutex<OpenConnections>>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.among.lock();
        open.all -= 1;
        if let Some(of_peer) = open.of_peers.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                open.of_peers.remove(&self.peer);
            }
        }
    }
}

impl<I, S, A> Accept<I, S> for LimitedAcceptor<A>
where
    I: Peer,
    A: Accept<I, S>,
    A::Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A::Service: Send + 'static,
    A::Future: Send + 'static,
{
    type Stream = FirstBytes<A::Stream>;
    type Service = Counted<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Some(open) = self.open(stream.peer()) else {
            tracing::warn!("refused a connection: there are too many");
            return ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed();
        };
        let accepted = self.inner.accept(stream, service);
        async move {
            let (stream, inner) = accepted.await?;
            Ok((FirstBytes::within(HEAD_LIMIT, stream), Counted { inner, _open: Arc::new(open) }))
        }
        .boxed()
    }
}

/// The service of a connection, which counts for as long as it is there.
#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    _open: Arc<OpenConnection>,
}

impl<S: Service<R>, R> Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_beyond_the_limit_are_closed_until_others_end() {
        let acceptor = LimitedAcceptor::with_limit((), 4);
        let [one, another, third] = [1, 2, 3].map(|machine| Some(IpAddr::from([127, 0, 0, machine])));
        let mut open: Vec<OpenConnection> =
            (0..2).map(|_| acceptor.open(one).expect("there is room")).collect();
        assert!(acceptor.open(one).is_none(), "one peer has half of them");
        open.extend((0..2).map(|_| acceptor.open(another).expect("there is room")));
        assert!(acceptor.open(third).is_none(), "all are taken");
        open.pop();
        assert!(acceptor.open(third).is_some());
        drop(open);
        assert!(acceptor.open.lock().of_peers.is_empty(), "peers without connections are forgotten");
    }
}

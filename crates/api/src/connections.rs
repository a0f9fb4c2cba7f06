//! Limits on connections: their number, and the time in which a client has to send the head of a request.

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

/// The largest number of connections to one port, if the limit of open files allows it.
const MOST: u64 = 4_096;

/// The time in which a client has to send the head of a request, and after which an idle connection is closed.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// The idle time after which an HTTP/2 connection is probed.
const PROBE_AFTER: Duration = Duration::from_secs(30);

/// The time in which the client has to answer a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// The largest number of concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 256;

/// The buffer of an HTTP/1.1 connection, for the head of a request and for the unread part of a response.
const BUFFER: usize = 32 << 10;

/// Sets the timeouts and buffers of connections. Without the timer, the timeouts have no effect.
pub(crate) fn set_limits(builder: &mut Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_AFTER)
        .keep_alive_timeout(PROBE_LIMIT)
        .max_concurrent_streams(STREAMS);
}

/// The open files that a server needs for the largest number of connections: two ports, and as much for other work.
const FILES: u64 = MOST * 4;

/// Returns the limit of open files, after raising it to [`FILES`] as far as the hard limit allows.
fn open_file_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(FILES);
    let wanted = maximum.unwrap_or(FILES).min(FILES).max(current);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    if raised.is_ok() { wanted } else { current }
}

/// A connection that may know the address of its peer.
pub(crate) trait Peer {
    fn peer(&self) -> Option<IpAddr>;
}

impl Peer for TcpStream {
    fn peer(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|address| address.ip())
    }
}

/// The number of open connections, in total and by peer.
#[derive(Default)]
struct OpenConnections {
    all: usize,
    of_peers: HashMap<Option<IpAddr>, usize>,
}

/// Accepts connections up to a limit; connections beyond it are closed at once. One peer may have at most half of them,
/// so that a single machine cannot exclude others, such as the probes of Kubernetes.
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

/// One open connection, which counts until this value is dropped.
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

/// The service of a connection, which keeps the connection counted until it is dropped.
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

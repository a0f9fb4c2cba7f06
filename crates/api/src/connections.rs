//! Bounds on connections: how many there are, and how long a client may take to send a request's head.

use std::future::ready;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::future::{BoxFuture, FutureExt as _};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

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

/// Sets the time-outs of connections; without a timer there are none.
pub(crate) fn set_limits(builder: &mut Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_AFTER)
        .keep_alive_timeout(PROBE_LIMIT)
        .max_concurrent_streams(STREAMS);
}

/// Accepts connections as long as there are not too many; what is beyond that is closed at once.
#[derive(Clone)]
pub(crate) struct LimitedAcceptor<A> {
    inner: A,
    free: Arc<Semaphore>,
}

impl<A> LimitedAcceptor<A> {
    /// A quarter of the files that the process may open: there are two ports, and a server needs files for its work.
    pub(crate) fn new(inner: A) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(MOST * 4);
        Self::with_limit(inner, usize::try_from(MOST.min(files / 4)).unwrap_or(1).max(1))
    }

    fn with_limit(inner: A, most: usize) -> Self {
        Self { inner, free: Arc::new(Semaphore::new(most)) }
    }
}

impl<I, S, A> Accept<I, S> for LimitedAcceptor<A>
where
    A: Accept<I, S>,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
    A::Future: Send + 'static,
{
    type Stream = A::Stream;
    type Service = Counted<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            tracing::warn!("refused a connection: there are too many");
            return ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed();
        };
        let permit = Arc::new(permit);
        let accepted = self.inner.accept(stream, service);
        async move { accepted.await.map(|(stream, inner)| (stream, Counted { inner, _permit: permit })) }
            .boxed()
    }
}

/// The service of a connection, which counts for as long as it is there.
#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    _permit: Arc<OwnedSemaphorePermit>,
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
    use axum_server::accept::DefaultAcceptor;

    use super::*;

    #[tokio::test]
    async fn connections_beyond_the_limit_are_closed_until_others_end() {
        let acceptor = LimitedAcceptor::with_limit(DefaultAcceptor::new(), 1);
        let first = acceptor.accept((), ()).await.expect("there is room for one");
        assert!(acceptor.accept((), ()).await.is_err());
        drop(first);
        assert!(acceptor.accept((), ()).await.is_ok());
    }
}

//! A time limit for the first bytes of a connection.
//!
//! The HTTP server reads the first bytes to detect the version of HTTP. Its own timeouts start after that, so a client
//! that sends nothing would stay connected without end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The number of bytes that the detection needs: the preface of HTTP/2. Every HTTP/1.1 request is longer.
const PREFACE: usize = 24;

/// A connection whose first bytes have to arrive within a time limit.
pub(crate) struct FirstBytes<S> {
    stream: S,
    /// The number of missing bytes and their deadline; none once all have arrived.
    missing: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> FirstBytes<S> {
    pub(super) fn within(limit: Duration, stream: S) -> Self {
        Self { stream, missing: Some((PREFACE, Box::pin(sleep(limit)))) }
    }

    fn count(&mut self, read: usize) {
        self.missing = self
            .missing
            .take()
            .and_then(|(missing, limit)| (missing > read).then(|| (missing - read, limit)));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            self.count(buffer.filled().len() - before);
            return Poll::Ready(read);
        }
        let Some((_, limit)) = &mut self.missing else { return Poll::Pending };
        ready!(limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[rstest]
    #[case::nothing(b"", true)]
    #[case::part_of_the_preface(b"PRI * HT", true)]
    #[case::the_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false)]
    #[case::a_request(b"GET / HTTP/1.1\r\nHost: a\r\n", false)]
    #[tokio::test(start_paused = true)]
    async fn a_client_has_a_limited_time_for_its_first_bytes(#[case] sent: &[u8], #[case] ends: bool) {
        let (mut client, server) = duplex(64);
        client.write_all(sent).await.unwrap();
        let mut server = FirstBytes::within(LIMIT, server);
        let mut received = Vec::new();
        let read = tokio::time::timeout(LIMIT * 10, server.read_to_end(&mut received)).await;
        let timed_out = read.is_ok_and(|read| read.is_err_and(|why| why.kind() == io::ErrorKind::TimedOut));
        assert_eq!((timed_out, received.as_slice()), (ends, sent));
    }
}

//! Limits the open streams of a caller, since each stream reads the database at every commit that concerns it, and ends
//! streams when the server stops.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use muster_core::principal::Principal;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::error::ApiError;

/// The largest number of open streams of one caller.
const MOST: usize = 100;

/// The scheme and the id of a caller.
pub(crate) type CallerKey = (String, String);

/// Returns the key that identifies a caller.
pub(crate) fn key_of(caller: &Principal) -> CallerKey {
    (caller.scheme.clone(), caller.id.clone())
}

/// The number of open streams by caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamLimit {
    open: Arc<Mutex<HashMap<CallerKey, usize>>>,
}

/// One open stream, which counts until this value is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream {
    limit: StreamLimit,
    key: CallerKey,
}

impl StreamLimit {
    /// Counts another stream of a caller; refuses it if the caller has too many.
    pub(crate) fn open(&self, caller: &Principal) -> Result<OpenStream, ApiError> {
        let key = key_of(caller);
        let mut open = self.open.lock();
        let count = open.entry(key.clone()).or_default();
        if *count >= MOST {
            let message = format!("you have {MOST} open streams, which is the limit: close some first");
            return Err(ApiError::too_many(message).code("TooManyStreams"));
        }
        *count += 1;
        Ok(OpenStream { limit: self.clone(), key })
    }
}

impl OpenStream {
    /// Wraps a stream so that it counts until it is dropped.
    pub(crate) fn count<T>(self, stream: impl Stream<Item = T> + Send + 'static) -> BoxStream<'static, T> {
        stream
            .map(move |item| {
                let _counts = &self;
                item
            })
            .boxed()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.limit.open.lock();
        if let Some(count) = open.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

/// Ends a stream with an error once the server stops. Without the error, a client would mistake that for the end of what
/// it reads.
pub(crate) fn until_closed<T: Send + 'static>(
    closing: &CancellationToken,
    messages: impl Stream<Item = Result<T, Status>> + Send + 'static,
    message: &'static str,
) -> BoxStream<'static, Result<T, Status>> {
    let interrupted = closing.clone();
    let stopping = stream::once(async move { interrupted.is_cancelled() }).filter_map(move |stops| {
        let stopped = || Err(ApiError::unavailable(message).code("ServerStopping").into());
        ready(stops.then(stopped))
    });
    messages.take_until(closing.clone().cancelled_owned()).chain(stopping).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_that_a_stopping_server_ends_has_an_error() {
        let closing = CancellationToken::new();
        let endless = stream::iter([Ok(1)]).chain(stream::pending());
        let mut messages = until_closed(&closing, endless, "the server is stopping");
        assert_eq!(messages.next().await.unwrap().unwrap(), 1);
        closing.cancel();
        let stopped = messages.next().await.unwrap().unwrap_err();
        assert_eq!((stopped.code(), stopped.message()), (tonic::Code::Unavailable, "the server is stopping"));
        assert!(messages.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_ends_by_itself_has_no_error() {
        let complete = stream::iter([Ok::<_, Status>(1)]);
        let messages = until_closed(&CancellationToken::new(), complete, "the server is stopping");
        assert_eq!(messages.collect::<Vec<_>>().await.len(), 1);
    }

    #[test]
    fn a_caller_may_have_so_many_streams_and_others_have_theirs() {
        let limit = StreamLimit::default();
        let (ada, bob) = (caller("ada"), caller("bob"));
        let mut open: Vec<OpenStream> = (0..MOST).map(|_| limit.open(&ada).unwrap()).collect();
        assert_eq!(limit.open(&ada).unwrap_err().code, "TooManyStreams");
        assert!(limit.open(&bob).is_ok());
        open.pop();
        assert!(limit.open(&ada).is_ok());
        drop(open);
        assert!(limit.open.lock().is_empty(), "nothing is kept of callers that are gone");
    }

    fn caller(name: &str) -> Principal {
        Principal { id: name.to_owned(), ..muster_core::sample::principal() }
    }
}

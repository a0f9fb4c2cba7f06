//! How many streams a caller may have open: each reads the database at every commit that concerns it.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::{BoxStream, Stream, StreamExt as _};
use muster_core::principal::Principal;
use parking_lot::Mutex;

use crate::error::ApiError;

/// The most open streams of one caller.
const MOST: usize = 100;

/// Scheme and id of a caller.
pub(crate) type CallerKey = (String, String);

/// Identifies a caller.
pub(crate) fn key_of(caller: &Principal) -> CallerKey {
    (caller.scheme.clone(), caller.id.clone())
}

/// Open streams by caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamLimit {
    open: Arc<Mutex<HashMap<CallerKey, usize>>>,
}

/// One open stream; it counts for as long as this is there.
#[derive(Debug)]
pub(crate) struct OpenStream {
    limit: StreamLimit,
    key: CallerKey,
}

impl StreamLimit {
    /// Counts another stream of a caller, unless that has too many.
    pub(crate) fn open(&self, caller: &Principal) -> Result<OpenStream, ApiError> {
        let key = key_of(caller);
        let mut open = self.open.lock();
        let count = open.entry(key.clone()).or_default();
        if *count >= MOST {
            let message = format!("you have {MOST} open streams, and may have no more: close some first");
            return Err(ApiError::too_many(message).code("TooManyStreams"));
        }
        *count += 1;
        Ok(OpenStream { limit: self.clone(), key })
    }
}

impl OpenStream {
    /// A stream that counts until it is dropped.
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

#[cfg(test)]
mod tests {
    use super::*;

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
